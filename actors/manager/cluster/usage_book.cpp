#include "actors/manager/cluster/usage_book.hpp"

#include "actors/records/tenant_quota.hpp"

#include <algorithm>
#include <utility>

namespace vgpu {

using nlohmann::json;

namespace {

std::int64_t floor_to(std::int64_t x, std::int64_t step) {
  return x / step * step;
}

json to_json(const control::usage& x) {
  json out;
  for (auto [name, value, traffic] : usage_members)
    out[name] = x.*value;
  return out;
}

control::usage usage_from(const json& x) {
  control::usage out;
  for (auto [name, value, traffic] : usage_members)
    out.*value = x.at(name);
  return out;
}

json to_json(const usage_owner& x) {
  return json::array({x.vgpu.value, x.vm, x.user, x.program, x.tenant});
}

usage_owner owner_from(const json& x) {
  usage_owner out{{x.at(0)}, x.at(1), x.at(2), x.at(3)};
  if (x.size() > 4)
    out.tenant = x.at(4);
  return out;
}

json to_json(const usage_account& x) {
  auto told = json::array();
  for (const auto& [era, total] : x.told)
    told.push_back(json::array({era.value, to_json(total)}));
  return {{"owner", to_json(x.owner)},
          {"told", told},
          {"settled", x.settled.value},
          {"total", to_json(x.total)},
          {"closed", x.closed}};
}

usage_account account_from(const json& x) {
  usage_account out;
  out.owner = owner_from(x.at("owner"));
  for (const auto& each : x.at("told"))
    out.told[{each.at(0)}] = usage_from(each.at(1));
  out.settled = {x.at("settled")};
  out.total = usage_from(x.at("total"));
  out.closed = x.at("closed");
  return out;
}

/// Reads seconds since 1970, near which sums cannot overflow.
std::int64_t seconds_from(const json& x) {
  constexpr std::int64_t latest = std::int64_t{1} << 40;
  return std::clamp<std::int64_t>(x.get<std::int64_t>(), 0, latest);
}

} // namespace

json bill_of(const control::usage& x) {
  constexpr double ns_a_second = 1e9;
  constexpr double kib_ms_a_mib_second = 1024.0 * 1000.0;
  return {{"device_seconds", static_cast<double>(x.device_ns) / ns_a_second},
          {"replay_seconds", static_cast<double>(x.replay_ns) / ns_a_second},
          {"bytes_to_device", x.to_device},
          {"bytes_from_device", x.from_device},
          {"bytes_replayed", x.replay_bytes},
          {"memory_mib_seconds",
           static_cast<double>(x.memory_kib_ms) / kib_ms_a_mib_second}};
}

void usage_book::open(session_id session, const usage_owner& owner) {
  auto& x = accounts_[session];
  if (x.owner == owner && !x.closed)
    return;
  x.owner = owner;
  x.closed = false;
  closed_.erase(session);
  changed_[session];
}

void usage_book::close(session_id session) {
  auto i = accounts_.find(session);
  if (i == accounts_.end() || std::exchange(i->second.closed, true))
    return;
  closed_.insert(session);
  changed_[session];
  trim();
}

bool usage_book::report(session_id session, vgpu::epoch era,
                        const control::usage& total, double now) {
  auto i = accounts_.find(session);
  if (i == accounts_.end() || era < i->second.settled)
    return false;
  auto& x = i->second;
  auto& told = x.told[era];
  auto grown = growth_of(told, total);
  told = later(told, total);
  if (x.told.size() > most_epochs) {
    x.settled = {x.told.begin()->first.value + 1};
    x.told.erase(x.told.begin());
  }
  if (grown == control::usage{})
    return false;
  add(x.total, grown);
  auto start = floor_to(static_cast<std::int64_t>(std::max(now, 1.0)), minute);
  start = std::max(start, minute); // 0 means all time
  add(rows_[{start, session, x.owner}], grown);
  changed_[session].insert(start);
  trim();
  return true;
}

control::usage usage_book::of(session_id session) const {
  auto i = accounts_.find(session);
  return i == accounts_.end() ? control::usage{} : i->second.total;
}

// -- bounds -------------------------------------------------------------------

void usage_book::trim() {
  if (rows_.size() > most_rows) {
    fold(rows_.size() / 2, true);
    if (rows_.size() > most_rows * 3 / 4)
      fold(rows_.size() / 2, false);
    folded_ = true;
  }
  while (closed_.size() > most_closed) {
    accounts_.erase(*closed_.begin());
    changed_.erase(*closed_.begin());
    closed_.erase(closed_.begin());
    folded_ = true;
  }
}

/// Folds so many of the oldest rows.
void usage_book::fold(std::size_t count, bool by_hour) {
  std::map<usage_key, control::usage> old;
  auto end = std::next(rows_.begin(), static_cast<std::ptrdiff_t>(count));
  // Rows of one time are folded together.
  while (end != rows_.end() && end->first.start == std::prev(end)->first.start)
    ++end;
  auto until = floor_to(std::prev(end)->first.start, hour) + hour;
  (by_hour ? hours_until_ : ever_until_) =
      std::max(by_hour ? hours_until_ : ever_until_, until);
  while (rows_.begin() != end)
    old.insert(rows_.extract(rows_.begin()));
  for (const auto& [key, used] : old)
    add(rows_[folded(key, by_hour)], used);
}

usage_key usage_book::folded(const usage_key& x, bool by_hour) const {
  if (x.start == 0)
    return x;
  if (by_hour)
    // The present hour could begin at 0, which means all time.
    return {std::max(floor_to(x.start, hour), minute), x.session, x.owner};
  usage_key out{0, {}, x.owner};
  out.owner.vgpu = {};
  auto first_timed = rows_.lower_bound({1, {}, {}});
  auto owners = std::distance(rows_.begin(), first_timed);
  if (static_cast<std::size_t>(owners) >= most_owners && !rows_.contains(out))
    out.owner = {{}, "others", "others", "others", x.owner.tenant};
  return out;
}

// -- answers ------------------------------------------------------------------

json usage_book::summary(double since, const std::string& by, double now,
                         const std::optional<std::string>& only) const {
  std::map<std::string, std::pair<json, control::usage>> found;
  auto began = since;
  for (const auto& [key, used] : rows_) {
    auto end = key.start == 0             ? ever_until_
               : key.start < hours_until_ ? floor_to(key.start, hour) + hour
                                          : key.start + minute;
    const auto& owner = key.owner;
    if (static_cast<double>(end) <= since ||
        (only && tenant_of(owner.tenant) != *only))
      continue;
    began = std::min(began, static_cast<double>(key.start));
    auto name = by == "vm"       ? owner.vm
                : by == "user"   ? owner.user
                : by == "tenant" ? tenant_of(owner.tenant)
                : by == "program"
                    ? owner.program
                    : std::to_string(owner.vgpu.value) + "/" + owner.vm + "/" +
                          owner.user + "/" + owner.program;
    auto& [entry, sum] = found[name];
    if (entry.is_null() && by == "vgpu")
      entry = {{"vgpu", owner.vgpu.value},
               {"vm", owner.vm},
               {"user", owner.user},
               {"program", owner.program}};
    else if (entry.is_null())
      entry = {{by, name}};
    add(sum, used);
  }
  auto entries = json::array();
  for (auto& [name, each] : found) {
    each.first.update(bill_of(each.second));
    entries.push_back(std::move(each.first));
  }
  return {{"by", by},
          {"since", began},
          {"now", now},
          {"entries", std::move(entries)}};
}

// -- what survives its manager ------------------------------------------------

json usage_book::line(session_id session,
                      const std::set<std::int64_t>& starts) const {
  json out{{"usage", session.value}};
  const auto& account = accounts_.at(session);
  out["account"] = to_json(account);
  auto& list = out["rows"] = json::array();
  for (auto start : starts)
    if (auto i = rows_.find({start, session, account.owner}); i != rows_.end())
      list.push_back(
          json::array({start, to_json(account.owner), to_json(i->second)}));
  return out;
}

std::vector<json> usage_book::take_lines() {
  std::vector<json> out;
  for (const auto& [session, starts] : std::exchange(changed_, {}))
    if (accounts_.contains(session))
      out.push_back(line(session, starts));
  folded_ = false;
  return out;
}

std::vector<json> usage_book::take_lines(session_id only) {
  auto entry = changed_.extract(only);
  if (entry.empty() || !accounts_.contains(only))
    return {};
  return {line(only, entry.mapped())};
}

std::vector<json> usage_book::lines() const {
  std::vector<json> out;
  out.push_back({{"usage", 0}, {"until", {hours_until_, ever_until_}}});
  for (const auto& [session, unused] : accounts_)
    out.push_back(line(session, {}));
  for (const auto& [key, used] : rows_)
    out.push_back(
        {{"usage", key.session.value},
         {"rows", json::array({json::array(
                      {key.start, to_json(key.owner), to_json(used)})})}});
  return out;
}

void usage_book::take(const json& line) {
  session_id session{line.at("usage")};
  if (line.contains("until")) {
    hours_until_ = seconds_from(line["until"].at(0));
    ever_until_ = seconds_from(line["until"].at(1));
  }
  if (line.contains("account")) {
    auto& x = accounts_[session] = account_from(line["account"]);
    if (x.closed)
      closed_.insert(session);
    else
      closed_.erase(session);
  }
  if (line.contains("rows"))
    for (const auto& row : line["rows"])
      rows_[{seconds_from(row.at(0)), session, owner_from(row.at(1))}] =
          usage_from(row.at(2));
}

} // namespace vgpu
