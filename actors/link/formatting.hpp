// Declares a template of libfmt extern, because each file that logs would
// otherwise spend seconds on instantiating it, and the library exports it.
// CMake includes this header in front of every file, so no file includes it.
// Only build time depends on it. Clang is excluded: Debian builds the library
// with GCC, and clang gives this template another symbol.
#pragma once

#include <spdlog/spdlog.h>

#if defined(__GNUC__) && !defined(__clang__)
extern template void fmt::detail::vformat_to<char>(
    fmt::detail::buffer<char>&, fmt::basic_string_view<char>,
    fmt::basic_format_args<fmt::buffer_context<char>>, fmt::detail::locale_ref);
#endif
