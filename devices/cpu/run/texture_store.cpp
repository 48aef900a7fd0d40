#include "devices/cpu/run/texture_store.hpp"

#include "schema/base/cuda_fault.hpp"

#include <string>

namespace vgpu::device::cpu {

namespace {

fault unknown(const char* kind, std::uint64_t id) {
  return cuda_fault(CUDA_ERROR_INVALID_HANDLE, std::string{kind} + " " +
                                                   std::to_string(id) +
                                                   " does not exist");
}

} // namespace

status texture_store::add_array(array_id id, const array_shape& shape,
                                device_address at) {
  if (!layout_of(shape))
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "the dimensions of the array are not valid");
  arrays_.insert_or_assign(id, placed_array{shape, at});
  return {};
}

status texture_store::remove_array(array_id id) {
  if (arrays_.erase(id) == 0)
    return unknown("array", id.value);
  return {};
}

result<std::uint64_t> texture_store::add(texture_id id,
                                         const texture_spec& what) {
  auto array = arrays_.find(array_id{what.array});
  auto none = array == arrays_.end();
  auto made = make_texture(what, none ? nullptr : &array->second.shape,
                           none ? 0 : array->second.at);
  if (!made)
    return made.why();
  if (known_->contains(id.value))
    return cuda_fault(CUDA_ERROR_INVALID_HANDLE,
                      "texture " + std::to_string(id.value) +
                          ": another object already has this value");
  auto shared = std::make_shared<const texture>(std::move(*made));
  change([&](texture_table& x) { x.emplace(id.value, shared); });
  return id.value;
}

status texture_store::name(texture_id id, std::uint64_t value) {
  auto own = known_->find(id.value);
  if (own == known_->end())
    return unknown("texture", id.value);
  if (value == id.value)
    return {};
  if (known_->contains(value))
    return cuda_fault(
        CUDA_ERROR_INVALID_HANDLE,
        "texture object " + std::to_string(value) +
            " of the program is in use by another object on this "
            "device; restore the session on a device of the kind on "
            "which it ran before");
  change([&, shared = own->second](texture_table& x) {
    x.emplace(value, shared);
  });
  named_[id] = value;
  return {};
}

status texture_store::remove(texture_id id) {
  if (!known_->contains(id.value))
    return unknown("texture", id.value);
  auto other = named_.extract(id);
  change([&](texture_table& x) {
    x.erase(id.value);
    if (other)
      x.erase(other.mapped());
  });
  return {};
}

} // namespace vgpu::device::cpu
