#include "interposer/graph/graph_update.hpp"

#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"

#include <algorithm>
#include <deque>
#include <set>

namespace vgpu::interposer {

namespace {

CUresult differ(CUgraphExecUpdateResultInfo& info, CUgraphExecUpdateResult why,
                const graph_node* at, const graph_node* from = nullptr) {
  info.result = why;
  info.errorNode = at == nullptr ? nullptr : at->handle;
  info.errorFromNode = from == nullptr ? nullptr : from->handle;
  return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

/// Returns the nodes that no other one depends on, in the order in which they
/// became such nodes.
template <class Node>
std::vector<Node*> last_nodes(const graph& in) {
  std::set<const graph_node*> inner;
  for (const auto& x : in.nodes())
    inner.insert(x->after.begin(), x->after.end());
  std::vector<Node*> out;
  for (const auto& x : in.nodes())
    if (!inner.contains(x.get()))
      out.push_back(x.get());
  std::sort(out.begin(), out.end(), [](const auto* a, const auto* b) {
    return a->last_since < b->last_since;
  });
  return out;
}

/// Returns the context of a function, or null for a kernel, which has none.
const context* owner_of(CUfunction handle) {
  auto* known = functions().find(handle);
  return known == nullptr ? nullptr : &known->to->in->owner;
}

CUgraphExecUpdateResult compare(const kernel_work& mine,
                                const kernel_work& theirs,
                                std::uint64_t flags) {
  if (owner_of(mine.function) != owner_of(theirs.function) &&
      owner_of(mine.function) != nullptr &&
      owner_of(theirs.function) != nullptr)
    return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
  auto by_node = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) != 0;
  return mine.shape.cooperative != theirs.shape.cooperative ||
                 (by_node && mine.with.priority() != theirs.with.priority())
             ? CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED
             : CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

/// Tells whether two addresses belong to the same device, or both to none.
bool is_same_place(device_address a, device_address b) {
  const auto& session = process::the_session();
  return session.device_of(a) == session.device_of(b);
}

CUgraphExecUpdateResult compare(const fill_work& mine,
                                const fill_work& theirs) {
  const auto& a = mine.what;
  const auto& b = theirs.what;
  auto is_flat = a.height <= 1 && b.height <= 1;
  auto is_same_shape = a.height == b.height && a.width == b.width &&
                       a.elementSize == b.elementSize && a.pitch == b.pitch;
  return (is_flat || is_same_shape) && is_same_place(a.dst, b.dst)
             ? CU_GRAPH_EXEC_UPDATE_SUCCESS
             : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

CUgraphExecUpdateResult compare(const copy_work& mine,
                                const copy_work& theirs) {
  auto is_array = [](transfer::side x) { return x == transfer::side::array; };
  const auto& a = mine.what;
  const auto& b = theirs.what;
  return is_array(a.from_side) == is_array(b.from_side) &&
                 is_array(a.to_side) == is_array(b.to_side) &&
                 is_same_place(a.from.address, b.from.address) &&
                 is_same_place(a.to.address, b.to.address)
             ? CU_GRAPH_EXEC_UPDATE_SUCCESS
             : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

/// Compares two pieces of work of the same kind.
CUgraphExecUpdateResult compare(const work& mine, const work& theirs,
                                std::uint64_t flags) {
  if (auto* own = std::get_if<kernel_work>(&mine); own != nullptr)
    return compare(*own, std::get<kernel_work>(theirs), flags);
  if (auto* own = std::get_if<fill_work>(&mine); own != nullptr)
    return compare(*own, std::get<fill_work>(theirs));
  if (auto* own = std::get_if<copy_work>(&mine); own != nullptr)
    return compare(*own, std::get<copy_work>(theirs));
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

/// Pairs the nodes of two graphs, and of those inside them.
class pairing {
public:
  pairing(std::uint64_t flags, node_pairs& out,
          CUgraphExecUpdateResultInfo& info)
      : flags_(flags), out_(out), info_(info) {}

  CUresult pair(graph& mine, const graph& theirs) {
    if (mine.nodes().size() != theirs.nodes().size())
      return topology(nullptr);
    auto own = last_nodes<graph_node>(mine);
    auto other = last_nodes<const graph_node>(theirs);
    if (other.size() > own.size())
      return topology(other[own.size()]);
    std::deque<const graph_node*> open;
    for (std::size_t i = 0; i < other.size(); ++i) {
      join(*own[i], *other[i]);
      open.push_back(other[i]);
    }
    for (; !open.empty(); open.pop_front())
      if (auto code = visit(*open.front(), open); code != CUDA_SUCCESS)
        return code;
    auto is_paired = [&](auto& x) { return out_.contains(x.get()); };
    return std::all_of(theirs.nodes().begin(), theirs.nodes().end(), is_paired)
               ? CUDA_SUCCESS
               : topology(nullptr);
  }

private:
  CUresult topology(const graph_node* at, const graph_node* from = nullptr) {
    return differ(info_, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, at, from);
  }

  void join(graph_node& mine, const graph_node& theirs) {
    out_[&theirs] = &mine;
    taken_.insert(&mine);
  }

  /// Compares a node with the one that it is paired with, and pairs their
  /// dependencies in the order of the edges.
  CUresult visit(const graph_node& theirs,
                 std::deque<const graph_node*>& open) {
    auto& mine = *out_.at(&theirs);
    if (type_of(mine.what) != type_of(theirs.what))
      return differ(info_, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED,
                    &theirs);
    if (auto code = visit_work(mine, theirs); code != CUDA_SUCCESS)
      return code;
    if (mine.after.size() != theirs.after.size())
      return topology(&theirs);
    for (std::size_t i = 0; i < mine.after.size(); ++i) {
      auto* own = mine.after[i];
      const auto* other = theirs.after[i];
      auto known = out_.find(other);
      if (known == out_.end() && !taken_.contains(own)) {
        join(*own, *other);
        open.push_back(other);
      } else if (known == out_.end() || known->second != own) {
        return topology(&theirs, other);
      }
    }
    return CUDA_SUCCESS;
  }

  CUresult visit_work(graph_node& mine, const graph_node& theirs) {
    if (auto why = compare(mine.what, theirs.what, flags_);
        why != CU_GRAPH_EXEC_UPDATE_SUCCESS)
      return differ(info_, why, &theirs);
    if (auto* child = std::get_if<child_work>(&mine.what); child != nullptr) {
      // The child's work is taken over as a whole.
      node_pairs inner;
      return pairing{flags_, inner, info_}.pair(
          *child->what, *std::get<child_work>(theirs.what).what);
    }
    auto* chosen = std::get_if<conditional_work>(&mine.what);
    if (chosen == nullptr)
      return CUDA_SUCCESS;
    const auto& other = std::get<conditional_work>(theirs.what);
    if (chosen->type != other.type ||
        chosen->bodies.size() != other.bodies.size())
      return differ(info_, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED,
                    &theirs);
    for (std::size_t i = 0; i < chosen->bodies.size(); ++i)
      if (auto code = pair(*chosen->bodies[i], *other.bodies[i]);
          code != CUDA_SUCCESS)
        return code;
    return CUDA_SUCCESS;
  }

  std::uint64_t flags_;
  node_pairs& out_;
  CUgraphExecUpdateResultInfo& info_;
  std::set<const graph_node*> taken_;
};

} // namespace

CUresult pair_nodes(graph& mine, const graph& theirs, std::uint64_t flags,
                    node_pairs& out, CUgraphExecUpdateResultInfo& info) {
  return pairing{flags, out, info}.pair(mine, theirs);
}

void take_over(const node_pairs& pairs) {
  for (auto [other, own] : pairs) {
    auto* chosen = std::get_if<conditional_work>(&own->what);
    if (chosen == nullptr)
      own->in->set_work(*own, clone(other->what));
    else
      chosen->on = std::get<conditional_work>(other->what).on;
  }
}

} // namespace vgpu::interposer
