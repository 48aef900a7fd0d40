#include "interposer/memory/texture_object.hpp"

#include "interposer/memory/array.hpp"
#include "interposer/memory/memory_part.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"
#include "interposer/session/session_part.hpp"

#include <algorithm>
#include <bit>
#include <mutex>
#include <vector>

namespace vgpu::interposer {

namespace {

texture_id next_texture() noexcept {
  return {memory_part::get().textures.last_id.fetch_add(
              1, std::memory_order_relaxed) +
          1};
}

texture_table& all() noexcept {
  return memory_part::get().textures;
}

int attribute(const context& in, CUdevice_attribute which) {
  return here().devices()[in.device_index()].value_of(which);
}

bool at_most(std::uint64_t size, int limit) noexcept {
  return limit <= 0 || size <= static_cast<std::uint64_t>(limit);
}

/// Tells whether the address is aligned as the driver requires, which does not
/// depend on the elements. The driver does not check the memory at the address.
bool is_aligned(const context& in, device_address address) {
  auto step = std::max(1, attribute(in, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT));
  return address % static_cast<std::uint64_t>(step) == 0;
}

/// Returns the bytes of an element, or 0 for an invalid format.
std::uint64_t element_of(CUarray_format format, unsigned channels) noexcept {
  return element_bytes(static_cast<std::uint32_t>(format), channels);
}

CUresult show_linear(const context& in, const CUDA_RESOURCE_DESC& from,
                     texture_spec& out) {
  const auto& x = from.res.linear;
  auto element = element_of(x.format, x.numChannels);
  if (element == 0 || x.devPtr == 0 || !is_aligned(in, x.devPtr) ||
      !at_most(
          x.sizeInBytes / element,
          attribute(in, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH)))
    return CUDA_ERROR_INVALID_VALUE;
  out.address = x.devPtr;
  out.format = static_cast<std::uint32_t>(x.format);
  out.channels = x.numChannels;
  out.bytes = x.sizeInBytes;
  return CUDA_SUCCESS;
}

CUresult show_rows(const context& in, const CUDA_RESOURCE_DESC& from,
                   texture_spec& out) {
  const auto& x = from.res.pitch2D;
  auto element = element_of(x.format, x.numChannels);
  auto step =
      std::max(1, attribute(in, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT));
  if (element == 0 || x.devPtr == 0 || x.width == 0 || x.height == 0 ||
      !is_aligned(in, x.devPtr) || x.width > window_bytes ||
      x.height > window_bytes || x.pitchInBytes > window_bytes ||
      x.pitchInBytes < x.width * element ||
      x.pitchInBytes % static_cast<std::uint64_t>(step) != 0 ||
      !at_most(
          x.width,
          attribute(in, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH)) ||
      !at_most(
          x.height,
          attribute(in, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT)) ||
      !at_most(
          x.pitchInBytes,
          attribute(in, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH)))
    return CUDA_ERROR_INVALID_VALUE;
  out.address = x.devPtr;
  out.format = static_cast<std::uint32_t>(x.format);
  out.channels = x.numChannels;
  out.width = x.width;
  out.height = x.height;
  out.pitch = x.pitchInBytes;
  return CUDA_SUCCESS;
}

/// Describes the resource and its shape. Does not change `shape` where the
/// resource is no array.
CUresult show(const context& in, const CUDA_RESOURCE_DESC& from,
              texture_spec& out, std::optional<array_shape>& shape) {
  if (from.flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  out.resource = static_cast<std::uint32_t>(from.resType);
  switch (from.resType) {
  case CU_RESOURCE_TYPE_ARRAY: {
    auto* x = arrays().find(from.res.array.hArray);
    if (x == nullptr)
      return from.res.array.hArray == nullptr ? CUDA_ERROR_INVALID_VALUE
                                              : CUDA_ERROR_INVALID_HANDLE;
    out.array = x->wire.value;
    out.level = x->level;
    shape = x->shape;
    return CUDA_SUCCESS;
  }
  case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: {
    auto* x = mipmaps().find(from.res.mipmap.hMipmappedArray);
    if (x == nullptr)
      return from.res.mipmap.hMipmappedArray == nullptr
                 ? CUDA_ERROR_INVALID_VALUE
                 : CUDA_ERROR_INVALID_HANDLE;
    out.array = x->wire.value;
    shape = x->shape;
    return CUDA_SUCCESS;
  }
  case CU_RESOURCE_TYPE_LINEAR:
    return show_linear(in, from, out);
  case CU_RESOURCE_TYPE_PITCH2D:
    return show_rows(in, from, out);
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult sample(const CUDA_TEXTURE_DESC& from, texture_spec& out) {
  constexpr unsigned known =
      CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SRGB |
      CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION | CU_TRSF_SEAMLESS_CUBEMAP;
  auto is_filter = [](CUfilter_mode x) {
    return x == CU_TR_FILTER_MODE_POINT || x == CU_TR_FILTER_MODE_LINEAR;
  };
  auto modes_hold =
      std::all_of(std::begin(from.addressMode), std::end(from.addressMode),
                  [](CUaddress_mode x) {
                    return static_cast<unsigned>(x) <=
                           static_cast<unsigned>(CU_TR_ADDRESS_MODE_BORDER);
                  });
  if (!modes_hold || !is_filter(from.filterMode) ||
      !is_filter(from.mipmapFilterMode) || (from.flags & ~known) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  auto bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  out.address_x = static_cast<std::uint32_t>(from.addressMode[0]);
  out.address_y = static_cast<std::uint32_t>(from.addressMode[1]);
  out.address_z = static_cast<std::uint32_t>(from.addressMode[2]);
  out.filter = static_cast<std::uint32_t>(from.filterMode);
  out.flags = from.flags;
  out.anisotropy = from.maxAnisotropy;
  out.mip_filter = static_cast<std::uint32_t>(from.mipmapFilterMode);
  out.bias = bits(from.mipmapLevelBias);
  out.least_level = bits(from.minMipmapLevelClamp);
  out.most_level = bits(from.maxMipmapLevelClamp);
  out.border_r = bits(from.borderColor[0]);
  out.border_g = bits(from.borderColor[1]);
  out.border_b = bits(from.borderColor[2]);
  out.border_a = bits(from.borderColor[3]);
  return CUDA_SUCCESS;
}

/// Applies a view. Only arrays have views, in formats with elements of the same
/// size.
CUresult view_as(const CUDA_RESOURCE_VIEW_DESC& from,
                 const std::optional<array_shape>& shape, texture_spec& out) {
  if (!shape)
    return CUDA_ERROR_INVALID_VALUE;
  if (from.format != CU_RES_VIEW_FORMAT_NONE) {
    auto as = format_of_view(static_cast<std::uint32_t>(from.format));
    if (!as)
      return from.format <= CU_RES_VIEW_FORMAT_UNSIGNED_BC7
                 ? CUDA_ERROR_NOT_SUPPORTED
                 : CUDA_ERROR_INVALID_VALUE;
    if (element_bytes(as->format, as->channels) !=
        element_bytes(shape->format, shape->channels))
      return CUDA_ERROR_INVALID_VALUE;
  }
  auto levels = std::max(1U, shape->levels);
  auto layers = std::max<std::uint64_t>(1, shape->depth);
  if (from.width != shape->width || from.height != shape->height ||
      from.firstMipmapLevel > from.lastMipmapLevel ||
      from.lastMipmapLevel >= levels || from.firstLayer > from.lastLayer ||
      ((shape->layered() || shape->cubemap()) && from.lastLayer >= layers))
    return CUDA_ERROR_INVALID_VALUE;
  out.view = 1;
  out.view_format = static_cast<std::uint32_t>(from.format);
  out.view_width = from.width;
  out.view_height = from.height;
  out.view_depth = from.depth;
  out.first_level = from.firstMipmapLevel;
  out.last_level = from.lastMipmapLevel;
  out.first_layer = from.firstLayer;
  out.last_layer = from.lastLayer;
  return CUDA_SUCCESS;
}

CUresult make(context& in, texture what, const texture_spec& spec,
              unsigned long long& out) {
  auto& s = here();
  what.wire = next_texture();
  auto got = s.ask(call::texture_create{{what.wire}, spec}, in.device_index());
  if (got.result != CUDA_SUCCESS)
    return got.result;
  s.send(call::texture_known{{what.wire}, got.value}, in.device_index());
  std::lock_guard guard{all().mutex};
  all().by_value.insert_or_assign({in.device, got.value},
                                  texture_table::entry{std::move(what), &in});
  out = got.value;
  return CUDA_SUCCESS;
}

} // namespace

CUresult create_texture(context& in, const CUDA_RESOURCE_DESC& resource,
                        const CUDA_TEXTURE_DESC& sampling,
                        const CUDA_RESOURCE_VIEW_DESC* view, CUtexObject& out) {
  texture_spec spec;
  std::optional<array_shape> shape;
  if (auto code = show(in, resource, spec, shape); code != CUDA_SUCCESS)
    return code;
  if (auto code = sample(sampling, spec); code != CUDA_SUCCESS)
    return code;
  if (view != nullptr)
    if (auto code = view_as(*view, shape, spec); code != CUDA_SUCCESS)
      return code;
  texture what{{}, false, resource, sampling, {}};
  if (view != nullptr)
    what.view = *view;
  return make(in, std::move(what), spec, out);
}

CUresult create_surface(context& in, const CUDA_RESOURCE_DESC& resource,
                        CUsurfObject& out) {
  texture_spec spec;
  std::optional<array_shape> shape;
  if (resource.resType != CU_RESOURCE_TYPE_ARRAY)
    return CUDA_ERROR_INVALID_VALUE;
  if (auto code = show(in, resource, spec, shape); code != CUDA_SUCCESS)
    return code;
  spec.surface = 1;
  return make(in, texture{{}, true, resource, {}, {}}, spec, out);
}

std::optional<texture> find_texture(const context& in, std::uint64_t value,
                                    bool surface) {
  std::lock_guard guard{all().mutex};
  auto i = all().by_value.find({in.device, value});
  if (i == all().by_value.end() || i->second.what.surface != surface)
    return std::nullopt;
  return i->second.what;
}

CUresult destroy_texture(context& in, std::uint64_t value, bool surface) {
  session_part::get().before_release.run();
  texture_id wire;
  {
    std::lock_guard guard{all().mutex};
    auto i = all().by_value.find({in.device, value});
    // As the driver, accept any value.
    if (i == all().by_value.end() || i->second.what.surface != surface)
      return CUDA_SUCCESS;
    wire = i->second.what.wire;
    all().by_value.erase(i);
  }
  here().send(call::texture_destroy{{wire}}, in.device_index());
  return CUDA_SUCCESS;
}

void destroy_textures(context& of) {
  std::vector<texture_id> gone;
  {
    std::lock_guard guard{all().mutex};
    std::erase_if(all().by_value, [&](auto& x) {
      if (x.second.owner != &of)
        return false;
      gone.push_back(x.second.what.wire);
      return true;
    });
  }
  for (auto x : gone)
    here().send(call::texture_destroy{{x}}, of.device_index());
}

} // namespace vgpu::interposer
