#include "actors/worker/checkpoint/session_standby.hpp"

namespace vgpu {

using control::standby_news;

bool session_standby::wanted(clock::time_point now, bool outdated) {
  if (at_ == stage::asked || at_ == stage::ready)
    return true;
  auto lacks = at_ == stage::none || (at_ == stage::made && outdated);
  if (!lacks || !tell_ || now < rests_until_)
    return false;
  at_ = stage::asked;
  tell_(standby_news::wanted);
  return true;
}

void session_standby::changed(const next_worker& to, clock::time_point now) {
  if (to && at_ != stage::asked)
    return; // it was given up meanwhile
  to_ = to;
  objects_at_.reset();
  at_ = to ? stage::ready : stage::none;
  rests_until_ = now + rest;
}

next_worker session_standby::begin_making() {
  if (at_ != stage::ready)
    return {};
  at_ = stage::making;
  tell_(standby_news::making);
  return to_;
}

void session_standby::made(std::uint64_t position) {
  objects_at_ = position;
  look();
}

void session_standby::covered(std::uint64_t position) {
  covered_at_ = position;
  look();
}

/// Tells the node once the newest snapshot has the standby's objects.
void session_standby::look() {
  if (at_ != stage::making || !objects_at_ || !covered_at_ ||
      *covered_at_ < *objects_at_)
    return;
  at_ = stage::made;
  tell_(standby_news::made);
}

void session_standby::give_up(clock::time_point now) {
  if (at_ == stage::none)
    return;
  tell_(standby_news::useless);
  changed({}, now);
}

} // namespace vgpu
