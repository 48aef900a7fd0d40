#include "actors/records/directory.hpp"

namespace vgpu {

bool directory::publish(const std::string& name, entry what) {
  auto [i, is_new] = entries_.try_emplace(name, what);
  if (!is_new && what.epoch < i->second.epoch)
    return false;
  i->second = std::move(what);
  return true;
}

bool directory::withdraw(const std::string& name, vgpu::epoch upto) {
  auto i = entries_.find(name);
  if (i == entries_.end())
    return true;
  if (upto < i->second.epoch)
    return false;
  entries_.erase(i);
  return true;
}

const directory::entry* directory::find(const std::string& name) const {
  auto i = entries_.find(name);
  return i == entries_.end() ? nullptr : &i->second;
}

} // namespace vgpu
