#include "actors/manager/cluster/store.hpp"

#include "actors/link/log.hpp"
#include "actors/manager/cluster/event_log.hpp"
#include "actors/manager/cluster/whole_write.hpp"
#include "actors/records/checked_json.hpp"
#include "actors/records/records_json.hpp"

#include <xxhash.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

namespace vgpu {

using nlohmann::json;

namespace {

/// Gives the growth in bytes after which the file is rewritten.
constexpr std::size_t growth = std::size_t{8} << 20;
constexpr std::size_t checksum_digits = 16;
/// Limits the tries to lock the file, because a killed manager may not have
/// ended yet.
constexpr int lock_tries = 100;
constexpr std::chrono::milliseconds between_tries{10};

std::string checksum(std::string_view text) {
  char out[checksum_digits + 1];
  std::snprintf(
      out, sizeof(out), "%016llx",
      static_cast<unsigned long long>(XXH3_64bits(text.data(), text.size())));
  return out;
}

std::string line_of(const json& what) {
  auto text = to_line(what);
  return checksum(text) + " " + text + "\n";
}

fault trouble(const std::string& path, const char* what) {
  return {fault_kind::system, "store " + path + ": cannot " + what + ": " +
                                  std::strerror(errno) +
                                  "; check the path and its permissions"};
}

void note_drained(std::set<std::string>& in, const std::string& node,
                  bool drained) {
  if (drained)
    in.insert(node);
  else
    in.erase(node);
}

using tenant_map = std::map<std::string, control::tenant_limits>;

void note_tenant(tenant_map& in, const std::string& name,
                 const std::optional<control::tenant_limits>& limits) {
  if (limits)
    in.insert_or_assign(name, *limits);
  else
    in.erase(name);
}

/// Makes a tenant's line. The limits of one that was removed are null.
json tenant_line(const std::string& name,
                 const std::optional<control::tenant_limits>& limits) {
  return {{"tenant", {name, limits ? to_json(*limits) : json{}}}};
}

void take_tenant(tenant_map& in, const json& line) {
  const auto& limits = line.at(1);
  note_tenant(in, line.at(0),
              limits.is_null() ? std::nullopt
                               : std::optional{limits_from_json(limits)});
}

/// Returns whether the path still leads to this file.
bool is_at(int fd, const std::string& path) {
  struct stat held = {};
  struct stat there = {};
  return ::fstat(fd, &held) == 0 && ::stat(path.c_str(), &there) == 0 &&
         held.st_ino == there.st_ino && held.st_dev == there.st_dev;
}

} // namespace

result<std::unique_ptr<store>> store::open(std::string path) {
  std::unique_ptr<store> out{new store{std::move(path)}};
  if (auto locked = out->lock(); !locked)
    return locked.why();
  if (auto loaded = out->load(); !loaded)
    return loaded.why();
  if (auto written = out->rewrite(); !written)
    return written.why();
  return out;
}

store::~store() {
  if (fd_ >= 0)
    ::close(fd_);
}

/// Locks the file. Each file that replaces it is locked too.
status store::lock() {
  for (auto i = 0; i < lock_tries; ++i) {
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND, 0600);
    if (fd_ < 0)
      return trouble(path_, "open it");
    auto locked = ::flock(fd_, LOCK_EX | LOCK_NB) == 0;
    if (locked && is_at(fd_, path_))
      return {};
    ::close(std::exchange(fd_, -1));
    if (!locked)
      std::this_thread::sleep_for(between_tries);
  }
  return fault{fault_kind::system,
               "store " + path_ +
                   ": another manager uses it; give each its own --store or "
                   "--run-dir"};
}

status store::load() {
  std::ifstream in{path_};
  if (!in) {
    if (::access(path_.c_str(), F_OK) == 0)
      return trouble(path_, "read it");
    return {};
  }
  for (std::string line; std::getline(in, line);)
    apply(line);
  if (state_.damaged != 0)
    spdlog::warn("store {}: left out {} damaged lines", path_, state_.damaged);
  return {};
}

