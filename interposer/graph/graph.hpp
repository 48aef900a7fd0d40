// Graphs of work that is described once and launched often. They are the
// program's side's alone: launching one appends its nodes' calls to the log,
// one by one, which replays like any other work and needs nothing of a device.
#pragma once

#include "interposer/graph/graph_work.hpp"
#include "interposer/session/handle_table.hpp"

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace vgpu::interposer {

class graph;

/// An object of the program's that lives as long as somebody refers to it
/// (cuUserObjectCreate).
struct user_object {
  void* data = nullptr;
  CUhostFn destroy = nullptr;
  std::atomic<std::uint64_t> references{0};
};

/// These hold all of the process. Precondition: the driver's state is made.
handle_table<user_object>& user_objects() noexcept;
/// CUDA_ERROR_INVALID_VALUE where there are not so many references. Destroys
/// the object with its last one.
CUresult release(CUuserObject handle, std::uint64_t count);

struct graph_node {
  graph* in = nullptr;
  /// The same in clones: what a node of the original is there.
  std::uint64_t id = 0;
  work what;
  bool enabled = true;
  std::vector<graph_node*> after; ///< what it depends on
  /// The data of those edges to it that have some.
  std::map<const graph_node*, CUgraphEdgeData> marked;
  CUgraphNode handle = nullptr;
  /// What cuGraphKernelNodeGetParams handed out.
  std::vector<void*> pointers;
};

/// Not thread-safe, as in CUDA (Driver API, "Graph object thread safety").
class graph {
public:
  graph();
  ~graph();
  graph(const graph&) = delete;
  graph& operator=(const graph&) = delete;

  /// Precondition: all of `after` are nodes of this graph.
  graph_node& add(work what, std::span<graph_node* const> after);
  void remove(graph_node& x);

  /// CUDA_ERROR_INVALID_VALUE for an edge that is there already. One that
  /// closes a cycle is taken, as a real driver takes it: see has_cycle().
  CUresult connect(graph_node& from, graph_node& to);
  /// CUDA_ERROR_INVALID_VALUE for one that is not there.
  CUresult disconnect(graph_node& from, graph_node& to);

  const std::vector<std::unique_ptr<graph_node>>& nodes() const noexcept {
    return nodes_;
  }
  /// Null when no node has this id; one of a body counts.
  graph_node* with_id(std::uint64_t id) const noexcept;
  /// Each node behind all that it depends on; otherwise as they were added.
  /// Valid until the graph is changed.
  const std::vector<graph_node*>& in_order() const;
  /// Of graphs in it, too: until it is changed, in_order() changes nothing.
  void put_in_order() const;
  /// Such a graph cannot be instantiated.
  bool has_cycle() const;
  std::vector<graph_node*> dependents(const graph_node& x) const;

  /// Whether a node, or one of a child graph, allocates or frees memory. Nodes
  /// and edges of such a graph stay, it cannot be cloned, and only one graph
  /// that can be launched is made of it at a time: what allocates must be one.
  bool has_memory() const noexcept { return has_memory_; }
  /// Whether there is a conditional node, here or in a body, or a handle for
  /// one. As of has_memory(): it cannot be cloned, and is instantiated once.
  bool has_conditions() const noexcept { return has_conditions_; }
  bool is_single() const noexcept { return has_memory_ || has_conditions_; }
  /// A handle for a node of this graph was made.
  void add(std::shared_ptr<condition> x);
  /// Whether each has its node.
  bool uses_all_conditions() const;

  /// What a launch does to memory, in its order.
  void add_memory_steps(std::vector<memory_step>& out) const;

  /// Gives a node of this graph other work.
  void set_work(graph_node& x, work what);

  std::unique_ptr<graph> clone() const;

  /// Takes `count` of the object's references over.
  void keep(CUuserObject object, std::uint64_t count);
  CUresult give_up(CUuserObject object, std::uint64_t count);

  CUgraph handle = nullptr;

  enum class holder : std::uint8_t {
    program,
    node,  ///< a child node's, made by cloning
    moved, ///< a child node's, and the program's before
    body,  ///< a conditional node's
  };
  holder held_by = holder::program;
  /// The graph whose node it is a body of; else null.
  graph* outer = nullptr;
  /// Alive as long as a graph that can be launched is made of this one, where
  /// is_single().
  std::weak_ptr<const void> instance;

private:
  std::vector<graph_node*> sorted() const;
  void note(work& what);

  std::vector<std::unique_ptr<graph_node>> nodes_;
  mutable std::vector<graph_node*> order_; // empty where it is not known
  std::map<CUuserObject, std::uint64_t> kept_;
  std::vector<std::shared_ptr<condition>> conditions_;
  bool has_memory_ = false;
  bool has_conditions_ = false;
};

// -- what an edge says of when it is passed: mostly nothing

inline bool is_plain(const CUgraphEdgeData& x) noexcept {
  return x.from_port == 0 && x.to_port == 0 && x.type == 0;
}
/// Whether a node of that work may be behind `from` by such an edge. Kernels
/// may start their dependents before they end; here they end first, which such
/// an edge allows too. (Driver API, CUgraphEdgeData.)
CUresult check_edge(const CUgraphEdgeData& x, const graph_node& from,
                    const work& to);
/// Precondition: the edge is there.
void mark(graph_node& to, const graph_node& from, const CUgraphEdgeData& x);
/// That edge's data, all 0 where it is plain.
CUgraphEdgeData data_of(const graph_node& from, const graph_node& to);

/// Calls `f(const condition&)` for those of all nodes, also in bodies.
template <class F>
void each_condition(const graph& x, const F& f) {
  for (auto& node : x.nodes())
    if (auto* w = std::get_if<conditional_work>(&node->what); w != nullptr) {
      f(*w->on);
      for (auto& body : w->bodies)
        each_condition(*body, f);
    }
}

/// A graph that can be launched: a copy.
struct graph_exec {
  graph_exec(context& in, graph& of, std::uint64_t with_flags);
  graph_exec(const graph_exec&) = delete;
  graph_exec& operator=(const graph_exec&) = delete;
  ~graph_exec();

  context& owner;
  const std::uint64_t flags;
  std::unique_ptr<graph> what;
  /// What graph::instance knows of.
  const std::shared_ptr<const void> instance;

  // Where it has conditional nodes:

  /// What is launched now: it stays as it is when this is changed.
  std::shared_ptr<const graph> launched();
  void changed() noexcept { launched_.reset(); }
  /// The end of the latest launch; null before the first.
  std::unique_ptr<event> ended;

private:
  std::shared_ptr<const graph> launched_;
};

struct node_reference {
  graph_node* to = nullptr;
};

/// These hold all of the process. Precondition: the driver's state is made.
handle_table<node_reference>& graph_nodes() noexcept;
handle_table<graph_exec>& graph_execs() noexcept;

/// The table holds the graphs that belong to the program, and not to a node.
struct program_graphs {
  std::mutex mutex;
  std::map<const graph*, std::unique_ptr<graph>> all;
};

/// Makes it the program's own, until destroy_graph().
CUgraph give_to_program(std::unique_ptr<graph> x);
/// CUDA_ERROR_INVALID_VALUE for what is not the program's: a child node's.
CUresult destroy_graph(CUgraph handle);
/// Null for what is not the program's.
std::unique_ptr<graph> take_from_program(CUgraph handle);

/// Null when the handle names nothing.
graph* find_graph(CUgraph handle) noexcept;
graph_node* find_node(CUgraphNode handle) noexcept;

/// Appends the work of all nodes that are enabled.
CUresult launch(graph_exec& x, stream& in);

/// cuGraphUpload: what a launch needs, ahead of it.
CUresult upload(const graph_exec& x);

/// Makes `x` do what `from` says, where the two have the same shape. What
/// differed first goes to `info`. CUDA_ERROR_NOT_SUPPORTED for a graph that was
/// moved into a node, and for one with memory that something else was made of.
CUresult update(graph_exec& x, graph& from, CUgraphExecUpdateResultInfo& info);

} // namespace vgpu::interposer
