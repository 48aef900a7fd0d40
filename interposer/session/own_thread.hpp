// Threads of the library's own, in a process that is the program's.
#pragma once

#include <functional>

namespace vgpu::interposer {

/// Runs `body` on a thread of its own, which lives as long as the process and
/// does not hold up its exit: what it uses must never be destroyed. It gets
/// none of the program's signals, but for those that it raises by itself, by
/// touching managed memory for example. False where there can be no more
/// threads.
bool start_own_thread(std::function<void()> body);

/// Tells whether the calling thread runs the program's host functions. Some of
/// its calls must not wait then, and others are not permitted.
bool runs_host_functions() noexcept;
/// Notes that the calling thread runs them, until it ends.
void become_host_function_thread() noexcept;

} // namespace vgpu::interposer
