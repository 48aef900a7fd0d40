#include "interposer/graph/graph_work.hpp"

#include "interposer/context/peers.hpp"
#include "interposer/graph/graph.hpp"
#include "interposer/memory/array.hpp"
#include "interposer/memory/stream_value.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"
#include "interposer/stream/host_call.hpp"

#include <algorithm>

namespace vgpu::interposer {

namespace {

template <class... Fs>
struct overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
overloaded(Fs...) -> overloaded<Fs...>;

CUresult issue_kernel(const kernel_work& x, stream& in) {
  auto why = CUDA_SUCCESS;
  auto* f = find_function(x.function, in.owner, why);
  if (f == nullptr)
    return why;
  return send_launch(in, *f, x.shape, x.parameters,
                     x.with.empty() ? nullptr : &x.with);
}

/// Returns the kernel of a function, or null where no library contains it.
CUkernel kernel_of(const function& x) {
  if (x.in->of == nullptr)
    return nullptr;
  auto found = x.in->of->by_name.find(x.name);
  return found == x.in->of->by_name.end() ? nullptr : found->second->handle;
}

CUresult issue_fill(const fill_work& x, stream& in) {
  const auto& p = x.what;
  return fill_bytes(in, {p.dst, p.pitch, 0}, p.value, p.elementSize,
                    {p.width, p.height, 1});
}

CUresult issue_record(const event_record_work& x, stream& in) {
  auto* e = events().find(x.event);
  return e == nullptr ? CUDA_ERROR_INVALID_HANDLE : record(*e, in);
}

CUresult issue_wait(const event_wait_work& x, stream& in) {
  auto* e = events().find(x.event);
  return e == nullptr ? CUDA_ERROR_INVALID_HANDLE : wait(in, *e);
}

/// Finds the array element at an address. Changes nothing where the array no
/// longer exists.
void locate_in_array(device_address address, CUarray& handle, std::size_t& x,
                     std::size_t& y, std::size_t& z) {
  auto* in = array_at(address, handle);
  if (in == nullptr)
    return;
  auto offset = address - in->address - in->place.offset;
  z = offset / in->place.slice_bytes();
  y = offset % in->place.slice_bytes() / in->place.row_bytes;
  x = offset % in->place.row_bytes;
}

conditional_work clone_conditional(const conditional_work& x) {
  conditional_work out;
  out.on = x.on;
  out.type = x.type;
  for (auto& body : x.bodies)
    out.bodies.push_back(body->clone());
  return out;
}

/// Checks the operations again, because memory may have been freed since, and
/// appends them.
CUresult issue_checked(const operations_work& x, stream& in) {
  auto code = check_operations(in.owner, x.what, false);
  return code == CUDA_SUCCESS ? issue_operations(in, x.what) : code;
}

/// Frees memory. begin_launch() made the checks. Edges may allow a free node
/// before its allocation node; then nothing is allocated yet, and nothing is
/// freed.
CUresult issue_free(const free_work& x) {
  (void)x.what->free();
  return CUDA_SUCCESS;
}

} // namespace

CUgraphNodeType type_of(const work& x) noexcept {
  return std::visit(
      overloaded{
          [](const empty_work&) { return CU_GRAPH_NODE_TYPE_EMPTY; },
          [](const kernel_work&) { return CU_GRAPH_NODE_TYPE_KERNEL; },
          [](const copy_work&) { return CU_GRAPH_NODE_TYPE_MEMCPY; },
          [](const fill_work&) { return CU_GRAPH_NODE_TYPE_MEMSET; },
          [](const host_work&) { return CU_GRAPH_NODE_TYPE_HOST; },
          [](const event_record_work&) {
            return CU_GRAPH_NODE_TYPE_EVENT_RECORD;
          },
          [](const event_wait_work&) { return CU_GRAPH_NODE_TYPE_WAIT_EVENT; },
          [](const operations_work&) {
            return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
          },
          [](const child_work&) { return CU_GRAPH_NODE_TYPE_GRAPH; },
          [](const conditional_work&) {
            return CU_GRAPH_NODE_TYPE_CONDITIONAL;
          },
          [](const allocation_work&) { return CU_GRAPH_NODE_TYPE_MEM_ALLOC; },
          [](const free_work&) { return CU_GRAPH_NODE_TYPE_MEM_FREE; }},
      x);
}

bool waits_for_values(const work& x) noexcept {
  if (auto* child = std::get_if<child_work>(&x); child != nullptr)
    return std::any_of(child->what->nodes().begin(), child->what->nodes().end(),
                       [](auto& node) { return waits_for_values(node->what); });
  auto* own = std::get_if<operations_work>(&x);
  return own != nullptr && any_waits(own->what);
}

bool has_memory(const work& x) noexcept {
  if (auto* child = std::get_if<child_work>(&x); child != nullptr)
    return child->what->has_memory();
  return std::holds_alternative<allocation_work>(x) ||
         std::holds_alternative<free_work>(x);
}

void add_memory_steps(const work& x, std::vector<memory_step>& out) {
  if (auto* child = std::get_if<child_work>(&x); child != nullptr)
    child->what->add_memory_steps(out);
  else if (auto* made = std::get_if<allocation_work>(&x); made != nullptr)
    out.push_back({made->what, true});
  else if (auto* gone = std::get_if<free_work>(&x); gone != nullptr)
    out.push_back({gone->what, false});
}

void keep_attributes(work& fresh, const work& earlier) {
  auto* to = std::get_if<kernel_work>(&fresh);
  auto* from = std::get_if<kernel_work>(&earlier);
  if (to != nullptr && from != nullptr)
    to->keep_attributes_of(*from);
}

work clone(const work& x) {
  return std::visit(overloaded{[](const child_work& c) -> work {
                                 return child_work{c.what->clone()};
                               },
                               [](const conditional_work& c) -> work {
                                 return clone_conditional(c);
                               },
                               [](const auto& other) -> work { return other; }},
                    x);
}

CUresult issue(const work& x, stream& in) {
  return std::visit(
      overloaded{
          [](const empty_work&) { return CUDA_SUCCESS; },
          [&](const kernel_work& w) { return issue_kernel(w, in); },
          [&](const copy_work& w) { return transfer_bytes(in, w.what); },
          [&](const fill_work& w) { return issue_fill(w, in); },
          [&](const host_work& w) {
            return host_calls().add(in, w.what.fn, w.what.userData);
          },
          [&](const event_record_work& w) { return issue_record(w, in); },
          [&](const event_wait_work& w) { return issue_wait(w, in); },
          [&](const operations_work& w) { return issue_checked(w, in); },
          [&](const child_work& w) { return issue_all(*w.what, in); },
          [](const conditional_work&) { return CUDA_ERROR_UNKNOWN; },
          [](const allocation_work& w) { return w.what->allocate(); },
          [](const free_work& w) { return issue_free(w); }},
      x);
}

CUresult describe(const launch_request& from, context& in, kernel_work& out) {
  parameter_room room;
  prepared_launch ready;
  if (auto code = prepare(in, from, room, ready); code != CUDA_SUCCESS)
    return code;
  out = {from.function,
         from.shape,
         {ready.parameters.begin(), ready.parameters.end()},
         from.with == nullptr ? launch_attributes{} : from.with->of_node()};
  return CUDA_SUCCESS;
}

CUresult describe(const CUDA_KERNEL_NODE_PARAMS& from, context& in,
                  kernel_work& out) {
  launch_request what;
  // A CUkernel stands for its function in every context.
  what.function = from.func != nullptr
                      ? from.func
                      : reinterpret_cast<CUfunction>(from.kern);
  what.shape.grid = {from.gridDimX, from.gridDimY, from.gridDimZ};
  what.shape.block = {from.blockDimX, from.blockDimY, from.blockDimZ};
  what.shape.shared_bytes = from.sharedMemBytes;
  what.parameters = from.kernelParams;
  what.extra = from.extra;
  return describe(what, in, out);
}

CUresult describe(const CUDA_MEMCPY3D& from, copy_work& out) {
  out.what.async = true;
  return to_transfer(from, out.what);
}

CUresult describe(const CUDA_MEMSET_NODE_PARAMS& from, fill_work& out) {
  if (from.elementSize != 1 && from.elementSize != 2 && from.elementSize != 4)
    return CUDA_ERROR_INVALID_VALUE;
  if (from.width == 0 || from.height == 0 || from.dst == 0)
    return CUDA_ERROR_INVALID_VALUE;
  out.what = from;
  return CUDA_SUCCESS;
}

CUresult describe(const CUDA_HOST_NODE_PARAMS& from, host_work& out) {
  if (from.fn == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  out.what = from;
  return CUDA_SUCCESS;
}

namespace {

/// Checks that the devices that are to use the memory can do so.
CUresult check_access(const CUDA_MEM_ALLOC_NODE_PARAMS& x) {
  const auto& devices = here().devices();
  if (x.accessDescCount > devices.size() ||
      (x.accessDescCount != 0 && x.accessDescs == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  auto owner = static_cast<std::size_t>(x.poolProps.location.id);
  for (std::size_t i = 0; i < x.accessDescCount; ++i) {
    const auto& by = x.accessDescs[i].location;
    auto who = static_cast<std::size_t>(by.id);
    if (by.type != CU_MEM_LOCATION_TYPE_DEVICE || by.id < 0 ||
        who >= devices.size())
      return CUDA_ERROR_INVALID_VALUE;
    if (who != owner && !can_reach(devices[who], devices[owner]))
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

/// Makes the driver's checks, in its order (580 on an H100).
CUresult check_allocation(const CUDA_MEM_ALLOC_NODE_PARAMS& x) {
  const auto& pool = x.poolProps;
  const auto& at = pool.location;
  if (x.bytesize == 0 || pool.allocType == CU_MEM_ALLOCATION_TYPE_INVALID ||
      at.type == CU_MEM_LOCATION_TYPE_INVALID)
    return CUDA_ERROR_INVALID_VALUE;
  if (pool.handleTypes != CU_MEM_HANDLE_TYPE_NONE ||
      pool.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      at.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (at.id < 0 || static_cast<std::size_t>(at.id) >= here().devices().size())
    return CUDA_ERROR_INVALID_VALUE;
  return check_access(x);
}

} // namespace

namespace {

/// Tells whether a graph may have memory nodes. A body takes them, but cannot
/// be instantiated then.
bool takes_memory(const graph& into) {
  return into.held_by == graph::holder::program ||
         into.held_by == graph::holder::body;
}

} // namespace

CUresult describe(const CUDA_MEM_ALLOC_NODE_PARAMS& from, const context& in,
                  const graph& into, allocation_work& out) {
  if (!takes_memory(into))
    return CUDA_ERROR_NOT_SUPPORTED;
  if (auto code = check_allocation(from); code != CUDA_SUCCESS)
    return code;
  return graph_memory::make(
      {.owner = into.handle,
       .device = static_cast<std::uint8_t>(from.poolProps.location.id),
       .context = in.id.load(),
       .bytes = from.bytesize,
       .pool = from.poolProps,
       .access = {from.accessDescs, from.accessDescs + from.accessDescCount}},
      out.what);
}

CUresult describe_free(CUdeviceptr at, const graph& into, free_work& out) {
  if (!takes_memory(into))
    return CUDA_ERROR_NOT_SUPPORTED;
  out.what = find_graph_memory(at);
  return out.what == nullptr ? CUDA_ERROR_INVALID_VALUE
                             : out.what->claim_free(into.handle);
}

void kernel_work::take_over(kernel_work&& fresh) {
  if (fresh.parameters.size() == parameters.size()) {
    std::copy(fresh.parameters.begin(), fresh.parameters.end(),
              parameters.begin());
    fresh.parameters = std::move(parameters);
  }
  *this = std::move(fresh);
}

CUDA_KERNEL_NODE_PARAMS kernel_params(const kernel_work& x,
                                      std::vector<void*>& pointers) {
  const auto& s = x.shape;
  CUDA_KERNEL_NODE_PARAMS out{};
  out.gridDimX = s.grid.x;
  out.gridDimY = s.grid.y;
  out.gridDimZ = s.grid.z;
  out.blockDimX = s.block.x;
  out.blockDimY = s.block.y;
  out.blockDimZ = s.block.z;
  out.sharedMemBytes = s.shared_bytes;
  pointers.clear();
  auto why = CUDA_SUCCESS;
  auto* current = current_context();
  auto* f =
      current == nullptr ? nullptr : find_function(x.function, *current, why);
  if (f == nullptr)
    return out;
  // A runtime knows its kernels by either handle.
  out.func = f->handle;
  out.kern = kernel_of(*f);
  out.ctx = f->in->owner.handle;
  for (auto p : f->parameters)
    pointers.push_back(const_cast<std::byte*>(x.parameters.data() + p.offset));
  out.kernelParams = pointers.empty() ? nullptr : pointers.data();
  return out;
}

CUDA_MEMCPY3D copy_params(const copy_work& x) {
  const auto& t = x.what;
  auto kind = [](transfer::side named) {
    return named == transfer::side::host     ? CU_MEMORYTYPE_HOST
           : named == transfer::side::device ? CU_MEMORYTYPE_DEVICE
           : named == transfer::side::array  ? CU_MEMORYTYPE_ARRAY
                                             : CU_MEMORYTYPE_UNIFIED;
  };
  auto pitch = [&](const rows& r) {
    return r.pitch != 0 ? r.pitch : t.size.width;
  };
  CUDA_MEMCPY3D out{};
  out.srcMemoryType = kind(t.from_side);
  out.srcHost = reinterpret_cast<const void*>(t.from.address);
  out.srcDevice = t.from.address;
  out.srcPitch = pitch(t.from);
  out.srcHeight =
      t.from.slice != 0 ? t.from.slice / out.srcPitch : t.size.height;
  out.dstMemoryType = kind(t.to_side);
  out.dstHost = reinterpret_cast<void*>(t.to.address);
  out.dstDevice = t.to.address;
  out.dstPitch = pitch(t.to);
  out.dstHeight = t.to.slice != 0 ? t.to.slice / out.dstPitch : t.size.height;
  out.WidthInBytes = t.size.width;
  out.Height = t.size.height;
  out.Depth = t.size.depth;
  if (t.from_side == transfer::side::array) {
    out.srcHost = nullptr;
    out.srcDevice = out.srcPitch = out.srcHeight = 0;
    locate_in_array(t.from.address, out.srcArray, out.srcXInBytes, out.srcY,
                    out.srcZ);
  }
  if (t.to_side == transfer::side::array) {
    out.dstHost = nullptr;
    out.dstDevice = out.dstPitch = out.dstHeight = 0;
    locate_in_array(t.to.address, out.dstArray, out.dstXInBytes, out.dstY,
                    out.dstZ);
  }
  return out;
}

} // namespace vgpu::interposer
