// The proof that the CUDA runtime demands of a driver before using it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace vgpu::interposer {

using digest128 = std::array<std::uint8_t, 16>;

/// Computes MD2 (RFC 1319).
digest128 md2(std::span<const std::uint8_t> message);

/// Computes HMAC (RFC 2104) over MD2, whose block is 16 bytes. `key` is one
/// block.
digest128 hmac_md2(const digest128& key, std::span<const std::uint8_t> message);

/// Describes a device as the program sees it.
struct integrity_device {
  digest128 uuid{};
  std::int32_t pci_domain = 0;
  std::int32_t pci_bus = 0;
  std::int32_t pci_device = 0;
};

/// Holds what the proof covers: the interposer's properties that the runtime
/// can see.
struct integrity_subject {
  std::uint32_t driver_version = 0; ///< result of cuDriverGetVersion
  std::uint32_t process = 0;
  std::uint32_t thread = 0;        ///< low half of pthread_self()
  std::uint64_t runtime_table = 0; ///< address of CUDART_INTERFACE
  /// Holds the address of INTEGRITY_CHECK.
  std::uint64_t integrity_table = 0;
  std::uint64_t check_function = 0; ///< the address in slot 1 of that table
  std::vector<integrity_device> devices; ///< by ordinal
};

/// Computes the answer to INTEGRITY_CHECK, for a runtime of `version` (such as
/// 13002) at `unix_seconds`.
digest128 integrity_answer(const integrity_subject& subject,
                           std::uint32_t version, std::uint64_t unix_seconds);

} // namespace vgpu::interposer
