// Every file that logs includes this header instead of spdlog. It declares a
// template of libfmt extern, because each such file would otherwise spend
// seconds on instantiating it, and the library exports it. Clang is excluded:
// Debian builds the library with GCC, and clang gives this template another
// symbol.
#pragma once

#include <spdlog/spdlog.h>

#include <cstdio>
#include <string>

#if defined(__GNUC__) && !defined(__clang__)
extern template void fmt::detail::vformat_to<char>(
    fmt::detail::buffer<char>&, fmt::basic_string_view<char>,
    fmt::basic_format_args<fmt::buffer_context<char>>, fmt::detail::locale_ref);
#endif

namespace vgpu {

/// Sends this process's log to stderr, each line with the time, the process's
/// name and its number. VGPU_LOG chooses the level: error, warn, info, debug or
/// trace. `level` is the default. `to` replaces stderr in a process that uses
/// stderr otherwise. Call it once, first in main.
void start_log(const std::string& name, const std::string& level = "info",
               std::FILE* to = stderr);

} // namespace vgpu
