// Graphs of work that is described once and launched often. Only the interposer
// knows them: a launch appends the calls of the nodes to the log, one by one.
// These calls replay like any other work, and devices need no support for
// graphs.
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

/// Represents an object of the program that lives as long as something refers
/// to it (cuUserObjectCreate).
struct user_object {
  void* data = nullptr;
  CUhostFn destroy = nullptr;
  std::atomic<std::uint64_t> references{0};
};

/// Returns the process's user objects by handle. Precondition: the driver's
/// state is made.
handle_table<user_object>& user_objects() noexcept;
/// Drops references, and destroys the object with its last one. Returns
/// CUDA_ERROR_INVALID_VALUE where it has fewer.
CUresult release(CUuserObject handle, std::uint64_t count);

/// A node of a graph holds one piece of work and its dependencies.
struct graph_node {
  graph* in = nullptr;
  /// Identifies the node and its copies in clones of the graph.
  std::uint64_t id = 0;
  work what;
  /// Orders the nodes that no other one depends on, by when they became such
  /// nodes. Updates pair them in this order.
  std::uint64_t last_since = 0;
  bool enabled = true;
  std::vector<graph_node*> after; ///< its dependencies
  /// Holds the data of its incoming edges that have data.
  std::map<const graph_node*, CUgraphEdgeData> marked;
  CUgraphNode handle = nullptr;
  /// Holds the pointers that cuGraphKernelNodeGetParams returned.
  std::vector<void*> pointers;
};

/// Represents a CUgraph. Not thread-safe, as in CUDA (driver API, "Graph object
/// thread safety").
class graph {
public:
  graph();
  ~graph();
  graph(const graph&) = delete;
  graph& operator=(const graph&) = delete;

  /// Adds a node. Precondition: all of `after` are nodes of this graph.
  graph_node& add(work what, std::span<graph_node* const> after);
  void remove(graph_node& x);

  /// Adds an edge. Returns CUDA_ERROR_INVALID_VALUE for one that exists. Like a
  /// real driver, it accepts an edge that closes a cycle: see has_cycle().
  CUresult connect(graph_node& from, graph_node& to);
  /// Removes an edge. Returns CUDA_ERROR_INVALID_VALUE for one that does not
  /// exist.
  CUresult disconnect(graph_node& from, graph_node& to);

  const std::vector<std::unique_ptr<graph_node>>& nodes() const noexcept {
    return nodes_;
  }
  /// Finds the node with this id, here or in a body; null where there is none.
  graph_node* with_id(std::uint64_t id) const noexcept;
  /// Returns the copy of another graph's node in this clone of that graph, also
  /// of a node in a child or a body. Null where there is none.
  graph_node* copy_of(const graph_node& original) const;
  /// Returns the nodes in an order in which each comes after its dependencies,
  /// and otherwise in the order of their addition. Valid until the graph
  /// changes.
  const std::vector<graph_node*>& in_order() const;
  /// Puts the nodes in order, here and in graphs inside, so that in_order()
  /// changes nothing until the graph changes.
  void put_in_order() const;
  /// Tells whether the graph has a cycle. Such a graph cannot be instantiated.
  bool has_cycle() const;
  /// Returns a node that no order can reach, here or in a body; null where
  /// there is no cycle.
  const graph_node* in_cycle() const;
  std::vector<graph_node*> dependents(const graph_node& x) const;

  /// Tells whether a node, here or in a child graph, allocates or frees memory.
  /// Nodes and edges of such a graph cannot be removed. The graph cannot be
  /// cloned, and it has at most one executable graph at a time, because its
  /// allocations exist once.
  bool has_memory() const noexcept { return has_memory_; }
  /// Tells whether there is a conditional node, here or in a body, or a handle
  /// for one. Such a graph cannot be cloned, and can be instantiated only once.
  bool has_conditions() const noexcept { return has_conditions_; }
  bool is_single() const noexcept { return has_memory_ || has_conditions_; }
  /// Adds a condition for a node of this graph.
  void add(std::shared_ptr<condition> x);
  /// Tells whether every condition belongs to a node.
  bool uses_all_conditions() const;

  /// Appends to `out` the memory steps of a launch, in the order of the launch.
  void add_memory_steps(std::vector<memory_step>& out) const;

  /// Replaces the work of a node of this graph.
  void set_work(graph_node& x, work what);

  std::unique_ptr<graph> clone() const;

  /// Takes over `count` of the object's references.
  void keep(CUuserObject object, std::uint64_t count);
  CUresult give_up(CUuserObject object, std::uint64_t count);

  CUgraph handle = nullptr;

