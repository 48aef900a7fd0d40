// mbarrier and the bulk copies.
#include "devices/cpu/lower/bulk_op.hpp"
#include "devices/cpu/lower/function_lowering.hpp"

#include <algorithm>
#include <iterator>

namespace vgpu::device::cpu {

using ptx::space;

/// Returns the operand's address, with its offset, as a 64-bit generic address.
int function_lowering::generic_address(const op& x, space where) {
  auto at = parse_place(x, where);
  if (at.frame || at.space == "frame.at.")
    unsupported();
  auto base = resize(at.base, '8', false);
  auto add = std::uint64_t(at.offset);
  if (where == space::shared)
    add += shared_aperture;
  else if (where == space::local)
    add += local_aperture;
  else if (where == space::param)
    add += param_aperture;
  if (add == 0)
    return base;
  auto out = temp('8');
  emit("add.b64", {out, base, constant('8', add)});
  return out;
}

namespace {

bool is_memory_hint(std::string_view x) {
  static constexpr std::string_view known[] = {"release",
                                               "acquire",
                                               "relaxed",
                                               "cta",
                                               "cluster",
                                               "b64",
                                               "shared",
                                               "gpu",
                                               "sys",
                                               "noComplete",
                                               "noinc",
                                               "async",
                                               "init",
                                               "inval",
                                               "arrive",
                                               "arrive_drop",
                                               "expect_tx",
                                               "complete_tx",
                                               "test_wait",
                                               "try_wait",
                                               "parity",
                                               "pending_count",
                                               "mbarrier",
                                               "shared::cta",
                                               "shared::cluster"};
  return std::find(std::begin(known), std::end(known), x) != std::end(known);
}

} // namespace

void function_lowering::memory_barrier() {
  for (auto& m : now_->modifiers)
    if (!is_memory_hint(m))
      unsupported();
  auto shared = has("shared") || has("shared::cta") || has("shared::cluster");
  auto where = shared ? space::shared : space::generic;
  auto& ops = now_->operands;
  auto at = [&](std::size_t i) {
    if (i >= ops.size())
      fail(now_->text() + " lacks an address");
    return generic_address(arg(i), where);
  };
  if (has("init")) {
    need(2);
    emit("mbarrier.init", {-1, at(0), source(arg(1), '4')});
  } else if (has("inval")) {
    need(1);
    (void)at(0);
  } else if (has("pending_count")) {
    need(2);
    emit("mbarrier.pending", {destination(arg(0), '4'), source(arg(1), '8')});
  } else if (has("test_wait") || has("try_wait")) {
    auto waits = has("try_wait"); // a time limit is a hint
    auto parity = has("parity");
    if (ops.size() != 3 && !(waits && ops.size() == 4))
      fail(now_->text() + " needs 3 operands");
    emit(std::string{waits ? "mbarrier.try" : "mbarrier.test"} +
             (parity ? ".parity" : ""),
         {predicate_destination(arg(0)), at(1),
          source(arg(2), parity ? '4' : '8')});
  } else if (has("arrive") || has("arrive_drop")) {
    // The state is absent with a barrier of another block, or is _.
    auto first = ops.empty() || arg(0).is == kind::address ? 0u : 1u;
    auto state =
        first == 1 && arg(0).is != kind::sink ? destination(arg(0), '8') : -1;
    if (ops.size() > first + 2)
      fail(now_->text() + " has too many operands");
    auto address = at(first);
    auto count = ops.size() > first + 1 ? source(arg(first + 1), '4') : -1;
    if (has("expect_tx")) {
      if (count < 0)
        fail(now_->text() + " lacks the number of bytes");
      emit("mbarrier.expect", {-1, address, count});
      count = -1;
    }
    emit(has("arrive_drop") ? "mbarrier.arrive.drop" : "mbarrier.arrive",
         {state, address, count});
  } else if (has("expect_tx") || has("complete_tx")) {
    need(2);
    emit(has("expect_tx") ? "mbarrier.expect" : "mbarrier.complete",
         {-1, at(0), source(arg(1), '4')});
  } else {
    unsupported();
  }
}

/// Lowers cp.async.mbarrier.arrive. The copies before it are done, so it is the
/// arrival itself, which was counted before unless .noinc says otherwise.
void function_lowering::copy_arrives() {
  need(1);
  auto shared = has("shared") || has("shared::cta");
  auto address =
      generic_address(arg(0), shared ? space::shared : space::generic);
  if (has("noinc"))
    emit("mbarrier.arrive", {-1, address});
}

void function_lowering::copy_bulk() {
  static constexpr std::string_view hints[] = {
      "async",          "bulk",
      "bulk_group",     "mbarrier::complete_tx::bytes",
      "L2::cache_hint", "noftz",
      "weak",           "read",
      "reduce",         "multicast::cluster"};
  static constexpr std::pair<std::string_view, bulk_op> op_names[] = {
      {"add", bulk_op::add},   {"min", bulk_op::min},
      {"max", bulk_op::max},   {"inc", bulk_op::inc},
      {"dec", bulk_op::dec},   {"and", bulk_op::bit_and},
      {"or", bulk_op::bit_or}, {"xor", bulk_op::bit_xor}};
  static constexpr std::pair<std::string_view, bulk_type> type_names[] = {
      {"u32", bulk_type::u32}, {"s32", bulk_type::s32},
      {"b32", bulk_type::u32}, {"u64", bulk_type::u64},
      {"s64", bulk_type::s64}, {"b64", bulk_type::u64},
      {"f16", bulk_type::f16}, {"bf16", bulk_type::bf16},
      {"f32", bulk_type::f32}, {"f64", bulk_type::f64}};
  if (has("commit_group") || has("wait_group") || has("prefetch"))
    return; // copies are done when they are issued
  auto spaces = std::vector<space>{};
  auto what = bulk_op::copy;
  auto type = std::optional<bulk_type>{};
  for (auto& m : now_->modifiers) {
    auto named = std::find_if(std::begin(op_names), std::end(op_names),
                              [&](auto& x) { return x.first == m; });
    auto typed = std::find_if(std::begin(type_names), std::end(type_names),
                              [&](auto& x) { return x.first == m; });
    if (named != std::end(op_names))
      what = named->second;
    else if (typed != std::end(type_names))
      type = typed->second;
    else if (m == "shared::cta" || m == "shared::cluster")
      spaces.push_back(space::shared);
    else if (m == "global")
      spaces.push_back(space::global);
    else if (std::find(std::begin(hints), std::end(hints), m) ==
             std::end(hints))
      unsupported(); // tensors, masks of bytes
  }
  auto reduces = has("reduce");
  auto reports = has("mbarrier::complete_tx::bytes");
  auto real = type && *type >= bulk_type::f16;
  if (spaces.size() != 2 || reduces != (what != bulk_op::copy) ||
      reduces != type.has_value() ||
      (real && what != bulk_op::add && what != bulk_op::min &&
       what != bulk_op::max))
    unsupported();
  // The copy may go to several blocks, and report to their barriers, by a mask
  // of their ranks.
  auto spread = has("multicast::cluster");
  if (spread && (reduces || !reports))
    unsupported();
  auto operands = (reports ? 4u : 3u) + (spread ? 1u : 0u);
  if (now_->operands.size() != operands &&
      !(now_->operands.size() == operands + 1 && has("L2::cache_hint")))
    fail(now_->text() + " needs " + std::to_string(operands) + " operands");
  auto barrier = reports ? generic_address(arg(3), space::shared) : -1;
  auto imm = reduces ? std::int64_t(what) | std::int64_t(*type) << 4 : 0;
  emit("cp.bulk",
       {-1, generic_address(arg(0), spaces[0]),
        generic_address(arg(1), spaces[1]), source(arg(2), '4'), barrier,
        spread ? source(arg(4), '2') : -1},
       imm);
}

} // namespace vgpu::device::cpu
