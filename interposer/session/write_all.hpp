// Writing in a process whose signals interrupt system calls.
#pragma once

#include <cstdio>
#include <string_view>

namespace vgpu::interposer {

/// Writes all of the text, although a signal handler of the program may
/// interrupt it and although the descriptor may not block. Returns false where
/// it cannot.
bool write_all(int to, std::string_view text) noexcept;

/// Writes the text behind all that the stream holds so far. A stream's own
/// functions would lose what is left when a signal interrupts them.
void print_all(std::FILE* to, std::string_view text) noexcept;

} // namespace vgpu::interposer
