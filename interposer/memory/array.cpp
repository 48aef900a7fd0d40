#include "interposer/memory/array.hpp"

#include "interposer/memory/memory.hpp"
#include "interposer/memory/memory_part.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/refusal.hpp"
#include "interposer/session/session.hpp"
#include "interposer/session/session_part.hpp"

#include <algorithm>

namespace vgpu::interposer {

namespace {

array_id next_array() noexcept {
  return {
      memory_part::get().last_array.fetch_add(1, std::memory_order_relaxed) +
      1};
}

/// Holds the largest sizes, by the device's attributes. 0 means that the device
/// has no such attribute.
struct limits {
  int width = 0, height = 0, depth = 0;
};

limits limits_of(const array_shape& x) noexcept {
  auto surface = (x.flags & CUDA_ARRAY3D_SURFACE_LDST) != 0;
  if (x.cubemap() && x.layered())
    return surface
               ? limits{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH,
                        CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH,
                        CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS}
               : limits{
                     CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH,
                     CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH,
                     CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS};
  if (x.cubemap())
    return surface
               ? limits{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH,
                        CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH, 0}
               : limits{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH,
                        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH, 0};
  if (x.layered() && x.height == 0)
    return surface
               ? limits{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH, 0,
                        CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS}
               : limits{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH, 0,
                        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS};
  if (x.layered())
    return surface
               ? limits{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH,
                        CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT,
                        CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS}
               : limits{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH,
                        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT,
                        CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS};
  if (x.depth != 0)
    return surface ? limits{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH,
                            CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT,
                            CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH}
                   : limits{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH,
                            CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT,
                            CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH};
  if (x.height == 0)
    return surface ? limits{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH, 0, 0}
                   : limits{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, 0, 0};
  if ((x.flags & CUDA_ARRAY3D_TEXTURE_GATHER) != 0)
    return {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH,
            CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT, 0};
  return surface ? limits{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH,
                          CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT, 0}
                 : limits{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH,
                          CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, 0};
}

/// Tells whether the driver knows a format that this library does not support.
bool is_foreign_format(std::uint32_t format) noexcept {
  return format == CU_AD_FORMAT_UNORM_INT_101010_2 ||
         (format >= CU_AD_FORMAT_BC1_UNORM && format <= 0xff);
}

CUresult check_kind(const array_shape& x) noexcept {
  constexpr unsigned foreign = CUDA_ARRAY3D_SPARSE |
                               CUDA_ARRAY3D_DEFERRED_MAPPING |
                               CUDA_ARRAY3D_VIDEO_ENCODE_DECODE;
  constexpr unsigned known =
      CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP |
      CUDA_ARRAY3D_TEXTURE_GATHER | CUDA_ARRAY3D_DEPTH_TEXTURE |
      CUDA_ARRAY3D_COLOR_ATTACHMENT;
  if ((x.flags & ~(known | foreign)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if ((x.flags & foreign) != 0 || is_foreign_format(x.format)) {
    static logged_once logged;
    return static_cast<CUresult>(
        refuse("an array", "sparse, deferred, or of planes or blocks", logged));
  }
  auto gather = (x.flags & CUDA_ARRAY3D_TEXTURE_GATHER) != 0;
  if (element_bytes(x.format, x.channels) == 0 || x.width == 0 ||
      (x.layered() && x.depth == 0) ||
      (!x.layered() && x.height == 0 && x.depth != 0) ||
      (gather && (x.height == 0 || x.depth != 0 || x.layered())))
    return CUDA_ERROR_INVALID_VALUE;
  if (x.cubemap() && (x.width != x.height || x.depth % 6 != 0 || x.depth == 0 ||
                      (!x.layered() && x.depth != 6)))
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult check(const context& in, const array_shape& x) {
  if (auto code = check_kind(x); code != CUDA_SUCCESS)
    return code;
  auto& facts = here().devices()[in.device_index()];
  auto fits = [&](std::uint64_t size, int attribute) {
    auto most = attribute == 0 ? 0 : facts.value_of(attribute);
    return most <= 0 || size <= static_cast<std::uint64_t>(most);
  };
  auto most = limits_of(x);
  if (!fits(x.width, most.width) || !fits(x.height, most.height) ||
      !fits(x.depth, most.depth))
    return CUDA_ERROR_INVALID_VALUE;
  return layout_of(x) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/// Returns the shape of one level, as its descriptor gives it.
array_shape shape_of_level(const array_shape& whole, const array_level& x) {
  auto out = whole;
  out.levels = 0;
  out.width = x.width;
  out.height = whole.height == 0 ? 0 : x.rows;
  out.depth = whole.depth == 0 ? 0 : x.slices;
  return out;
}

/// Identifies a new array.
struct made {
  array_id id;
  array_layout layout;
  device_address address = 0;
};

/// Checks the shape, takes addresses within the quota, and appends the call
/// that makes the array.
CUresult make(context& in, const array_shape& shape, made& out) {
  if (auto code = check(in, shape); code != CUDA_SUCCESS)
    return code;
  out.layout = *layout_of(shape);
  out.id = next_array();
  auto promise = here().space(in.device_index()).begin_promise();
  if (auto code = allocate_addresses(in, out.layout.bytes, memory_kind::array,
                                     out.address);
      code != CUDA_SUCCESS)
    return code;
  here().send(
      call::array_create{{out.id}, out.address, out.layout.bytes, shape},
      in.device_index());
  return CUDA_SUCCESS;
}

void unmake(context& in, array_id id, device_address address) {
  auto& space = here().space(in.device_index());
  auto what = space.take(address);
  auto call = here().send(call::array_destroy{{id}}, in.device_index());
  if (what)
    space.retire(*what, call.value);
}

void unmake(mipmap& x) {
  for (auto level : x.levels)
    arrays().remove(level);
  unmake(x.owner, x.wire, x.address);
}

} // namespace

handle_table<array>& arrays() noexcept {
  return memory_part::get().arrays;
}

handle_table<mipmap>& mipmaps() noexcept {
  return memory_part::get().mipmaps;
}

CUresult create_array(context& in, const array_shape& shape, CUarray& out) {
  made x;
  if (auto code = make(in, shape, x); code != CUDA_SUCCESS)
    return code;
  out = to_handle<CUarray>(arrays().add(std::make_unique<array>(array{
      in, x.id, shape, x.layout.levels[0], x.address, x.layout.element})));
  return CUDA_SUCCESS;
}

CUresult create_mipmap(context& in, array_shape shape, CUmipmappedArray& out) {
  // The driver makes at least one level, and at most as many as there are
  // sizes.
  shape.levels = std::clamp(shape.levels, 1U, std::max(1U, most_levels(shape)));
  made x;
  if (auto code = make(in, shape, x); code != CUDA_SUCCESS)
    return code;
  auto whole = std::make_unique<mipmap>(mipmap{in, x.id, shape, x.address, {}});
  auto& levels = whole->levels;
  out = to_handle<CUmipmappedArray>(mipmaps().add(std::move(whole)));
  for (std::uint32_t l = 0; l < shape.levels; ++l) {
    auto& place = x.layout.levels[l];
    levels.push_back(to_handle<CUarray>(arrays().add(std::make_unique<array>(
        array{in, x.id, shape_of_level(shape, place), place, x.address,
              x.layout.element, l, out}))));
  }
  return CUDA_SUCCESS;
}

CUresult destroy_array(CUarray x) {
  session_part::get().before_release.run();
  auto* known = arrays().find(x);
  if (known == nullptr)
    return CUDA_ERROR_INVALID_HANDLE;
  // As in the driver this is no error. The level ends with the whole mipmapped
  // array.
  if (known->of != nullptr)
    return CUDA_SUCCESS;
  auto gone = arrays().remove(x);
  if (!gone)
    return CUDA_ERROR_INVALID_HANDLE;
  unmake(gone->owner, gone->wire, gone->address);
  return CUDA_SUCCESS;
}

CUresult destroy_mipmap(CUmipmappedArray x) {
  session_part::get().before_release.run();
  auto gone = mipmaps().remove(x);
  if (!gone)
    return CUDA_ERROR_INVALID_HANDLE;
  unmake(*gone);
  return CUDA_SUCCESS;
}

void destroy_arrays(context& of) {
  std::vector<std::uint64_t> plain, mipped;
  arrays().each([&](std::uint64_t handle, array& x) {
    if (&x.owner == &of && x.of == nullptr)
      plain.push_back(handle);
  });
  mipmaps().each([&](std::uint64_t handle, mipmap& x) {
    if (&x.owner == &of)
      mipped.push_back(handle);
  });
  for (auto handle : plain)
    if (auto x = arrays().remove(handle); x)
      unmake(x->owner, x->wire, x->address);
  for (auto handle : mipped)
    if (auto x = mipmaps().remove(handle); x)
      unmake(*x);
}

const array* array_at(device_address address, CUarray& handle) {
  const array* found = nullptr;
  arrays().each([&](std::uint64_t h, array& x) {
    if (address - (x.address + x.place.offset) < x.place.bytes()) {
      found = &x;
      handle = to_handle<CUarray>(h);
    }
  });
  return found;
}

} // namespace vgpu::interposer
