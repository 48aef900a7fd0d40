#include "interposer/code/launch.hpp"

#include "interposer/code/code_part.hpp"
#include "interposer/code/occupancy.hpp"
#include "interposer/memory/managed.hpp"
#include "interposer/memory/pinned_writes.hpp"
#include "interposer/memory/zero_copy.hpp"
#include "interposer/session/on_occasion.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"
#include "interposer/stream/host_call.hpp"
#include "schema/base/cluster_shapes.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace vgpu::interposer {

namespace {

constexpr std::uint32_t parameter_alignment = 16;

/// Each launch is checked against these limits of the device.
struct shape_limits {
  std::uint32_t threads, block_x, block_y, block_z;
  std::uint32_t grid_x, grid_y, grid_z;
  std::uint32_t shared;
  bool clusters;

  explicit shape_limits(const device_facts& d) {
    auto get = [&](CUdevice_attribute key) {
      return static_cast<std::uint32_t>(d.value_of(key));
    };
    threads = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    block_x = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
    block_y = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
    block_z = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
    grid_x = get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
    grid_y = get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
    grid_z = get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
    shared = get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    clusters = get(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) != 0;
  }
};

const shape_limits& limits_of(int device) {
  // Nothing destroys it, because threads launch while the program exits.
  static const auto& all = *new auto{[] {
    std::vector<shape_limits> made;
    for (const auto& d : process::the_session().devices())
      made.emplace_back(d);
    return made;
  }()};
  return all[static_cast<std::size_t>(device)];
}

constexpr bool within(std::uint32_t x, std::uint32_t most) noexcept {
  // Accepts 1 to `most`; 0 wraps around.
  return x - 1 < most;
}

CUresult check_shape(const launch_shape& x, const function& f,
                     const shape_limits& limit) {
  const auto& b = x.block;
  const auto& g = x.grid;
  if (!within(b.x, limit.block_x) || !within(b.y, limit.block_y) ||
      !within(b.z, limit.block_z) || !within(g.x, limit.grid_x) ||
      !within(g.y, limit.grid_y) || !within(g.z, limit.grid_z))
    return CUDA_ERROR_INVALID_VALUE;
  auto threads = b.x * b.y * b.z;
  auto most = f.attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  if (threads > limit.threads ||
      (most > 0 && threads > static_cast<std::uint32_t>(most)))
    return CUDA_ERROR_INVALID_VALUE;
  auto fixed = static_cast<std::uint64_t>(
      f.attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  auto opted = f.attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  auto allowed =
      std::max(static_cast<std::uint64_t>(limit.shared),
               fixed + static_cast<std::uint64_t>(std::max(opted, 0)));
  if (fixed + x.shared_bytes > allowed)
    return CUDA_ERROR_INVALID_VALUE;
  call::dim3 c;
  if (auto code = clusters_of(x, f, c); code != CUDA_SUCCESS)
    return code;
  // Clusters of one block are ordinary grids.
  return !limit.clusters && (c.x | c.y | c.z) > 1 ? CUDA_ERROR_NOT_SUPPORTED
                                                  : CUDA_SUCCESS;
}

/// Finds the parameter block, or makes it in `room`.
CUresult gather_parameters(const launch_request& x, const function& f,
                           std::byte* room, std::span<const std::byte>& out) {
  if (x.parameters != nullptr && x.extra != nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  auto wanted = f.parameter_bytes;
  if (x.parameters != nullptr) {
    std::uint32_t end = 0;
    for (std::size_t i = 0; i < f.parameters.size(); ++i) {
      auto p = f.parameters[i];
      if (x.parameters[i] == nullptr)
        return CUDA_ERROR_INVALID_VALUE;
      // Clears the gap, which would otherwise hold stale bytes of our stack.
      if (p.offset > end)
        std::memset(room + end, 0, p.offset - end);
      std::memcpy(room + p.offset, x.parameters[i], p.size);
      end = p.offset + p.size;
    }
    out = {room, wanted};
    return CUDA_SUCCESS;
  }
  if (x.extra == nullptr) {
    out = {};
    return wanted == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  const void* buffer = nullptr;
  std::size_t size = 0;
  for (auto* e = x.extra; *e != CU_LAUNCH_PARAM_END; e += 2) {
    if (*e == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = e[1];
    else if (*e == CU_LAUNCH_PARAM_BUFFER_SIZE && e[1] != nullptr)
      size = *static_cast<const std::size_t*>(e[1]);
    else
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (buffer == nullptr && wanted != 0)
    return CUDA_ERROR_INVALID_VALUE;
  auto rounded = (wanted + parameter_alignment - 1) / parameter_alignment *
                 parameter_alignment;
  if (size == 0 && wanted != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (size > rounded)
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  if (size < wanted) {
    // The driver accepts it; missing parameters may be anything, and are zero
    // here.
    std::memset(room, 0, wanted);
    std::memcpy(room, buffer, size);
    buffer = room;
  } else if (managed_memory::exists()) [[unlikely]] {
    // The buffer may lie in managed memory.
    std::memcpy(room, buffer, wanted);
    buffer = room;
  }
  out = {static_cast<const std::byte*>(buffer), wanted};
  return CUDA_SUCCESS;
}

/// Checks that all blocks of a cooperative launch fit the device at once.
CUresult check_cooperative(const launch_shape& x, const function& f) {
  auto blocks = active_blocks(
      f, static_cast<int>(x.block.x * x.block.y * x.block.z), x.shared_bytes);
  const auto& d = process::the_session().devices().at(
      static_cast<std::size_t>(f.in->owner.device));
  auto room = static_cast<std::uint64_t>(blocks) *
              static_cast<std::uint64_t>(
                  d.value_of(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  auto wanted = std::uint64_t{x.grid.x} * x.grid.y * x.grid.z;
  return wanted > room ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : CUDA_SUCCESS;
}

} // namespace

CUresult clusters_of(const launch_shape& x, const function& f,
                     call::dim3& out) {
  auto of = [&](int key) {
    return static_cast<std::uint32_t>(f.attribute(key));
  };
  call::dim3 required{of(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH),
                      of(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT),
                      of(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH)};
  auto wide = of(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) != 0;
  auto wrong = cut_into_clusters(x.grid, x.cluster, required,
                                 most_of_cluster(wide), out);
  return wrong == cluster_fault::none ? CUDA_SUCCESS
                                      : CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

CUresult prepare(context& in, const launch_request& what, parameter_room& room,
                 prepared_launch& out) {
  auto why = CUDA_SUCCESS;
  auto* f = find_function(what.function, in, why);
  if (f == nullptr) [[unlikely]]
    return why;
  if (&f->in->owner != &in) [[unlikely]]
    return CUDA_ERROR_INVALID_HANDLE;
  if (auto code = check_shape(what.shape, *f, limits_of(in.device));
      code != CUDA_SUCCESS) [[unlikely]]
    return code;
  if (f->parameter_bytes > most_parameters) [[unlikely]]
    return CUDA_ERROR_INVALID_VALUE;
  out.what = f;
  if (auto code = gather_parameters(what, *f, room.take(f->parameter_bytes),
                                    out.parameters);
      code != CUDA_SUCCESS) [[unlikely]]
    return code;
  return what.shape.cooperative ? check_cooperative(what.shape, *f)
                                : CUDA_SUCCESS;
}

CUresult send_launch(stream& in, const function& what,
                     const launch_shape& shape,
                     std::span<const std::byte> parameters,
                     const launch_attributes* with) {
  if (managed_memory::host_has_some()) [[unlikely]]
    managed().hand_over();
  auto in_place =
      zero_copy_memory::possible() && zero_copy().before_launch(parameters);
  call::launch call{.stream = {in.wire},
                    .module = {what.in->wire},
                    .kernel = what.index,
                    .flags = shape.cooperative ? call::launch::cooperative : 0,
                    .grid = shape.grid,
                    .block = shape.block,
                    .cluster = shape.cluster,
                    .dynamic_shared = shape.shared_bytes,
                    .bytes = parameters};
  std::vector<std::byte> block;
  if (with != nullptr) [[unlikely]]
    if (auto hints = with->hints(in.device()); !hints.empty()) {
      block = with_hints(parameters, hints);
      call.flags |= call::launch::hinted;
      call.bytes = block;
    }
  auto send = [&] {
    auto number = process::the_session().send(call, in.device());
    if (auto* by = traced_by(); by != nullptr) [[unlikely]]
      by->launched(call, what, in.device(), number);
    return number;
  };
  if (what.launched.load(std::memory_order_relaxed)) [[likely]] {
    in.worked(send());
  } else {
    in.worked(host_calls().append_alone(send));
    what.launched.store(true, std::memory_order_relaxed);
  }
  if (in_place) [[unlikely]]
    writes_under_way().add_kernel(in);
  return CUDA_SUCCESS;
}

CUresult launch_kernel(stream& in, const launch_request& what) {
  parameter_room room;
  prepared_launch ready;
  if (auto code = prepare(in.owner, what, room, ready); code != CUDA_SUCCESS)
      [[unlikely]]
    return code;
  auto code =
      send_launch(in, *ready.what, what.shape, ready.parameters, what.with);
  if (code == CUDA_SUCCESS && code_part::get().launches_wait) [[unlikely]]
    return on_occasion<occasion::launch_blocking>(
        [&] { return synchronise(in); });
  return code;
}

CUresult check_events(const stream& in, const launch_attributes& with) {
  auto is_usable = [&](const launch_event& each) {
    auto* x = events().find(each.event);
    return x != nullptr && &x->owner == &in.owner;
  };
  return std::ranges::all_of(with.events(), is_usable)
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_HANDLE;
}

CUresult record_events(stream& in, const launch_attributes& with) {
  for (const auto& each : with.events()) {
    auto* x = events().find(each.event);
    if (x == nullptr)
      return CUDA_ERROR_INVALID_HANDLE;
    x->captured_by.store(nullptr);
    if (auto code = record(*x, in); code != CUDA_SUCCESS)
      return code;
  }
  return CUDA_SUCCESS;
}

} // namespace vgpu::interposer