void store::apply(const std::string& line) {
  auto text =
      std::string_view{line}.substr(std::min(line.size(), checksum_digits + 1));
  if (line.size() <= checksum_digits + 1 ||
      checksum(text) != line.substr(0, checksum_digits)) {
    ++state_.damaged;
    return;
  }
  try {
    auto what = parse_json(text);
    if (what.contains("session")) {
      auto record = session_from_json(what["session"]);
      state_.sessions[record.id] = record;
      state_.last_session = std::max(state_.last_session, record.id.value);
      state_.last_vgpu = std::max(state_.last_vgpu, record.vgpu.value);
    } else if (what.contains("closed")) {
      state_.sessions.erase(session_id{what["closed"]});
    } else if (what.contains("event")) {
      state_.events.push_back(event_from_json(what["event"]));
      if (state_.events.size() > event_log::capacity)
        state_.events.pop_front();
    } else if (what.contains("drained")) {
      note_drained(state_.drained, what["drained"].at(0),
                   what["drained"].at(1));
    } else if (what.contains("tenant")) {
      take_tenant(state_.tenants, what["tenant"]);
    } else if (what.contains("usage")) {
      state_.usage.take(what);
    } else if (what.contains("term")) {
      state_.term = what["term"];
    } else if (what.contains("last")) {
      state_.last_session =
          std::max<std::uint64_t>(state_.last_session, what["last"].at(0));
      state_.last_vgpu =
          std::max<std::uint64_t>(state_.last_vgpu, what["last"].at(1));
    }
  } catch (const json::exception& e) {
    ++state_.damaged;
  }
}

status store::rewrite() {
  auto fresh = path_ + ".new";
  auto fd = ::open(fresh.c_str(),
                   O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_APPEND, 0600);
  if (fd < 0)
    return trouble(fresh, "create it");
  std::string all =
      line_of({{"last", {state_.last_session, state_.last_vgpu}}});
  if (state_.term != 0)
    all += line_of({{"term", state_.term}});
  for (const auto& [id, record] : state_.sessions)
    all += line_of({{"session", to_json(record)}});
  for (const auto& node : state_.drained)
    all += line_of({{"drained", {node, true}}});
  for (const auto& [name, limits] : state_.tenants)
    all += line_of(tenant_line(name, limits));
  for (const auto& line : state_.usage.lines())
    all += line_of(line);
  for (const auto& event : state_.events)
    all += line_of({{"event", to_json(event)}});
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0 || !write_all(fd, all) ||
      ::fdatasync(fd) != 0 || ::rename(fresh.c_str(), path_.c_str()) != 0) {
    auto why = trouble(fresh, "write it");
    ::close(fd);
    // A half-written file takes room that lines could have.
    ::unlink(fresh.c_str());
    return why;
  }
  if (fd_ >= 0)
    ::close(fd_);
  fd_ = fd;
  written_ = rewritten_ = all.size();
  return {};
}

void store::append(const std::string& line) {
  // A line that was cut off must not damage the next one.
  if (!write_all(fd_, lacks_ ? "\n" + line : line)) {
    // The manager continues: sessions matter more than their record.
    lacks_ = true;
    spdlog::error("{}", trouble(path_, "write to it").what);
    return;
  }
  written_ += line.size();
  // There is room again, and what found none is in memory: rewrite the file.
  if (!lacks_ && written_ <= rewritten_ + growth)
    return;
  auto done = rewrite();
  lacks_ = lacks_ && !done;
  if (!done)
    spdlog::error("{}", done.why().what);
}

void store::save(const session_record& x) {
  state_.sessions[x.id] = x;
  state_.last_session = std::max(state_.last_session, x.id.value);
  state_.last_vgpu = std::max(state_.last_vgpu, x.vgpu.value);
  append(line_of({{"session", to_json(x)}}));
}

void store::forget(session_id x) {
  state_.sessions.erase(x);
  append(line_of({{"closed", x.value}}));
}

void store::save(const control::event& x) {
  state_.events.push_back(x);
  if (state_.events.size() > event_log::capacity)
    state_.events.pop_front();
  append(line_of({{"event", to_json(x)}}));
}

void store::save_usage(const json& line) {
  state_.usage.take(line);
  append(line_of(line));
}

void store::save_usage(const usage_book& all) {
  state_.usage = all;
  if (auto done = rewrite(); !done)
    spdlog::error("{}", done.why().what);
}

void store::begin_term(std::uint64_t term, const std::set<std::string>& drained,
                       const tenant_map& tenants) {
  if (state_.term + 1 != term)
    state_.sessions.clear();
  // What a manager without election knows of both is complete.
  if (state_.term != 0 || term != 1) {
    state_.drained = drained;
    state_.tenants = tenants;
  }
  state_.term = term;
  if (auto done = rewrite(); !done)
    spdlog::error("{}", done.why().what);
}

void store::save_drained(const std::string& node, bool drained) {
  note_drained(state_.drained, node, drained);
  append(line_of({{"drained", {node, drained}}}));
}

void store::save_tenant(const std::string& name,
                        const std::optional<control::tenant_limits>& limits) {
  note_tenant(state_.tenants, name, limits);
  append(line_of(tenant_line(name, limits)));
}

} // namespace vgpu
