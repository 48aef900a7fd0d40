#include "devices/cpu/run/prepared_code.hpp"

#include <xxhash.h>

#include <algorithm>
#include <utility>

namespace vgpu::device::cpu {

namespace {

std::array<std::uint64_t, 2> hash_of(std::span<const std::byte> image) {
  auto x = XXH3_128bits(image.data(), image.size());
  return {x.low64, x.high64};
}

} // namespace

void prepared_code::add(std::span<const std::byte> image,
                        const jit_settings& how, compiled_code code) {
  kept_.push_back({hash_of(image), image.size(), how, std::move(code)});
  ++counts_.prepared;
}

std::optional<compiled_code>
prepared_code::take(std::span<const std::byte> image, const jit_settings& how) {
  if (kept_.empty())
    return std::nullopt;
  auto name = hash_of(image);
  auto found = std::find_if(kept_.begin(), kept_.end(), [&](auto& x) {
    return x.image == name && x.bytes == image.size() && x.how == how;
  });
  if (found == kept_.end())
    return std::nullopt;
  auto out = std::move(found->code);
  kept_.erase(found);
  return out;
}

preparation_unit::counts prepared_code::forget() {
  kept_ = {};
  return std::exchange(counts_, {});
}

} // namespace vgpu::device::cpu
