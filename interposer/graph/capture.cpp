#include "interposer/graph/capture.hpp"

#include "interposer/graph/graph_part.hpp"

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>

namespace vgpu::interposer {

namespace {

/// Returns the mutex that guards everything about captures.
std::mutex& lock() noexcept {
  return graph_part::get().captures.mutex;
}

std::list<capture>& all() noexcept {
  return graph_part::get().captures.all;
}

capture* of(const stream& x) noexcept {
  return x.captured_by.load(std::memory_order_relaxed);
}

CUresult broken(capture& x, CUresult why) {
  x.broken = true;
  return why;
}

void join(capture& x, stream& s, capture_tips tips) {
  x.tips[&s] = std::move(tips);
  s.captured_by.store(&x, std::memory_order_release);
}

/// Releases a capture's streams and events, and forgets it.
void dissolve(capture& x) {
  for (auto& [s, tips] : x.tips)
    s->captured_by.store(nullptr, std::memory_order_release);
  for (auto& [e, tips] : x.recorded)
    e->captured_by.store(nullptr, std::memory_order_release);
  all().remove_if([&](auto& each) { return &each == &x; });
  captures_under_way.fetch_sub(1);
}

/// Tells whether all work of the other streams precedes the tips of the first.
bool all_joined(const capture& x) {
  std::set<const graph_node*> before;
  std::vector<const graph_node*> open;
  auto visit = [&](const graph_node* node) {
    if (before.insert(node).second)
      open.push_back(node);
  };
  for (auto& tip : x.tips.at(x.origin))
    visit(tip.node);
  while (!open.empty()) {
    const auto* node = open.back();
    open.pop_back();
    for (const auto* earlier : node->after)
      visit(earlier);
  }
  auto all_before = [&](const auto& list) {
    return std::all_of(list.begin(), list.end(),
                       [&](auto& tip) { return before.contains(tip.node); });
  };
  return all_before(x.loose) &&
         std::all_of(x.tips.begin(), x.tips.end(),
                     [&](auto& entry) { return all_before(entry.second); });
}

CUgraphEdgeData programmatic(unsigned char port) {
  CUgraphEdgeData out{};
  out.from_port = port;
  out.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  return out;
}

/// Adds a node. An edge that is not possible between two kinds of work becomes
/// an ordinary one.
graph_node& add_after(graph& into, work what, const capture_tips& tips) {
  std::vector<graph_node*> after;
  for (auto& tip : tips)
    after.push_back(tip.node);
  auto& made = into.add(std::move(what), after);
  for (auto& tip : tips)
    if (check_edge(tip.edge, *tip.node, made.what) == CUDA_SUCCESS)
      mark(made, *tip.node, tip.edge);
  return made;
}

CUresult add(stream& in, work what) {
  auto& x = *of(in);
  if (x.broken)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  auto& tips = x.tips[&in];
  tips = {{&add_after(*x.into, std::move(what), tips)}};
  return CUDA_SUCCESS;
}

} // namespace

CUstreamCaptureMode& thread_capture_mode() noexcept {
  thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

// -- begin and end
// -----------------------------------------------------------------------------

CUresult begin_capture(stream& in, CUstreamCaptureMode mode, graph* into,
                       capture_tips after) {
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL ||
      mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  if (in.is_legacy())
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  std::lock_guard guard{lock()};
  if (of(in) != nullptr)
    return CUDA_ERROR_ILLEGAL_STATE;
  auto own = into == nullptr ? std::make_unique<graph>() : nullptr;
  auto& x = all().emplace_back();
  x.id = ++graph_part::get().captures.last_id;
  x.mode = mode;
  x.thread = std::this_thread::get_id();
  x.origin = &in;
  x.own = std::move(own);
  x.into = into != nullptr ? into : x.own.get();
  join(x, in, std::move(after));
  captures_under_way.fetch_add(1);
  return CUDA_SUCCESS;
}

CUresult end_capture(stream& in, CUgraph& out, bool keep) {
  out = nullptr;
  std::lock_guard guard{lock()};
  auto* x = of(in);
  if (x == nullptr)
    return CUDA_ERROR_ILLEGAL_STATE;
  if (x->origin != &in)
    return broken(*x, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  if (x->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      x->thread != std::this_thread::get_id())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  auto code = x->broken         ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
              : !all_joined(*x) ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                                : CUDA_SUCCESS;
  if (code == CUDA_SUCCESS && keep)
    out = x->own ? give_to_program(std::move(x->own)) : x->into->handle;
  dissolve(*x);
  return code;
}

CUresult facts_of_capture(stream& in, capture_facts& out) {
  out = {};
  if (!any_capture())
    return CUDA_SUCCESS;
  std::lock_guard guard{lock()};
  auto* x = of(in);
  if (x == nullptr) {
    auto waits_for = [&](auto& each) {
      return std::any_of(each.tips.begin(), each.tips.end(), [&](auto& entry) {
        return &entry.first->owner == &in.owner && !entry.first->non_blocking();
      });
    };
    return in.is_legacy() && std::any_of(all().begin(), all().end(), waits_for)
               ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
               : CUDA_SUCCESS;
  }
  out.id = x->id;
  out.status = x->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                         : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (x->broken)
    return CUDA_SUCCESS;
  out.graph = x->into->handle;
  auto& told = x->told[&in];
  told = {};
  for (auto& tip : x->tips[&in]) {
    told.nodes.push_back(tip.node->handle);
    told.edges.push_back(tip.edge);
  }
  out.after = told.nodes.data();
  out.edges = told.edges.data();
  out.count = told.nodes.size();
  return CUDA_SUCCESS;
}

namespace {

/// Checks that a capture exists and is not broken.
CUresult check_whole(const capture* x) {
  return x == nullptr ? CUDA_ERROR_ILLEGAL_STATE
         : x->broken  ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                      : CUDA_SUCCESS;
}

} // namespace

CUresult set_capture_dependencies(stream& in, const capture_tips& after,
                                  bool add) {
  std::lock_guard guard{lock()};
  auto* x = of(in);
  if (auto code = check_whole(x); code != CUDA_SUCCESS)
    return code;
  auto foreign = [&](auto& tip) { return tip.node->in != x->into; };
  if (std::any_of(after.begin(), after.end(), foreign))
    return CUDA_ERROR_INVALID_VALUE;
  auto& tips = x->tips[&in];
  if (!add)
    tips.clear();
  tips.insert(tips.end(), after.begin(), after.end());
  return CUDA_SUCCESS;
}

void forget_captured(stream& x) {
  std::lock_guard guard{lock()};
  auto* by = of(x);
  if (by == nullptr)
    return;
  if (by->origin == &x)
    return dissolve(*by);
  auto entry = by->tips.extract(&x);
  by->loose.insert(by->loose.end(), entry.mapped().begin(),
                   entry.mapped().end());
  by->told.erase(&x);
  x.captured_by.store(nullptr);
}

void forget_captured(event& x) {
  std::lock_guard guard{lock()};
  // A capture may still list an event that was later recorded elsewhere.
  for (auto& each : all())
    each.recorded.erase(&x);
  x.captured_by.store(nullptr);
}

// -- calls under capture
// -----------------------------------------------------------------------------

CUresult capture_work(stream& in, work what) {
  std::lock_guard guard{lock()};
  return of(in) == nullptr ? CUDA_ERROR_ILLEGAL_STATE
                           : add(in, std::move(what));
}

namespace {

/// Makes work for the graph into which the stream is captured, and adds it.
template <class Work, class Make>
CUresult capture_made(stream& in, Work& what, const Make& make) {
  std::lock_guard guard{lock()};
  auto* x = of(in);
  if (auto code = check_whole(x); code != CUDA_SUCCESS)
    return code;
  auto code = make(*x->into);
  return code == CUDA_SUCCESS ? add(in, what) : code;
}

} // namespace

CUresult capture_allocation(stream& in, int device, std::uint64_t bytes,
                            CUdeviceptr& out) {
  CUDA_MEM_ALLOC_NODE_PARAMS wanted{};
  wanted.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  wanted.bytesize = bytes;
  allocation_work made;
  auto code = capture_made(in, made, [&](graph& into) {
    return describe(wanted, in.owner, into, made);
  });
  if (code == CUDA_SUCCESS)
    out = made.what->address;
  return code;
}

CUresult capture_free(stream& in, CUdeviceptr at) {
  free_work made;
  return capture_made(
      in, made, [&](graph& into) { return describe_free(at, into, made); });
}

namespace {

void record_tips(capture& by, event& x, capture_tips tips) {
  by.recorded[&x] = std::move(tips);
  x.captured_by.store(&by, std::memory_order_release);
}

} // namespace

CUresult capture_kernel(stream& in, work kernel,
                        const launch_attributes* with) {
  std::lock_guard guard{lock()};
  auto* by = of(in);
  if (auto code = check_whole(by); code != CUDA_SUCCESS)
    return code;
  auto& tips = by->tips[&in];
  if (with != nullptr && with->overlaps())
    for (auto& tip : tips)
      if (is_plain(tip.edge))
        tip.edge = programmatic(CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC);
  auto& made = add_after(*by->into, std::move(kernel), tips);
  tips = {{&made}};
  if (with == nullptr)
    return CUDA_SUCCESS;
  for (auto& each : with->events())
    if (auto* x = events().find(each.event); x != nullptr)
      record_tips(*by, *x, {{&made, programmatic(each.port)}});
  return CUDA_SUCCESS;
}

CUresult capture_record(event& x, stream& in, bool external) {
  if (&x.owner != &in.owner)
    return CUDA_ERROR_INVALID_HANDLE;
  if (external)
    return capture_work(in, event_record_work{x.handle});
  std::lock_guard guard{lock()};
  auto* by = of(in);
  if (auto code = check_whole(by); code != CUDA_SUCCESS)
    return code;
  record_tips(*by, x, by->tips[&in]);
  return CUDA_SUCCESS;
}

CUresult capture_wait(stream& in, event& x, bool external) {
  if (external && in.is_captured())
    return capture_work(in, event_wait_work{x.handle});
  std::lock_guard guard{lock()};
  auto* mine = of(in);
  auto* its = x.captured_by.load(std::memory_order_relaxed);
  if (mine != nullptr && mine->broken)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (its == nullptr) {
    if (mine == nullptr || x.recorded.load() == 0)
      return CUDA_SUCCESS;
    return broken(*mine, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  }
  if (its->broken)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  const auto& nodes = its->recorded[&x];
  if (mine == nullptr) {
    if (in.is_legacy())
      return broken(*its, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    join(*its, in, nodes);
    return CUDA_SUCCESS;
  }
  if (mine != its) {
    mine->broken = its->broken = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  auto& tips = mine->tips[&in];
  for (auto& tip : nodes) {
    auto known = std::find_if(tips.begin(), tips.end(), [&](auto& each) {
      return each.node == tip.node;
    });
    if (known == tips.end())
      tips.push_back(tip);
    // One node has one edge, and the ordinary one waits for more.
    else if (is_plain(tip.edge))
      known->edge = {};
  }
  return CUDA_SUCCESS;
}

CUresult refuse_in_capture(stream& in) {
  std::lock_guard guard{lock()};
  if (auto* x = of(in); x != nullptr)
    x->broken = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult refuse_captured(event& x) {
  std::lock_guard guard{lock()};
  if (auto* by = x.captured_by.load(); by != nullptr)
    by->broken = true;
  return CUDA_ERROR_CAPTURED_EVENT;
}

// -- other calls during a capture
// -----------------------------------------------------------------------------

CUresult check_unsafe_call() {
  if (!any_capture() || thread_capture_mode() == CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_SUCCESS;
  std::lock_guard guard{lock()};
  auto code = CUDA_SUCCESS;
  for (auto& x : all()) {
    auto own = x.thread == std::this_thread::get_id() &&
               x.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    auto global = x.mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                  thread_capture_mode() == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (own || global)
      code = broken(x, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  return code;
}

CUresult check_whole_context(const context& in) {
  if (!any_capture())
    return CUDA_SUCCESS;
  std::lock_guard guard{lock()};
  auto code = CUDA_SUCCESS;
  for (auto& x : all())
    for (auto& [s, tips] : x.tips)
      if (&s->owner == &in || &s->within == &in)
        code = broken(x, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  return code;
}

CUresult check_legacy_work(const context& in) {
  std::lock_guard guard{lock()};
  auto code = CUDA_SUCCESS;
  for (auto& x : all())
    for (auto& [s, tips] : x.tips)
      if (&s->owner == &in && !s->non_blocking())
        code = broken(x, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  return code;
}

} // namespace vgpu::interposer
