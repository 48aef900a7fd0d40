// The functions by which workers and pGPU actors share a device. Each calls the
// engine that is in charge under the table's policy, and the engines' headers
// say what it does. Callers must ensure that only one of them uses a
// share_table at a time.
#pragma once

#include "policies/compute/share_seating.hpp"

namespace vgpu::policy {

// -- seats (share_seating.hpp) ------------------------------------------------

inline std::int32_t sit(share_table& table, const share_claim& claim,
                        share_ns now) {
  return share_seating{table}.sit(claim, now);
}
inline void stand(share_table& table, std::int32_t seat) {
  share_seating{table}.stand(seat);
}
inline void set_claim(share_table& table, std::int32_t seat,
                      const share_claim& claim, share_ns now) {
  share_seating{table}.set_claim(seat, claim, now);
}
/// Sets the rules that apply from now on.
inline void set_rules(share_table& table, const share_rules& rules,
                      share_ns now) {
  share_seating{table}.settle(now);
  table.rules = rules;
  share_seating{table}.begin_anew();
}
inline bool contested(share_table& table) {
  return share_seating{table}.contested();
}

// -- turns (turn_engine.hpp) --------------------------------------------------

inline void want(share_table& table, std::int32_t seat, share_ns now) {
  turn_engine{table}.want(seat, now);
}
inline void want_nothing(share_table& table, std::int32_t seat) {
  turn_engine{table}.want_nothing(seat);
}
inline bool holds(const share_table& table, std::int32_t seat) {
  return table.turns.holder() == seat;
}
inline bool is_fresh(const share_table& table, std::int32_t seat) {
  return holds(table, seat) && table.turns.is_fresh();
}
inline share_ns left_of_turn(const share_table& table, share_ns now) {
  return table.turns.until() - now;
}
inline void begin_work(share_table& table, std::int32_t seat, share_ns now) {
  turn_engine{table}.begin_work(seat, now);
}
inline void set_brought(share_table& table, std::int32_t seat,
                        share_ns predicted) {
  turn_engine{table}.set_brought(seat, predicted);
}
inline void end_work(share_table& table, std::int32_t seat, share_ns now,
                     bool more = false) {
  turn_engine{table}.end_work(seat, now, more);
}
inline share_ns charge(share_table& table, std::int32_t seat,
                       const share_work& predicted, const share_work& took,
                       share_ns now) {
  return turn_engine{table}.charge(seat, predicted, took, now);
}
inline bool renew(share_table& table, std::int32_t seat, share_ns now) {
  return turn_engine{table}.renew(seat, now);
}
inline bool keep(share_table& table, std::int32_t seat, share_ns now) {
  return turn_engine{table}.keep(seat, now);
}
inline void end_turn(share_table& table, std::int32_t seat) {
  turn_engine{table}.end_turn(seat);
}
inline share_outcome arbitrate(share_table& table, share_ns now) {
  return turn_engine{table}.arbitrate(now);
}

// -- sessions that run concurrently (concurrent_engine.hpp) -------------------

/// Returns whether sessions run concurrently now.
inline bool is_concurrent(const share_table& table) {
  return table.concurrent.is_on();
}
inline bool may_join(share_table& table, std::int32_t seat, share_ns now) {
  return concurrent_engine{table}.may_join(seat, now);
}
inline void set_copies(share_table& table, std::int32_t seat, bool copies) {
  concurrent_engine{table}.set_copies(seat, copies);
}
inline void part(share_table& table) {
  concurrent_engine{table}.part();
}

// -- threads (thread_engine.hpp) ----------------------------------------------

inline bool begin_thread(share_table& table, std::int32_t seat, share_ns now,
                         thread_outcome& out) {
  return thread_engine{table}.begin(seat, now, out);
}
inline bool go_on(share_table& table, std::int32_t seat, share_ns worked,
                  share_ns now, thread_outcome& out) {
  return thread_engine{table}.go_on(seat, worked, now, out);
}
inline bool is_let_in(share_table& table, std::int32_t seat, share_ns now,
                      thread_outcome& out) {
  return thread_engine{table}.is_let_in(seat, now, out);
}
inline void end_thread(share_table& table, std::int32_t seat, share_ns worked,
                       share_ns now, thread_outcome& out) {
  thread_engine{table}.end(seat, worked, now, out);
}
inline void give_up(share_table& table, std::int32_t seat, share_ns now,
                    thread_outcome& out) {
  thread_engine{table}.give_up(seat, now, out);
}
inline void let_in(share_table& table, share_ns now, thread_outcome& out) {
  thread_engine{table}.let_in(now, out);
}
inline share_ns look_again(share_table& table, std::int32_t seat,
                           share_ns now) {
  return thread_engine{table}.look_again(seat, now);
}

} // namespace vgpu::policy
