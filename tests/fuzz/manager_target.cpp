// Holds whole conversations with a manager: honest nodes and clients, whose
// messages keep its sessions going, and others of all roles that say anything.
// It checks that epochs never decrease, and that a session's lease reaches only
// its client and those who knew its token.
#include "actors/link/codec.hpp"
#include "actors/link/log.hpp"
#include "actors/manager/manager_core.hpp"
#include "fuzz_target.hpp"
#include "made_messages.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

using namespace vgpu;
using namespace vgpu::control;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t most_steps = 400;
constexpr std::size_t most_answers = 2'000; // to one message

/// A peer's connection, with the name that it first uses.
struct peer_of_manager {
  const char* connection;
  const char* name;
  control::role as;
  std::uint64_t beats = 0;
  test::heard_values heard{};
  std::deque<control::body> orders{};
};

class conversation {
public:
  explicit conversation(test::choices& in) : in_(in) {
    manager_options x;
    x.random = [this] { return ++secret_ << 20; };
    x.wall_time = [] { return 1.5e9; };
    core_.emplace(
        std::move(x), nullptr,
        [this](const std::string& to, control::envelope what) {
          sent(to, what.body);
        },
        [](const std::string&, std::uint64_t, status_view_ptr) {}, now_);
  }

  void run() {
    for (std::size_t i = 0; i < most_steps && !in_.over(); ++i) {
      answers_ = 0;
      step();
      if (core_->wants_look())
        core_->on_looked(now_);
      if (core_->stopping())
        return;
    }
    if (auto difference = core_->index_difference(); !difference.empty())
      std::abort();
  }

private:
  void step() {
    auto& who = peers_[in_.below(peers_.size())];
    switch (in_.below(8)) {
    case 0:
      return pass();
    case 1:
      return core_->on_gone(who.connection, now_);
    case 2:
    case 3:
      return honest(who);
    case 4:
    case 5:
      return obey(who);
    default:
      return say(who, test::make_body(in_, who.heard));
    }
  }

  void pass() {
    constexpr std::chrono::milliseconds spans[] = {
        1ms, 50ms, 100ms, 600ms, 3'000ms, 16'000ms, 90'000ms};
    auto until = now_ + in_.one_of(spans);
    // Timers that rearm themselves fire as often as they should.
    for (auto left = 200; left > 0 && now_ < until; --left) {
      auto due = core_->next_deadline().value_or(until);
      now_ = std::clamp(due, now_ + 1ms, std::max(until, now_ + 1ms));
      core_->on_tick(now_);
    }
  }

  /// Says what such a peer says without being asked.
  void honest(peer_of_manager& who) {
    switch (who.as) {
    case role::node: {
      if (in_.below(3) == 0) {
        say(who, hello{1, 1, "t", role::node});
        return say(who, inventory(who.name + 5), 1);
      }
      return say(who, node_beat{who.name + 5, ++who.beats, {}});
    }
    case role::client: {
      if (in_.below(3) == 0)
        return say(who, hello{1, 1, "t", role::client});
      acquire x;
      x.program = {"prog", 9, "h", "me"};
      return say(who, x, 5);
    }
    default:
      say(who, hello{1, 1, "t", who.as});
    }
  }

  static register_node inventory(const std::string& name) {
    register_node x{name, "h", 100, {}, {}};
    for (auto i = 0u; i < 2; ++i) {
      x.pgpus.push_back({i, "cpu", {}});
      x.pgpus.back().facts.total_memory = std::uint64_t{4} << 30;
      x.pgpus.back().facts.name = "gpu";
    }
    return x;
  }

  /// Does what the manager told such a peer to do.
  void obey(peer_of_manager& who) {
    if (who.orders.empty())
      return;
    auto what = std::move(who.orders.front());
    who.orders.pop_front();
    const worker_endpoints where{"tcp://w", "@w", "h"};
    if (auto* x = std::get_if<start_worker>(&what))
      say(who, worker_started{x->session, x->epoch, where, 77, {}});
    else if (auto* y = std::get_if<prepare_worker>(&what))
      say(who, worker_prepared{y->session, {}});
    else if (auto* z = std::get_if<stop_worker>(&what))
      say(who, worker_exited{z->session, z->epoch, "exit 0", true});
    else if (auto* p = std::get_if<pause_session>(&what))
      say(who, paused{p->session, p->epoch, "", 1 << 20, 2.5, false});
    else if (auto* l = std::get_if<lease>(&what))
      say(who, restored{l->session, l->epoch, 1 << 20, 7.5});
  }

  /// Delivers a message as it comes out of the wire, now and then damaged.
  void say(peer_of_manager& who, control::body what,
           std::uint64_t request = 0) {
    auto frame = control::encode({who.name, request, std::move(what)});
    if (in_.below(16) == 0) {
      auto* bytes = static_cast<std::uint8_t*>(frame.data());
      for (auto left = 1 + in_.below(4); left > 0; --left)
        bytes[(in_.byte() * 256u + in_.byte()) % frame.size()] = in_.byte();
    }
    auto got = control::decode({who.connection, std::move(frame), {}});
    if (auto* x = std::get_if<control::envelope>(&got))
      core_->on_message(who.connection, *x, now_);
  }

  // -- what the manager says
  // ----------------------------------------------------

  void sent(const std::string& to, const control::body& what) {
    if (++answers_ > most_answers)
      std::abort();
    auto who = std::find_if(peers_.begin(), peers_.end(),
                            [&](auto& x) { return to == x.connection; });
    if (who == peers_.end())
      std::abort();
    if (auto* x = std::get_if<lease>(&what))
      check(*x, *who);
    if (auto* x = std::get_if<start_worker>(&what)) {
      rises(started_, x->session, x->epoch);
      told_[x->session].insert(to);
    }
    std::visit([&](const auto& x) { test::hear(who->heard, x); }, what);
    constexpr std::size_t most_orders = 100;
    if (who->orders.size() < most_orders)
      who->orders.push_back(what);
  }

  void check(const lease& x, peer_of_manager& to) {
    rises(leased_, x.session, x.epoch);
    auto& owners = owners_[x.session];
    if (!owners.empty() && !owners.contains(to.connection) &&
        !told_[x.session].contains(to.connection))
      std::abort();
    owners.insert(to.connection);
  }

  /// Epochs never decrease.
  void rises(std::map<session_id, vgpu::epoch>& in, session_id session,
             vgpu::epoch now) {
    auto& last = in[session];
    if (now < last)
      std::abort();
    last = now;
  }

  test::choices& in_;
  std::uint64_t secret_ = 1000;
  time_point now_{std::chrono::hours{1}};
  std::optional<manager_core> core_;
  std::size_t answers_ = 0;
  std::array<peer_of_manager, 7> peers_{{{"n1", "node/a", role::node},
                                         {"n2", "node/b", role::node},
                                         {"c1", "client/c", role::client},
                                         {"c2", "client/d", role::client},
                                         {"x1", "client/c", role::client},
                                         {"x2", "node/a", role::node},
                                         {"k", "command/1", role::command}}};
  std::map<session_id, vgpu::epoch> leased_, started_;
  /// Hold who got a session's leases, and whose node was told its token.
  std::map<session_id, std::set<std::string>> owners_, told_;
};

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spdlog::set_level(spdlog::level::off);
  test::choices in{{data, size}};
  conversation{in}.run();
  return 0;
}
