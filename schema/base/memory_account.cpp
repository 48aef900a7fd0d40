#include "schema/base/memory_account.hpp"

#include "schema/base/round_up.hpp"

namespace vgpu {

memory_account::extent
memory_account::extent_of(device_address address,
                          std::uint64_t bytes) const noexcept {
  auto end = address + bytes;
  auto first = address / granule_, last = (end - 1) / granule_;
  auto starts_whole = address % granule_ == 0;
  auto ends_whole = end % granule_ == 0;
  extent out;
  if (first == last && !(starts_whole && ends_whole)) {
    out.shared[out.count++] = first;
    return out;
  }
  out.whole = (last - first + 1) * granule_;
  if (!starts_whole)
    out.shared[out.count++] = first;
  if (!ends_whole)
    out.shared[out.count++] = last;
  out.whole -= out.count * granule_;
  return out;
}

std::uint64_t memory_account::cost(device_address address,
                                   std::uint64_t bytes) const {
  auto what = extent_of(address, bytes);
  auto out = what.whole;
  for (std::size_t i = 0; i < what.count; ++i)
    if (!shared_.contains(what.shared[i]))
      out += granule_;
  return out;
}

std::uint64_t memory_account::insert(device_address address,
                                     std::uint64_t bytes) {
  auto what = extent_of(address, bytes);
  auto out = what.whole;
  for (std::size_t i = 0; i < what.count; ++i)
    if (++shared_[what.shared[i]] == 1)
      out += granule_;
  ranges_ += out;
  return out;
}

std::uint64_t memory_account::erase(device_address address,
                                    std::uint64_t bytes) {
  auto what = extent_of(address, bytes);
  auto out = what.whole;
  for (std::size_t i = 0; i < what.count; ++i)
    if (auto known = shared_.find(what.shared[i]);
        known != shared_.end() && --known->second == 0) {
      shared_.erase(known);
      out += granule_;
    }
  ranges_ -= out;
  return out;
}

std::uint64_t
memory_account::cost_of_variables(std::uint64_t bytes) const noexcept {
  return round_up(variables_ + bytes, granule_) -
         round_up(variables_, granule_);
}

std::uint64_t memory_account::used() const noexcept {
  return ranges_ + apart_ + round_up(variables_, granule_) + heap_;
}

bool memory_account::has_room(std::uint64_t bytes,
                              std::uint64_t quota) const noexcept {
  auto now = used();
  return now <= quota && bytes <= quota - now;
}

} // namespace vgpu
