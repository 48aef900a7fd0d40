#include "devices/nvidia/memory/arrays.hpp"

#include "schema/base/cuda_fault.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

namespace vgpu::device::nvidia {

namespace {

/// Limits how many objects are made in search of one with the wanted value.
constexpr int most_attempts = 4096;

fault unknown(const char* kind, std::uint64_t id) {
  return cuda_fault(CUDA_ERROR_INVALID_HANDLE,
                    std::string{kind} + " " + std::to_string(id) +
                        " does not exist on this device");
}

CUDA_ARRAY3D_DESCRIPTOR descriptor_of(const array_shape& x) {
  return {x.width,    x.height, x.depth, static_cast<CUarray_format>(x.format),
          x.channels, x.flags};
}

CUDA_TEXTURE_DESC sampling_of(const texture_spec& x) {
  auto real = [](std::uint32_t bits) { return std::bit_cast<float>(bits); };
  CUDA_TEXTURE_DESC out{};
  out.addressMode[0] = static_cast<CUaddress_mode>(x.address_x);
  out.addressMode[1] = static_cast<CUaddress_mode>(x.address_y);
  out.addressMode[2] = static_cast<CUaddress_mode>(x.address_z);
  out.filterMode = static_cast<CUfilter_mode>(x.filter);
  out.flags = x.flags;
  out.maxAnisotropy = x.anisotropy;
  out.mipmapFilterMode = static_cast<CUfilter_mode>(x.mip_filter);
  out.mipmapLevelBias = real(x.bias);
  out.minMipmapLevelClamp = real(x.least_level);
  out.maxMipmapLevelClamp = real(x.most_level);
  out.borderColor[0] = real(x.border_r);
  out.borderColor[1] = real(x.border_g);
  out.borderColor[2] = real(x.border_b);
  out.borderColor[3] = real(x.border_a);
  return out;
}

CUDA_RESOURCE_VIEW_DESC view_of(const texture_spec& x) {
  CUDA_RESOURCE_VIEW_DESC out{};
  out.format = static_cast<CUresourceViewFormat>(x.view_format);
  out.width = x.view_width;
  out.height = x.view_height;
  out.depth = x.view_depth;
  out.firstMipmapLevel = x.first_level;
  out.lastMipmapLevel = x.last_level;
  out.firstLayer = x.first_layer;
  out.lastLayer = x.last_layer;
  return out;
}

} // namespace

// -- arrays -------------------------------------------------------------------

status arrays::create(array_id id, const array_shape& shape,
                      device_address at) {
  auto layout = layout_of(shape);
  if (!layout)
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "the dimensions of the array are not valid");
  entry made{id, *layout, nullptr, nullptr, {}};
  auto how = descriptor_of(shape);
  if (shape.levels == 0) {
    if (auto code = api_->cuArray3DCreate(&made.plain, &how);
        code != CUDA_SUCCESS)
      return api_->failed(code, "cuArray3DCreate");
    made.levels.push_back(made.plain);
  } else {
    if (auto code =
            api_->cuMipmappedArrayCreate(&made.mipped, &how, shape.levels);
        code != CUDA_SUCCESS)
      return api_->failed(code, "cuMipmappedArrayCreate");
    for (auto l = 0U; l < shape.levels; ++l) {
      CUarray level = nullptr;
      if (auto code = api_->cuMipmappedArrayGetLevel(&level, made.mipped, l);
          code != CUDA_SUCCESS) {
        api_->cuMipmappedArrayDestroy(made.mipped);
        return api_->failed(code, "cuMipmappedArrayGetLevel");
      }
      made.levels.push_back(level);
    }
  }
  by_address_.insert_or_assign(at, std::move(made));
  return {};
}

result<std::function<void()>> arrays::take(array_id id) {
  auto i = std::find_if(by_address_.begin(), by_address_.end(),
                        [&](auto& x) { return x.second.id == id; });
  if (i == by_address_.end())
    return unknown("array", id.value);
  auto gone = std::move(i->second);
  by_address_.erase(i);
  return std::function<void()>{
      [api = api_, plain = gone.plain, mipped = gone.mipped] {
        if (plain != nullptr)
          api->cuArrayDestroy(plain);
        if (mipped != nullptr)
          api->cuMipmappedArrayDestroy(mipped);
      }};
}

const arrays::entry* arrays::find(array_id id) const {
  for (auto& [at, x] : by_address_)
    if (x.id == id)
      return &x;
  return nullptr;
}

bool arrays::holds(device_address address) const noexcept {
  auto next = by_address_.upper_bound(address);
  if (next == by_address_.begin())
    return false;
  auto& [at, x] = *std::prev(next);
  return address - at < x.layout.bytes;
}

