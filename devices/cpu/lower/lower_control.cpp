// Branches, barriers, and exchanges between the lanes of a warp.
#include "devices/cpu/lower/function_lowering.hpp"

#include <algorithm>

namespace vgpu::device::cpu {

int function_lowering::label(const std::string& name) {
  auto scope = now_->scope;
  while (true) {
    if (auto at = labels_.find({scope, name}); at != labels_.end())
      return at->second;
    if (scope == 0)
      fail("unknown label '" + name + "'");
    scope = fn_.scope_parent[scope];
  }
}

void function_lowering::branch() {
  need(1);
  if (arg(0).is != kind::symbol)
    fail("bra needs a label");
  auto to = label(arg(0).name);
  if (now_->guard < 0) {
    auto& x = emit("bra", {});
    x.target = to;
    x.ends = true;
    return;
  }
  auto p = now_->guard;
  auto& x = emit("bra.if", {-1, p}, 0, now_->guard_negated ? mod::negated : 0u);
  x.target = to;
}

void function_lowering::branch_indexed() {
  need(2);
  auto index = source(arg(0), '4');
  auto found = std::find_if(
      fn_.target_lists.begin(), fn_.target_lists.end(),
      [&](const ptx::target_list& x) { return x.name == arg(1).name; });
  if (found == fn_.target_lists.end())
    fail("unknown branch targets '" + arg(1).name + "'");
  emit("brx.idx", {-1, index}, std::int64_t(found->labels.size()));
  for (auto& name : found->labels) {
    auto& x = emit("bra", {});
    x.target = label(name);
    // Each branch is reached from the table's head, which counts as falling
    // through.
  }
}

void function_lowering::barrier() {
  if (has("cluster")) {
    need(0);
    if (has("arrive") == has("wait"))
      unsupported();
    emit(has("wait") ? "barrier.cluster.wait" : "barrier.cluster.arrive", {});
    return;
  }
  if (has("warp")) {
    need(1);
    emit("bar.warp.sync", {-1, source(arg(0), '4')});
    return;
  }
  auto barrier_at = has("red") ? 1u : 0u;
  if (now_->operands.size() <= barrier_at)
    fail(now_->text() + " lacks the barrier's number");
  auto id = source(arg(barrier_at), '4');
  if (!has("red")) {
    if (now_->operands.size() > 2)
      fail(now_->text() + " has too many operands");
    auto count = now_->operands.size() > 1 ? source(arg(1), '4') : -1;
    emit(has("arrive") ? "bar.arrive" : "bar.sync", {-1, id, count});
    return;
  }
  if (now_->operands.size() < 3 || now_->operands.size() > 4)
    fail(now_->text() + " needs 3 or 4 operands");
  auto count = now_->operands.size() == 4 ? source(arg(2), '4') : -1;
  auto p = predicate(now_->operands.back());
  emit("bar.sync", {-1, id, count, p});
  if (has("popc"))
    emit("bar.result.popc", {destination(arg(0), '4'), id});
  else
    emit(has("and") ? "bar.result.and" : "bar.result.or",
         {predicate_destination(arg(0)), id});
}

void function_lowering::exchange() {
  auto& name = now_->name;
  auto sync = has("sync");
  // The forms without .sync apply to the lanes that are together at this
  // moment.
  auto members = [&](std::size_t at) {
    need(sync ? at + 1 : at);
    if (sync)
      return source(arg(at), '4');
    auto out = temp('4');
    emit("activemask", {out});
    return out;
  };
  auto split = [&](char width, int& p) {
    auto& x = arg(0);
    p = -1;
    if (x.is != kind::pair)
      return destination(x, width);
    if (x.elements[1].is != kind::sink)
      p = predicate_destination(x.elements[1]);
    return destination(x.elements[0], width);
  };
  auto p = -1;
  if (name == "shfl") {
    auto m = members(4);
    auto d = split('4', p);
    for (auto mode : {"up", "down", "bfly", "idx"})
      if (has(mode)) {
        emit(std::string{"shfl."} + mode,
             {d, source(arg(1), '4'), source(arg(2), '4'), source(arg(3), '4'),
              p, m});
        return;
      }
    unsupported();
  }
  auto m = members(2);
  if (name == "vote") {
    if (has("ballot")) {
      emit("vote.ballot", {destination(arg(0), '4'), predicate(arg(1)), m});
      return;
    }
    for (auto mode : {"all", "any", "uni"})
      if (has(mode)) {
        emit(std::string{"vote."} + mode,
             {predicate_destination(arg(0)), predicate(arg(1)), m});
        return;
      }
    unsupported();
  }
  if (name == "match") {
    auto wide = has("b64");
    auto d = split('4', p);
    auto a = source(arg(1), wide ? '8' : '4');
    auto suffix = std::string{wide ? ".b64" : ".b32"};
    if (has("any"))
      emit("match.any" + suffix, {d, a, m});
    else
      emit("match.all" + suffix, {d, a, m, -1, p});
    return;
  }
  // redux
  auto key = std::string{"redux"};
  for (auto& x : now_->modifiers)
    if (x != "sync")
      key += "." + x;
  emit(key, {destination(arg(0), '4'), source(arg(1), '4'), m});
}

/// Tells whether the instruction changes which lanes run, or must be reached by
/// several lanes together. Under a guard such an instruction becomes a branch
/// around it.
bool function_lowering::control() {
  auto& n = now_->name;
  return n == "exit" || n == "ret" || n == "call" || n == "bar" ||
         n == "barrier" || n == "shfl" || n == "vote" || n == "match" ||
         n == "redux" || n == "elect" || n == "nanosleep" || n == "brx" ||
         n == "activemask" || n == "wmma" || n == "mma" || n == "ldmatrix" ||
         n == "stmatrix" || n == "movmatrix" ||
         (n == "mbarrier" && has("try_wait"));
}

} // namespace vgpu::device::cpu
