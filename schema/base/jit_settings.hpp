// The options of the just-in-time compiler and linker, as a value that program,
// worker and devices share (CUDA driver API, CUjit_option).
#pragma once

#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vgpu {

/// Holds the options that change code. Logs and times are not among them,
/// because they are answers.
struct jit_settings {
  /// An address that the program gives for a variable that the image declares
  /// and does not define (CU_JIT_GLOBAL_SYMBOL_NAMES).
  struct symbol {
    std::string name;
    device_address address = 0;
    friend bool operator==(const symbol&, const symbol&) = default;
  };

  /// Holds the values by CUjit_option. An option that the program did not give
  /// is absent.
  std::map<std::uint32_t, std::uint32_t> options;
  std::vector<symbol> symbols;

  bool empty() const noexcept { return options.empty() && symbols.empty(); }
  std::optional<std::uint32_t> option(int key) const {
    auto found = options.find(static_cast<std::uint32_t>(key));
    if (found == options.end())
      return {};
    return found->second;
  }

  friend bool operator==(const jit_settings&, const jit_settings&) = default;
};

/// Returns the settings as bytes for a call. No settings are no bytes.
std::vector<std::byte> encode(const jit_settings& x);
/// Returns the settings that the bytes hold. The bytes may be hostile; returns
/// a fault of kind `corrupt` for malformed ones.
result<jit_settings> decode_jit_settings(std::span<const std::byte> bytes);

} // namespace vgpu
