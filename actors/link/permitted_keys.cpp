#include "actors/link/permitted_keys.hpp"

#include <algorithm>
#include <utility>

namespace vgpu {

bool is_principal_name(std::string_view name) noexcept {
  constexpr std::size_t longest = 64;
  return !name.empty() && name.size() <= longest &&
         std::ranges::all_of(name, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' ||
                  c == '@';
         });
}

permitted_keys::permitted_keys(table all) {
  replace(std::move(all));
}

void permitted_keys::replace(table all) {
  for (auto& [key, who] : all)
    who.key = key;
  std::lock_guard guard{mutex_};
  auto revoked = std::ranges::any_of(all_, [&](const auto& former) {
    auto i = all.find(former.first);
    return i == all.end() || i->second != *former.second;
  });
  all_.clear();
  for (auto& [key, who] : all)
    all_.emplace(key, std::make_shared<const principal>(std::move(who)));
  std::erase_if(bells_, [](const auto& x) { return x.expired(); });
  if (!revoked)
    return;
  for (const auto& x : bells_)
    if (auto bell = x.lock())
      bell->ring();
}

principal_ptr permitted_keys::find(std::string_view key) const {
  std::lock_guard guard{mutex_};
  auto i = all_.find(key);
  return i == all_.end() ? nullptr : i->second;
}

void permitted_keys::watch(const std::shared_ptr<doorbell>& bell) {
  std::lock_guard guard{mutex_};
  bells_.push_back(bell);
}

} // namespace vgpu
