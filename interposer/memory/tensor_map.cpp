#include "interposer/memory/tensor_map.hpp"

#include "interposer/memory/memory_part.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace vgpu::interposer {

namespace {

// The cache hashes its bytes.
static_assert(std::has_unique_object_representations_v<tensor_map_spec>);

tensor_map_cache& made_before() noexcept {
  return memory_part::get().tensor_maps;
}

CUresult ask_for_map(std::uint8_t device, const tensor_map_spec& what,
                     tensor_map& out) {
  auto& s = here();
  auto range = s.arena().take(sizeof out);
  auto got = s.ask(call::tensor_map_encode{what, {range.offset(), sizeof out}},
                   device);
  if (got.result == CUDA_SUCCESS)
    std::copy_n(range.bytes().begin(), sizeof out, out.begin());
  return got.result;
}

} // namespace

std::size_t tensor_map_cache::set_of(std::uint8_t device,
                                     const tensor_map_spec& what) noexcept {
  return XXH3_64bits_withSeed(&what, sizeof what, device) % sets;
}

tensor_map_cache::entry*
tensor_map_cache::look_up(std::uint8_t device, const tensor_map_spec& what) {
  if (sets_.empty())
    return nullptr;
  auto& among = sets_[set_of(device, what)];
  auto at = std::find_if(among.begin(), among.end(), [&](const entry& x) {
    return x.used != 0 && x.device == device && x.what == what;
  });
  return at == among.end() ? nullptr : &*at;
}

std::optional<tensor_map> tensor_map_cache::find(std::uint8_t device,
                                                 const tensor_map_spec& what) {
  std::lock_guard guard{mutex_};
  auto* known = look_up(device, what);
  if (known == nullptr)
    return std::nullopt;
  known->used = ++now_;
  return known->made;
}

void tensor_map_cache::keep(std::uint8_t device, const tensor_map_spec& what,
                            const tensor_map& made) {
  std::lock_guard guard{mutex_};
  if (sets_.empty())
    sets_.resize(sets);
  // Another thread may have added it meanwhile.
  auto* place = look_up(device, what);
  if (place == nullptr)
    place =
        std::ranges::min_element(sets_[set_of(device, what)], {}, &entry::used);
  *place = {++now_, device, what, made};
}

bool has_tensor_maps(const context& in) {
  return here().devices()[in.device_index()].value_of(
             CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED) != 0;
}

CUresult make_tensor_map(const context& in, const tensor_map_spec& what,
                         void* out) {
  auto map = made_before().find(in.device_index(), what);
  if (!map) {
    map.emplace();
    if (auto code = ask_for_map(in.device_index(), what, *map);
        code != CUDA_SUCCESS)
      return code;
    made_before().keep(in.device_index(), what, *map);
  }
  static_assert(sizeof(CUtensorMap) == sizeof *map);
  std::memcpy(out, map->data(), sizeof *map);
  return CUDA_SUCCESS;
}

} // namespace vgpu::interposer
