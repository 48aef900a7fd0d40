// A template of libfmt's that every file which logs would compile anew, for
// seconds: the library has it already. What CMake has the compiler read first;
// nothing else needs to include it, and all is the same without it but the time
// that a build takes. Debian's library is GCC's work: clang gives this template
// another symbol.
#pragma once

#include <spdlog/spdlog.h>

#if defined(__GNUC__) && !defined(__clang__)
extern template void fmt::detail::vformat_to<char>(
    fmt::detail::buffer<char>&, fmt::basic_string_view<char>,
    fmt::basic_format_args<fmt::buffer_context<char>>, fmt::detail::locale_ref);
#endif
