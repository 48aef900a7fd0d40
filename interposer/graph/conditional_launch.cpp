#include "interposer/graph/conditional_launch.hpp"

#include "interposer/graph/graph_condition.hpp"
#include "interposer/graph/graph_part.hpp"
#include "interposer/memory/memory.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"
#include "interposer/stream/host_call.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

namespace vgpu::interposer {

namespace {

using namespace std::chrono_literals;

lane_store& lanes() noexcept {
  return graph_part::get().lanes;
}

/// Tells whether a graph may write to the program's memory, or run its
/// functions.
bool reaches_program(const graph& x) {
  auto reaches = [](const auto& node) {
    if (auto* copied = std::get_if<copy_work>(&node->what); copied != nullptr)
      return locate(copied->what.to.address).where != place::device;
    if (auto* child = std::get_if<child_work>(&node->what); child != nullptr)
      return reaches_program(*child->what);
    if (auto* chosen = std::get_if<conditional_work>(&node->what);
        chosen != nullptr)
      return std::any_of(chosen->bodies.begin(), chosen->bodies.end(),
                         [](auto& body) { return reaches_program(*body); });
    return std::holds_alternative<host_work>(node->what);
  };
  return std::any_of(x.nodes().begin(), x.nodes().end(), reaches);
}

/// Returns the body that the value of the condition chooses, or null.
const graph* chosen(const conditional_work& x, std::uint32_t value) {
  std::size_t which = value;
  if (x.type != CU_GRAPH_COND_TYPE_SWITCH)
    which = value != 0 ? 0 : 1;
  return which < x.bodies.size() ? x.bodies[which].get() : nullptr;
}

/// Appends the event records, or the event waits, of the nodes from `from` on.
/// The program may query these events as soon as the launch returns. So the
/// waits come before the first condition, and the records after all work.
template <class Work>
void issue_events(const graph& of, std::size_t from, stream& in) {
  const auto& order = of.in_order();
  for (auto i = from; i < order.size(); ++i) {
    if (auto* child = std::get_if<child_work>(&order[i]->what);
        child != nullptr)
      issue_events<Work>(*child->what, 0, in);
    else if (std::holds_alternative<Work>(order[i]->what))
      (void)issue(order[i]->what, in);
  }
}

bool is_event(const work& x) {
  return std::holds_alternative<event_record_work>(x) ||
         std::holds_alternative<event_wait_work>(x);
}

/// Represents a launch under way. Its next turn keeps the object alive.
class conditional_launch final
    : public turn_taker,
      public std::enable_shared_from_this<conditional_launch> {
public:
  conditional_launch(std::shared_ptr<const graph> what, std::unique_ptr<lane> x)
      : what_(std::move(what)), lane_(std::move(x)) {}
  ~conditional_launch() override { lanes().give(std::move(lane_)); }

  CUresult begin(stream& in);
  void take_turn(CUresult status) noexcept override;

private:
  /// A part is the rest of the nodes of a graph or a body.
  struct part {
    const graph* of = nullptr;
    std::size_t next = 0;
    /// Refers to the loop whose condition is read again at the end of its body.
    /// It is null where the part runs once.
    const conditional_work* loop = nullptr;
  };

  CUresult begin_part(stream& in);
  CUresult go_on();
  void ask(const conditional_work& x);
  CUresult decide();

  std::shared_ptr<const graph> what_;
  std::unique_ptr<lane> lane_;
  std::vector<part> parts_;
  const conditional_work* asked_ = nullptr;
  ticket value_;
};

/// Issues the nodes before the first conditional one in the stream itself.
CUresult conditional_launch::begin_part(stream& in) {
  auto& first = parts_.emplace_back(part{.of = what_.get()});
  const auto& order = what_->in_order();
  for (; first.next < order.size(); ++first.next) {
    const auto& node = *order[first.next];
    if (std::holds_alternative<conditional_work>(node.what))
      break;
    if (node.enabled)
      if (auto code = issue(node.what, in); code != CUDA_SUCCESS)
        return code;
  }
  return CUDA_SUCCESS;
}

CUresult conditional_launch::begin(stream& in) {
  auto code = CUDA_SUCCESS;
  each_condition(*what_, [&](const condition& x) {
    if (code == CUDA_SUCCESS)
      code = x.begin_launch(in);
  });
  if (code == CUDA_SUCCESS)
    code = begin_part(in);
  if (code != CUDA_SUCCESS)
    return code;
  const auto rest = parts_.front().next;
  issue_events<event_wait_work>(*what_, rest, in);
  if (code = record(*lane_->begun, in); code != CUDA_SUCCESS)
    return code;
  if (code = wait(*lane_->side, *lane_->begun); code != CUDA_SUCCESS)
    return code;
  awaited_value end;
  end.address = lane_->ended.address();
  end.value = ++lane_->launches;
  end.test = value_test::reached;
  auto writes = reaches_program(*what_);
  // From here on the library's thread continues the launch.
  if (code = go_on(); code != CUDA_SUCCESS)
    return code;
  if (code = host_calls().add_device_wait(in, end, writes);
      code != CUDA_SUCCESS)
    return code;
  issue_events<event_record_work>(*what_, rest, in);
  return CUDA_SUCCESS;
}

/// Reads the condition's value when the private stream reaches this point.
void conditional_launch::ask(const conditional_work& x) {
  asked_ = &x;
  auto& side = *lane_->side;
  constexpr auto bytes = sizeof(std::uint32_t);
  value_ = here().begin_read(call::read{{side.wire},
                                        {x.on->word(), 0, 0},
                                        {bytes, 1, 1},
                                        {lane_->value.offset(), bytes}},
                             side.device(), bytes, lane_->value_slot);
  side.worked(value_.call);
  (void)host_calls().add_turn(side, lane_->turn_slot, shared_from_this());
}

CUresult conditional_launch::decide() {
  auto& slots = here().slots();
  auto got = slots.wait_for(value_, 100ms);
  for (; !got; got = slots.wait_for(value_, 100ms))
    here().idle()();
  if (got->result != CUDA_SUCCESS)
    return got->result;
  std::uint32_t value = 0;
  std::memcpy(&value, lane_->value.bytes().data(), sizeof(value));
  const auto& node = *std::exchange(asked_, nullptr);
  if (const auto* body = chosen(node, value); body != nullptr)
    parts_.push_back(
        {body, 0, node.type == CU_GRAPH_COND_TYPE_WHILE ? &node : nullptr});
  return CUDA_SUCCESS;
}

/// Appends the work up to the next condition, or to the end.
CUresult conditional_launch::go_on() {
  auto& side = *lane_->side;
  while (!parts_.empty()) {
    auto& now = parts_.back();
    const auto& order = now.of->in_order();
    if (now.next == order.size()) {
      const auto* loop = now.loop;
      parts_.pop_back();
      if (loop == nullptr)
        continue;
      ask(*loop);
      return CUDA_SUCCESS;
    }
    const auto& node = *order[now.next++];
    if (auto* x = std::get_if<conditional_work>(&node.what); x != nullptr) {
      ask(*x);
      return CUDA_SUCCESS;
    }
    if (auto* child = std::get_if<child_work>(&node.what); child != nullptr) {
      parts_.push_back({.of = child->what.get()});
      continue;
    }
    if (!node.enabled || is_event(node.what))
      continue;
    if (auto code = issue(node.what, side); code != CUDA_SUCCESS)
      return code;
  }
  return lane_->ended.fill(side, lane_->launches);
}

/// Continues the launch at a condition. The program's stream continues in any
/// case, and ends in the device's error if there is one.
void conditional_launch::take_turn(CUresult status) noexcept {
  if (status != CUDA_SUCCESS)
    return;
  try {
    auto code = decide();
    if (code == CUDA_SUCCESS)
      code = go_on();
    if (code == CUDA_SUCCESS)
      return;
    note_failed_call("cuGraphLaunch", code);
    (void)lane_->ended.fill(*lane_->side, lane_->launches);
  } catch (const std::exception& e) {
    report_exception(e.what());
  }
}

} // namespace

CUresult launch_conditional(std::shared_ptr<const graph> what, stream& in) {
  std::unique_ptr<lane> with;
  if (auto code = lanes().take(in, with); code != CUDA_SUCCESS)
    return code;
  return std::make_shared<conditional_launch>(std::move(what), std::move(with))
      ->begin(in);
}

void wait_for_conditional_launches() {
  lanes().wait_for_none();
}

void forget_conditional_launches(const context& of) {
  lanes().wait_for_none();
  lanes().forget(of);
  device_word::give_up_memory(of.device_index());
}

} // namespace vgpu::interposer
