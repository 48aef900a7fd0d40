#pragma once

#include <cstdint>

constexpr auto gib = std::uint64_t{1} << 30;