  enum class holder : std::uint8_t {
    program,
    node,  ///< A child node holds a clone of the program's graph.
    moved, ///< A child node holds a graph that was the program's.
    body,  ///< A conditional node holds the graph.
  };
  holder held_by = holder::program;
  /// Points to the graph whose node has this one as a body. Null otherwise.
  graph* outer = nullptr;
  /// Points to the child node that holds this graph. Null otherwise.
  graph_node* child_of = nullptr;
  /// Expires with the executable graph of this one. Used only where
  /// is_single().
  std::weak_ptr<const void> instance;

private:
  std::vector<graph_node*> sorted() const;
  /// Notes that a node may have become one that no other depends on.
  void note_last(graph_node& x);
  void note(graph_node& x);

  std::vector<std::unique_ptr<graph_node>> nodes_;
  // Empty while the order is not known
  mutable std::vector<graph_node*> order_;
  std::map<CUuserObject, std::uint64_t> kept_;
  std::vector<std::shared_ptr<condition>> conditions_;
  bool has_memory_ = false;
  bool has_conditions_ = false;
};

// An edge's data says when the edge is satisfied. Most edges have none.

inline bool is_plain(const CUgraphEdgeData& x) noexcept {
  return x.from_port == 0 && x.to_port == 0 && x.type == 0;
}
/// Checks whether a node with work `to` may depend on `from` by such an edge.
/// Such edges let a kernel start its dependents before it ends. Here the kernel
/// always ends first, which such an edge allows too (driver API,
/// CUgraphEdgeData).
CUresult check_edge(const CUgraphEdgeData& x, const graph_node& from,
                    const work& to);
/// Sets an edge's data. Precondition: the edge exists.
void mark(graph_node& to, const graph_node& from, const CUgraphEdgeData& x);
/// Returns an edge's data, which is all 0 where it is plain.
CUgraphEdgeData data_of(const graph_node& from, const graph_node& to);

/// Calls `f(const condition&)` for the conditions of all nodes, also in bodies.
template <class F>
void each_condition(const graph& x, const F& f) {
  for (auto& node : x.nodes())
    if (auto* w = std::get_if<conditional_work>(&node->what); w != nullptr) {
      f(*w->on);
      for (auto& body : w->bodies)
        each_condition(*body, f);
    }
}

/// Represents an executable graph, which is a copy of the program's graph.
struct graph_exec {
  graph_exec(context& in, graph& of, std::uint64_t with_flags);
  graph_exec(const graph_exec&) = delete;
  graph_exec& operator=(const graph_exec&) = delete;
  ~graph_exec();

  context& owner;
  const std::uint64_t flags;
  std::unique_ptr<graph> what;
  /// Keeps graph::instance valid while this object lives.
  const std::shared_ptr<const void> instance;

  /// Makes kernels run with the priority of the stream of each launch, unless
  /// the flags ask for that of their nodes. Call it when nodes have new work.
  void settle_priorities();

  // The members below are for graphs with conditional nodes.

  /// Returns the graph to launch now. Later changes of this object do not
  /// change it.
  std::shared_ptr<const graph> launched();
  void changed() noexcept { launched_.reset(); }
  /// Marks the end of the latest launch. Null before the first launch.
  std::unique_ptr<event> ended;
  stream_id ended_in{}; // the stream of that launch

private:
  std::shared_ptr<const graph> launched_;
};

/// Refers to a node in the table of handles. The node belongs to its graph.
struct node_reference {
  graph_node* to = nullptr;
};

/// Returns the process's graph nodes by handle. Precondition: the driver's
/// state is made.
handle_table<node_reference>& graph_nodes() noexcept;
/// Returns the process's executable graphs by handle. Precondition: the
/// driver's state is made.
handle_table<graph_exec>& graph_execs() noexcept;

/// Holds the graphs that belong to the program, and not to a node.
struct program_graphs {
  std::mutex mutex;
  std::map<const graph*, std::unique_ptr<graph>> all;
};

/// Makes the program the owner of the graph, until destroy_graph().
CUgraph give_to_program(std::unique_ptr<graph> x);
/// Destroys a graph of the program. Returns CUDA_ERROR_INVALID_VALUE for any
/// other, such as a child node's.
CUresult destroy_graph(CUgraph handle);
/// Takes a graph from the program. Returns null where the graph is not the
/// program's.
std::unique_ptr<graph> take_from_program(CUgraph handle);

/// Finds a graph, or null when the handle names none.
graph* find_graph(CUgraph handle) noexcept;
/// Finds a node, or null when the handle names none.
graph_node* find_node(CUgraphNode handle) noexcept;

/// Appends the work of all enabled nodes, in order.
CUresult issue_all(const graph& x, stream& in);
/// Launches an executable graph.
CUresult launch(graph_exec& x, stream& in);

/// Serves cuGraphUpload: prepares the memory that a launch needs.
CUresult upload(const graph_exec& x);

/// Replaces the work of `x` by that of `from`, where both have the same shape
/// (graph_update.hpp).
/// `info` receives the first difference. Returns CUDA_ERROR_NOT_SUPPORTED for a
/// graph that was moved into a node, and for one with memory that has another
/// executable graph.
CUresult update(graph_exec& x, graph& from, CUgraphExecUpdateResultInfo& info);

} // namespace vgpu::interposer
