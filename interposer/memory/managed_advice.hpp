// The program's advice about managed memory. It has no effect here, and is kept
// only for the program to read back.
#pragma once

#include "schema/base/ids.hpp"

#include <cuda.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

namespace vgpu::interposer {

/// Holds the advice about one range. It is a value.
struct advice {
  using location = std::pair<CUmemLocationType, int>;
  static constexpr location nowhere{CU_MEM_LOCATION_TYPE_INVALID, 0};

  bool read_mostly = false;
  location preferred = nowhere;
  location prefetched = nowhere;
  std::set<location> accessed_by;
};

/// Holds advice by address. A range without advice has the defaults.
/// Thread-safe.
class advice_map {
public:
  /// Applies `change` to all advice about [at, at + bytes).
  void apply(device_address at, std::uint64_t bytes,
             const std::function<void(advice&)>& change);
  /// Calls `look` with all advice about the range, including that of parts
  /// without advice.
  void each(device_address at, std::uint64_t bytes,
            const std::function<void(const advice&)>& look) const;
  /// Removes all advice about the range.
  void forget(device_address at, std::uint64_t bytes);

private:
  struct range {
    std::uint64_t bytes = 0;
    advice what;
  };
  using range_map = std::map<device_address, range>;

  void split(device_address at);

  mutable std::mutex mutex_;
  range_map ranges_; // without overlaps
};

/// Returns the process's advice. Precondition: the driver's state is made.
advice_map& given_advice() noexcept;

} // namespace vgpu::interposer