result<arrays::part> arrays::first_part(device_address address,
                                        std::uint64_t bytes) const {
  if (!holds(address))
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "a copy exceeds the bounds of its array");
  auto& [at, x] = *std::prev(by_address_.upper_bound(address));
  auto offset = address - at;
  auto level = x.layout.levels.size() - 1;
  while (x.layout.levels[level].offset > offset)
    --level;
  auto& l = x.layout.levels[level];
  offset -= l.offset;
  if (offset >= l.bytes()) {
    auto gap = x.layout.levels[level + 1].offset - l.offset - offset;
    return part{nullptr, 0, 0, 0, std::min(bytes, gap), 1, 1};
  }
  bytes = std::min(bytes, l.bytes() - offset);
  part out{x.levels[level],
           offset % l.row_bytes,
           offset % l.slice_bytes() / l.row_bytes,
           offset / l.slice_bytes(),
           std::min(bytes, l.row_bytes - offset % l.row_bytes),
           1,
           1};
  if (out.x != 0 || bytes < l.row_bytes)
    return out;
  if (out.y == 0 && bytes >= l.slice_bytes()) {
    out.height = l.rows;
    out.depth = bytes / l.slice_bytes();
  } else {
    out.height = std::min(bytes / l.row_bytes, l.rows - out.y);
  }
  return out;
}

result<arrays::part> arrays::first_run(device_address address,
                                       std::uint64_t bytes) const {
  auto out = first_part(address, bytes);
  if (out)
    out->height = out->depth = 1;
  return out;
}

// -- textures and surfaces ----------------------------------------------------

result<std::uint64_t> arrays::make(const texture_spec& what) {
  CUDA_RESOURCE_DESC shown{};
  shown.resType = static_cast<CUresourcetype>(what.resource);
  auto format = static_cast<CUarray_format>(what.format);
  switch (shown.resType) {
  case CU_RESOURCE_TYPE_ARRAY: {
    auto* x = find(array_id{what.array});
    if (x == nullptr || what.level >= x->levels.size())
      return unknown("array", what.array);
    shown.res.array.hArray = x->levels[what.level];
    break;
  }
  case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: {
    auto* x = find(array_id{what.array});
    if (x == nullptr || x->mipped == nullptr)
      return unknown("mipmapped array", what.array);
    shown.res.mipmap.hMipmappedArray = x->mipped;
    break;
  }
  case CU_RESOURCE_TYPE_LINEAR:
    shown.res.linear = {what.address, format, what.channels, what.bytes};
    break;
  default:
    shown.res.pitch2D = {what.address, format,      what.channels,
                         what.width,   what.height, what.pitch};
    break;
  }
  unsigned long long out = 0;
  if (what.surface != 0) {
    if (auto code = api_->cuSurfObjectCreate(&out, &shown);
        code != CUDA_SUCCESS)
      return api_->failed(code, "cuSurfObjectCreate");
    return std::uint64_t{out};
  }
  auto how = sampling_of(what);
  auto view = view_of(what);
  if (auto code = api_->cuTexObjectCreate(&out, &shown, &how,
                                          what.view != 0 ? &view : nullptr);
      code != CUDA_SUCCESS)
    return api_->failed(code, "cuTexObjectCreate");
  return std::uint64_t{out};
}

void arrays::unmake(const texture_spec& what, std::uint64_t value) {
  if (what.surface != 0)
    api_->cuSurfObjectDestroy(value);
  else
    api_->cuTexObjectDestroy(value);
}

result<std::uint64_t> arrays::create_texture(texture_id id,
                                             const texture_spec& what) {
  auto value = make(what);
  if (value)
    textures_.insert_or_assign(id, object{what, *value});
  return value;
}

status arrays::name_texture(texture_id id, std::uint64_t value) {
  auto i = textures_.find(id);
  if (i == textures_.end())
    return unknown("texture", id.value);
  auto& x = i->second;
  if (x.value == value)
    return {};
  // The driver numbers the objects. So one of the further objects often gets
  // the wanted value, where the order of creation was another one.
  std::vector<std::uint64_t> others{x.value};
  auto found = false;
  while (!found && others.size() < most_attempts) {
    auto next = make(x.what);
    if (!next)
      break;
    found = *next == value;
    if (!found)
      others.push_back(*next);
  }
  auto keep = others.begin() + (found ? 0 : 1);
  std::for_each(keep, others.end(),
                [&](std::uint64_t other) { unmake(x.what, other); });
  if (!found)
    return cuda_fault(
        CUDA_ERROR_INVALID_HANDLE,
        "the program knows a texture object as " + std::to_string(value) +
            ", and this driver gives it " + std::to_string(x.value) +
            ": the session cannot be restored here; place it on a "
            "device where it has its former value");
  x.value = value;
  return {};
}

status arrays::destroy_texture(texture_id id) {
  auto gone = textures_.extract(id);
  if (!gone)
    return unknown("texture", id.value);
  unmake(gone.mapped().what, gone.mapped().value);
  return {};
}

} // namespace vgpu::device::nvidia
