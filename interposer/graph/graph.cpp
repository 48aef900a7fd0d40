#include "interposer/graph/graph.hpp"

#include "interposer/graph/conditional_launch.hpp"
#include "interposer/graph/graph_condition.hpp"
#include "interposer/graph/graph_part.hpp"
#include "interposer/graph/graph_update.hpp"
#include "interposer/session/on_occasion.hpp"
#include "interposer/stream/stream_set.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

namespace vgpu::interposer {

namespace {

std::uint64_t next_node() noexcept {
  return graph_part::get().last_node.fetch_add(1, std::memory_order_relaxed) +
         1;
}

handle_table<graph*>& graphs() noexcept {
  return graph_part::get().graphs;
}

program_graphs& of_program() noexcept {
  return graph_part::get().of_program;
}

bool contains(const std::vector<graph_node*>& list, const graph_node* x) {
  return std::find(list.begin(), list.end(), x) != list.end();
}

} // namespace

// -- user objects
// -----------------------------------------------------------------------------

handle_table<user_object>& user_objects() noexcept {
  return graph_part::get().user_objects;
}

CUresult release(CUuserObject handle, std::uint64_t count) {
  auto* x = user_objects().find(handle);
  if (x == nullptr || count == 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (auto now = x->references.load();;) {
    if (now < count)
      return CUDA_ERROR_INVALID_VALUE;
    if (x->references.compare_exchange_weak(now, now - count)) {
      if (now == count)
        if (auto gone = user_objects().remove(handle); gone)
          gone->destroy(gone->data);
      return CUDA_SUCCESS;
    }
  }
}

// -- graph
// -----------------------------------------------------------------------------

graph::graph() {
  handle = to_handle<CUgraph>(graphs().add(std::make_unique<graph*>(this)));
}

graph::~graph() {
  for (auto& x : nodes_)
    graph_nodes().remove(x->handle);
  graphs().remove(handle);
  for (auto& [object, count] : kept_)
    (void)release(object, count);
}

graph_node& graph::add(work what, std::span<graph_node* const> after) {
  auto made = std::make_unique<graph_node>();
  made->in = this;
  made->id = next_node();
  made->last_since = made->id;
  made->what = std::move(what);
  for (auto* x : after)
    if (!contains(made->after, x))
      made->after.push_back(x);
  made->handle = to_handle<CUgraphNode>(graph_nodes().add(
      std::make_unique<node_reference>(node_reference{made.get()})));
  nodes_.push_back(std::move(made));
  order_.clear();
  note(*nodes_.back());
  return *nodes_.back();
}

void graph::remove(graph_node& x) {
  order_.clear();
  for (auto& other : nodes_)
    if (std::erase(other->after, &x) != 0)
      other->marked.erase(&x);
  for (auto* before : std::exchange(x.after, {}))
    note_last(*before);
  graph_nodes().remove(x.handle);
  if (auto* chosen = std::get_if<conditional_work>(&x.what); chosen != nullptr)
    chosen->on->has_node = false;
  std::erase_if(nodes_, [&](auto& each) { return each.get() == &x; });
}

void graph::note(graph_node& x) {
  has_memory_ = has_memory_ || interposer::has_memory(x.what);
  if (auto* child = std::get_if<child_work>(&x.what); child != nullptr)
    child->what->child_of = &x;
  auto* chosen = std::get_if<conditional_work>(&x.what);
  if (chosen == nullptr)
    return;
  has_conditions_ = true;
  for (auto& body : chosen->bodies)
    body->outer = this;
}

void graph::add(std::shared_ptr<condition> x) {
  conditions_.push_back(std::move(x));
  has_conditions_ = true;
}

bool graph::uses_all_conditions() const {
  return std::all_of(conditions_.begin(), conditions_.end(),
                     [](auto& x) { return x->has_node; });
}

CUresult graph::connect(graph_node& from, graph_node& to) {
  if (&from == &to || contains(to.after, &from))
    return CUDA_ERROR_INVALID_VALUE;
  to.after.push_back(&from);
  order_.clear();
  return CUDA_SUCCESS;
}

CUresult graph::disconnect(graph_node& from, graph_node& to) {
  order_.clear();
  to.marked.erase(&from);
  if (std::erase(to.after, &from) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  note_last(from);
  return CUDA_SUCCESS;
}

void graph::note_last(graph_node& x) {
  if (dependents(x).empty())
    x.last_since = next_node();
}

CUresult check_edge(const CUgraphEdgeData& x, const graph_node& from,
                    const work& to) {
  constexpr unsigned char none[sizeof(x.reserved)] = {};
  auto programmatic = x.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  if (std::memcmp(x.reserved, none, sizeof(none)) != 0 || x.to_port != 0 ||
      x.type > CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC ||
      x.from_port > CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER ||
      (programmatic && x.from_port == CU_GRAPH_KERNEL_NODE_PORT_DEFAULT) ||
      (!programmatic && x.from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC))
    return CUDA_ERROR_INVALID_VALUE;
  auto from_kernel = std::holds_alternative<kernel_work>(from.what);
  auto to_kernel = std::holds_alternative<kernel_work>(to);
  return (x.from_port != 0 && !from_kernel) || (programmatic && !to_kernel)
             ? CUDA_ERROR_INVALID_VALUE
             : CUDA_SUCCESS;
}

void mark(graph_node& to, const graph_node& from, const CUgraphEdgeData& x) {
  if (!is_plain(x))
    to.marked.insert_or_assign(&from, x);
}

CUgraphEdgeData data_of(const graph_node& from, const graph_node& to) {
  auto known = to.marked.find(&from);
  return known == to.marked.end() ? CUgraphEdgeData{} : known->second;
}

graph_node* graph::with_id(std::uint64_t id) const noexcept {
  auto found = std::find_if(nodes_.begin(), nodes_.end(),
                            [&](auto& x) { return x->id == id; });
  if (found != nodes_.end())
    return found->get();
  for (auto& x : nodes_)
    if (auto* chosen = std::get_if<conditional_work>(&x->what);
        chosen != nullptr)
      for (auto& body : chosen->bodies)
        if (auto* inner = body->with_id(id); inner != nullptr)
          return inner;
  return nullptr;
}

graph_node* graph::copy_of(const graph_node& original) const {
  // Copies of one graph in several child nodes have the same ids, so the way
  // leads through the child nodes.
  std::vector<std::uint64_t> way{original.id};
  for (const auto* in = original.in; in != nullptr;) {
    auto* node = in->child_of;
    if (node != nullptr)
      way.push_back(node->id);
    in = node != nullptr ? node->in : in->outer;
  }
  const auto* at = this;
  for (;;) {
    auto* found = at->with_id(way.back());
    way.pop_back();
    if (found == nullptr || way.empty())
      return found;
    auto* child = std::get_if<child_work>(&found->what);
    if (child == nullptr)
      return nullptr;
    at = child->what.get();
  }
}

bool graph::has_cycle() const {
  auto within = [](auto& x) {
    auto* chosen = std::get_if<conditional_work>(&x->what);
    return chosen != nullptr &&
           std::any_of(chosen->bodies.begin(), chosen->bodies.end(),
                       [](auto& body) { return body->has_cycle(); });
  };
  return in_order().size() != nodes_.size() ||
         (has_conditions_ && std::any_of(nodes_.begin(), nodes_.end(), within));
}

const graph_node* graph::in_cycle() const {
  const auto& ordered = in_order();
  for (auto& x : nodes_) {
    if (!contains(ordered, x.get()))
      return x.get();
    auto* chosen = std::get_if<conditional_work>(&x->what);
    if (chosen == nullptr)
      continue;
    for (auto& body : chosen->bodies)
      if (auto* inner = body->in_cycle(); inner != nullptr)
        return inner;
  }
  return nullptr;
}

const std::vector<graph_node*>& graph::in_order() const {
  if (order_.empty() && !nodes_.empty())
    order_ = sorted();
  return order_;
}

void graph::put_in_order() const {
  (void)in_order();
  for (auto& x : nodes_) {
    if (auto* child = std::get_if<child_work>(&x->what); child != nullptr)
      child->what->put_in_order();
    if (auto* chosen = std::get_if<conditional_work>(&x->what);
        chosen != nullptr)
      for (auto& body : chosen->bodies)
        body->put_in_order();
  }
}

std::vector<graph_node*> graph::sorted() const {
  // Most graphs are in order already, so that one round suffices. Work that
  // waits for a value comes when no other can, because another branch may write
  // the value.
  std::vector<graph_node*> out;
  std::set<const graph_node*> done;
  out.reserve(nodes_.size());
  auto is_ready = [&](const graph_node& x) {
    return !done.contains(&x) &&
           std::all_of(x.after.begin(), x.after.end(),
                       [&](graph_node* y) { return done.contains(y); });
  };
  auto take = [&](graph_node& x) {
    done.insert(&x);
    out.push_back(&x);
  };
  for (auto grown = true; grown && out.size() < nodes_.size();) {
    grown = false;
    graph_node* waiting = nullptr;
    for (auto& x : nodes_) {
      if (!is_ready(*x))
        continue;
      if (waits_for_values(x->what)) {
        waiting = waiting == nullptr ? x.get() : waiting;
        continue;
      }
      take(*x);
      grown = true;
    }
    if (!grown && waiting != nullptr) {
      take(*waiting);
      grown = true;
    }
  }
  return out;
}

std::vector<graph_node*> graph::dependents(const graph_node& x) const {
  std::vector<graph_node*> out;
  for (auto& other : nodes_)
    if (contains(other->after, &x))
      out.push_back(other.get());
  return out;
}

void graph::add_memory_steps(std::vector<memory_step>& out) const {
  for (auto* x : in_order())
    interposer::add_memory_steps(x->what, out);
}

void graph::set_work(graph_node& x, work what) {
  x.what = std::move(what);
  note(x);
}

std::unique_ptr<graph> graph::clone() const {
  auto out = std::make_unique<graph>();
  out->held_by = held_by;
  std::map<const graph_node*, graph_node*> twin;
  for (auto& x : nodes_) {
    auto& made = out->add(interposer::clone(x->what), {});
    made.id = x->id;
    made.last_since = x->last_since;
    made.enabled = x->enabled;
    twin[x.get()] = &made;
  }
  for (auto& x : nodes_)
    for (auto* before : x->after) {
      twin[x.get()]->after.push_back(twin[before]);
      mark(*twin[x.get()], *twin[before], data_of(*before, *x));
    }
  out->order_.clear();
  for (auto& [object, count] : kept_)
    if (auto* shared = user_objects().find(object); shared != nullptr) {
      shared->references.fetch_add(count);
      out->kept_[object] = count;
    }
  return out;
}

void graph::keep(CUuserObject object, std::uint64_t count) {
  kept_[object] += count;
}

CUresult graph::give_up(CUuserObject object, std::uint64_t count) {
  auto found = kept_.find(object);
  if (found == kept_.end() || found->second < count || count == 0)
    return CUDA_ERROR_INVALID_VALUE;
  found->second -= count;
  if (found->second == 0)
    kept_.erase(found);
  return release(object, count);
}

// -- tables
// -----------------------------------------------------------------------------

handle_table<node_reference>& graph_nodes() noexcept {
  return graph_part::get().nodes;
}

handle_table<graph_exec>& graph_execs() noexcept {
  return graph_part::get().execs;
}

graph* find_graph(CUgraph handle) noexcept {
  auto* x = graphs().find(handle);
  return x == nullptr ? nullptr : *x;
}

CUgraph give_to_program(std::unique_ptr<graph> x) {
  auto& to = of_program();
  std::lock_guard guard{to.mutex};
  auto* raw = x.get();
  raw->held_by = graph::holder::program;
  to.all[raw] = std::move(x);
  return raw->handle;
}

std::unique_ptr<graph> take_from_program(CUgraph handle) {
  auto& from = of_program();
  std::lock_guard guard{from.mutex};
  auto entry = from.all.extract(find_graph(handle));
  return entry.empty() ? nullptr : std::move(entry.mapped());
}

CUresult destroy_graph(CUgraph handle) {
  return take_from_program(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

graph_node* find_node(CUgraphNode handle) noexcept {
  auto* x = graph_nodes().find(handle);
  return x == nullptr ? nullptr : x->to;
}

// -- launching
// -----------------------------------------------------------------------------

graph_exec::graph_exec(context& in, graph& of, std::uint64_t with_flags)
    : owner(in), flags(with_flags), what(of.clone()),
      instance(std::make_shared<char>()) {
  if (of.is_single())
    of.instance = instance;
  settle_priorities();
}

namespace {

void drop_priorities(graph& of) {
  for (auto& x : of.nodes()) {
    if (auto* kernel = std::get_if<kernel_work>(&x->what); kernel != nullptr)
      kernel->with.drop(CU_LAUNCH_ATTRIBUTE_PRIORITY);
    else if (auto* child = std::get_if<child_work>(&x->what); child != nullptr)
      drop_priorities(*child->what);
    else if (auto* chosen = std::get_if<conditional_work>(&x->what);
             chosen != nullptr)
      for (auto& body : chosen->bodies)
        drop_priorities(*body);
  }
}

} // namespace

void graph_exec::settle_priorities() {
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) == 0)
    drop_priorities(*what);
}

graph_exec::~graph_exec() {
  if (ended != nullptr)
    on_occasion<occasion::first_use>([&] { retire_event(*ended); });
}

std::shared_ptr<const graph> graph_exec::launched() {
  if (launched_ == nullptr) {
    launched_ = what->clone();
    // From now on two threads read the graph.
    launched_->put_in_order();
  }
  return launched_;
}

CUresult issue_all(const graph& x, stream& in) {
  for (auto* node : x.in_order())
    if (node->enabled)
      if (auto code = issue(node->what, in); code != CUDA_SUCCESS)
        return code;
  return CUDA_SUCCESS;
}

namespace {

std::vector<memory_step> memory_steps(const graph_exec& x) {
  std::vector<memory_step> out;
  x.what->add_memory_steps(out);
  return out;
}

/// Tells whether so many streams could wait behind a launch that none of a
/// GPU's eight channels is left for the rest of the launch.
bool is_crowded(context& in) {
  constexpr std::size_t most_streams = 2; // and the legacy one
  return streams_of(in.root).size() > most_streams;
}

/// Launches a graph after its own earlier launches, also those in other
/// streams (CUDA driver API, cuGraphLaunch).
CUresult launch_in_turn(graph_exec& x, stream& in) {
  auto conditional = x.what->has_conditions();
  // No event orders the streams of two contexts.
  if (&in.owner != &x.owner && !conditional)
    return issue_all(*x.what, in);
  if (x.ended == nullptr)
    x.ended = make_event(x.owner, CU_EVENT_DISABLE_TIMING);
  else if (auto code =
               x.ended_in == in.wire ? CUDA_SUCCESS : wait(in, *x.ended);
           code != CUDA_SUCCESS)
    return code;
  if (auto code = conditional ? launch_conditional(x.launched(), in)
                              : issue_all(*x.what, in);
      code != CUDA_SUCCESS)
    return code;
  if (conditional && is_crowded(in.owner))
    wait_for_conditional_launches();
  x.ended_in = in.wire;
  return record(*x.ended, in);
}

} // namespace

CUresult launch(graph_exec& x, stream& in) {
  if (!x.what->has_memory()) [[likely]]
    return launch_in_turn(x, in);
  auto steps = memory_steps(x);
  auto free_first =
      (x.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
  if (auto code = begin_launch(steps, free_first); code != CUDA_SUCCESS)
    return code;
  auto code = launch_in_turn(x, in);
  if (code != CUDA_SUCCESS)
    abandon_launch(steps);
  // The program may rely on its allocations when this returns.
  else if (x.what->has_conditions())
    wait_for_conditional_launches();
  return code;
}

CUresult upload(const graph_exec& x) {
  return x.what->has_memory() ? upload_memory(memory_steps(x)) : CUDA_SUCCESS;
}

CUresult update(graph_exec& x, graph& from, CUgraphExecUpdateResultInfo& info) {
  auto other = from.instance.lock();
  if (from.held_by == graph::holder::moved ||
      (other != nullptr && other != x.instance)) {
    info = {};
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  node_pairs pairs;
  if (auto code = pair_nodes(*x.what, from, x.flags, pairs, info);
      code != CUDA_SUCCESS)
    return code;
  take_over(pairs);
  x.settle_priorities();
  if (from.has_memory())
    from.instance = x.instance;
  x.changed();
  info.result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  info.errorNode = info.errorFromNode = nullptr;
  return CUDA_SUCCESS;
}

} // namespace vgpu::interposer
