#include "interposer/context/peers.hpp"

#include "interposer/context/context_part.hpp"

#include <algorithm>

namespace vgpu::interposer {

bool peer_list::add(const context& from, const context& to) {
  std::lock_guard guard{mutex_};
  auto key = std::pair{&from, &to};
  return pairs_.try_emplace(key, from.device_index(), to.device_index()).second;
}

bool peer_list::remove(const context& from, const context& to) {
  std::lock_guard guard{mutex_};
  return pairs_.erase({&from, &to}) != 0;
}

bool peer_list::allow(std::uint8_t from, std::uint8_t to) {
  std::lock_guard guard{mutex_};
  return std::any_of(pairs_.begin(), pairs_.end(), [&](auto& x) {
    return x.second == std::pair{from, to};
  });
}

peer_list& peers() noexcept {
  return context_part::get().peers;
}

} // namespace vgpu::interposer
