#include "actors/manager/cluster/accounts.hpp"

#include "actors/link/log.hpp"
#include "actors/link/printable.hpp"
#include "actors/manager/cluster/key_rights.hpp"
#include "actors/records/records_json.hpp"
#include "actors/records/tenant_quota.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <string_view>
#include <utility>

namespace vgpu {

namespace {

/// Says how often the use of running sessions is written down. Nodes report the
/// rest again to the next manager.
constexpr auto save_every = std::chrono::seconds{10};
constexpr std::size_t most_served = 262'144;
/// Says for how long nodes may report the ends of workers that they had under a
/// former manager.
constexpr auto former_reports_for = std::chrono::seconds{30};
/// Is how far clocks may differ, and how long a worker may have been prepared.
constexpr auto tolerance = std::chrono::seconds{30};
constexpr std::size_t longest_label = 128;

constexpr std::array<std::string_view, 5> account_kinds{"vm", "user", "program",
                                                        "tenant", "vgpu"};

std::string label(const std::string& x) {
  return printable(x).substr(0, longest_label);
}

/// Returns the program's host, from its client's name: `client/HOST-NUMBER`.
std::string vm_of(const session_record& x) {
  auto begin = x.client.find('/');
  auto end = x.client.rfind('-');
  if (begin == std::string::npos || end == std::string::npos || end <= begin)
    return label(x.program.host);
  return label(x.client.substr(begin + 1, end - begin - 1));
}

} // namespace

accounts::accounts(std::function<double()> wall_time, manager_clock& clock,
                   const cluster_state& state, outbox& out)
    : wall_time_(std::move(wall_time)), clock_(clock), state_(state),
      out_(out) {}

accounts::~accounts() {
  save();
}

void accounts::open(const session_record& x) {
  book_.open(x.id, {x.vgpu, vm_of(x), label(x.program.user),
                    label(x.program.name), tenant_of(x.tenant)});
  serve(x, clock_.now());
}

void accounts::serve(const session_record& x, std::optional<time_point> since) {
  serving_key key{x.id, x.epoch};
  serving now{x.where.node, std::max<std::size_t>(x.where.pgpus.size(), 1),
              since};
  if (served_.insert_or_assign(key, std::move(now)).second)
    serving_order_.push_back(key);
  while (serving_order_.size() > most_served) {
    served_.erase(serving_order_.front());
    serving_order_.pop_front();
  }
}

/// Returns null where another node, or none, has the session in that epoch.
const accounts::serving*
accounts::find_serving(const std::string& node,
                       const control::session_load& x) {
  auto i = served_.find({x.session, x.epoch});
  auto session = state_.sessions.find(x.session);
  if (i == served_.end() && session != state_.sessions.end() &&
      session->second.epoch == x.epoch && session->second.where.node == node) {
    if (!book_.knows(x.session))
      open(session->second);
    serve(session->second, std::nullopt);
    i = served_.find({x.session, x.epoch});
  }
  return i != served_.end() && i->second.node == node ? &i->second : nullptr;
}

/// Cuts a report to the time that the devices had since the epoch began.
control::usage accounts::within(const serving& by, control::usage told) const {
  if (!by.since)
    return told;
  auto had = std::chrono::nanoseconds{clock_.now() - *by.since + tolerance};
  auto most = static_cast<std::uint64_t>(had.count()) * by.devices;
  told.device_ns = std::min(told.device_ns, most);
  told.replay_ns = std::min(told.replay_ns, most);
  return told;
}

void accounts::close(session_id id) {
  book_.close(id);
  save(id);
}

void accounts::note_use(const std::string& node,
                        const control::session_load& x) {
  auto* by = find_serving(node, x);
  auto former = by == nullptr && !served_.contains({x.session, x.epoch}) &&
                clock_.now() < clock_.started() + former_reports_for;
  if (by == nullptr && !former) {
    if (auto before = foreign_.admits(node, clock_.now()))
      spdlog::warn("node '{}' reports use of session {} in epoch {}, which it "
                   "does not have{}",
                   printable(node), x.session.value, x.epoch.value,
                   note_suppressed(*before));
    return;
  }
  auto used = by != nullptr ? within(*by, x.usage) : x.usage;
  if (!book_.report(x.session, x.epoch, used, wall_time_()) || save_at_)
    return;
  save_at_ = clock_.now() + save_every;
  clock_.due(*save_at_);
}

void accounts::note_ended(const std::string& node,
                          const std::vector<control::session_load>& ended) {
  for (const auto& x : ended) {
    note_use(node, x);
    save(x.session);
  }
}

void accounts::on_tick() {
  if (save_at_ && clock_.now() >= *save_at_)
    save();
}

void accounts::save(session_id only) {
  if (book_.folded())
    return save();
  for (const auto& line : book_.take_lines(only))
    if (state_.kept != nullptr)
      state_.kept->save_usage(line);
}

void accounts::save() {
  save_at_.reset();
  auto all = book_.folded();
  auto lines = book_.take_lines();
  if (state_.kept == nullptr)
    return;
  if (all)
    return state_.kept->save_usage(book_);
  for (const auto& line : lines)
    state_.kept->save_usage(line);
}

std::string accounts::usage_json() const {
  return to_line(book_.summary(0, "user", wall_time_()));
}

void accounts::handle(const std::string& peer, const control::envelope& from,
                      const control::usage_request& x) {
  if (std::ranges::find(account_kinds, x.by) == account_kinds.end())
    return out_.refuse(
        peer, from,
        {fault_kind::usage, "usage by '" + printable(x.by) +
                                "': give vm, user, program, tenant or vgpu"});
  if (!std::isfinite(x.since) || x.since < 0)
    return out_.refuse(
        peer, from,
        {fault_kind::usage, "usage since " + std::to_string(x.since) +
                                ": give seconds since 1970, or 0"});
  out_.answer(peer, from.request,
              control::status_text{to_line(book_.summary(
                  x.since, x.by, wall_time_(), confined_to(from)))});
}

} // namespace vgpu
