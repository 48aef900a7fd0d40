#include "actors/worker/session/held_answers.hpp"

namespace vgpu {

void held_answers::hold() {
  std::lock_guard guard{lock_};
  holds_ = true;
}

void held_answers::release() {
  std::lock_guard guard{lock_};
  for (auto& answer : std::exchange(held_, {}))
    answer(*to_);
  holds_ = false;
}

/// Calls `answer` with the other sink, now or at the release. Answers that come
/// during the release wait for its end, so that the order stays.
template <class Answer>
void held_answers::give(Answer answer) {
  if (holds_) [[unlikely]] {
    std::lock_guard guard{lock_};
    if (holds_) {
      held_.emplace_back(std::move(answer));
      return;
    }
  }
  answer(*to_);
}

void held_answers::answer(const waiter& who, CUresult result,
                          std::uint64_t value) {
  give([=](answer_sink& to) { to.answer(who, result, value); });
}

void held_answers::deliver_part(const waiter& who, const landing& what,
                                std::uint64_t arena_offset) {
  give([=](answer_sink& to) { to.deliver_part(who, what, arena_offset); });
}

void held_answers::deliver(const waiter& who, CUresult result,
                           std::uint64_t value, const landing& what,
                           std::uint64_t arena_offset, std::uint32_t digest) {
  give([=](answer_sink& to) {
    to.deliver(who, result, value, what, arena_offset, digest);
  });
}

void held_answers::deliver_host(const waiter& who, CUresult result,
                                device_address address, const landing& what,
                                std::uint32_t digest) {
  give([=](answer_sink& to) {
    to.deliver_host(who, result, address, what, digest);
  });
}

void held_answers::call_host(const waiter& who) {
  give([=](answer_sink& to) { to.call_host(who); });
}

void held_answers::print(console where, std::uint64_t position,
                         std::string_view text) {
  give([=, text = std::string{text}](answer_sink& to) {
    to.print(where, position, text);
  });
}

void held_answers::sticky(CUresult error) {
  give([=](answer_sink& to) { to.sticky(error); });
}

} // namespace vgpu
