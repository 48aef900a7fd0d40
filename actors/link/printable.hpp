// Texts of peers in logs and on terminals.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace vgpu {

/// Makes a short, printable text for the log of bytes that a peer sent.
std::string printable(std::string_view name);

/// Returns the text as it may be shown on a terminal, with `?` in place of what
/// could act on it or deceive its reader: control characters and escape
/// sequences, direction marks, and bytes that are not UTF-8. Keeps the control
/// characters in `kept`.
std::string shown(std::string_view text, std::string_view kept = {});

/// Returns how many bytes at the end of the text are the begin of a character
/// that may be continued.
std::size_t unfinished(std::string_view text) noexcept;

} // namespace vgpu
