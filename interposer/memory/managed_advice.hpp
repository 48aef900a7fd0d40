// What the program advised about managed memory: kept to be told again, as
// nothing here is faster for it.
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

/// Advice about one range. A value.
struct advice {
  using location = std::pair<CUmemLocationType, int>;
  static constexpr location nowhere{CU_MEM_LOCATION_TYPE_INVALID, 0};

  bool read_mostly = false;
  location preferred = nowhere;
  location prefetched = nowhere;
  std::set<location> accessed_by;
};

/// Advice by address. Ranges of which nothing was said have none of it.
/// Thread-safe.
class advice_map {
public:
  /// Applies `change` to all advice about [at, at + bytes).
  void apply(device_address at, std::uint64_t bytes,
             const std::function<void(advice&)>& change);
  /// Calls `look` with all advice about the range, that of untouched parts
  /// included.
  void each(device_address at, std::uint64_t bytes,
            const std::function<void(const advice&)>& look) const;
  void forget(device_address at, std::uint64_t bytes);

private:
  struct range {
    std::uint64_t bytes = 0;
    advice what;
  };
  using range_map = std::map<device_address, range>;

  void split(device_address at);

  mutable std::mutex mutex_;
  range_map ranges_; // apart from each other
};

/// Gives the process's own. Precondition: the driver's state is made.
advice_map& given_advice() noexcept;

} // namespace vgpu::interposer
