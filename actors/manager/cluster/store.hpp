// What the manager keeps beyond its life.
#pragma once

#include "actors/link/protocol.hpp"
#include "actors/manager/cluster/usage_book.hpp"
#include "actors/records/records.hpp"
#include "schema/base/fault.hpp"

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

namespace vgpu {

struct saved_state {
  /// Hold the highest numbers ever given, which are never given again.
  std::uint64_t last_session = 0;
  std::uint64_t last_vgpu = 0;
  std::map<session_id, session_record> sessions;
  std::deque<control::event> events;
  /// Names the drained nodes.
  std::set<std::string> drained;
  /// Holds the limits of the tenants, by name.
  std::map<std::string, control::tenant_limits> tenants;
  /// Holds the term of the leader that wrote it; 0: a single manager without
  /// election.
  std::uint64_t term = 0;
  usage_book usage;
  /// Counts the damaged lines, which are left out.
  std::size_t damaged = 0;
};

/// Keeps the manager's state in a file of lines, each of which is one change
/// with its checksum. Every change is written before a peer learns of it, so a
/// killed manager loses nothing. Reading leaves out a line that was cut off or
/// damaged, and keeps the others. A change for which the disk has no room stays
/// in memory, and is written with the first that finds room. The file is
/// private to its owner, because it holds tokens. It is rewritten, atomically,
/// when it is opened and whenever it has grown much. Not thread-safe.
class store {
public:
  /// Reads the file and locks it. Fails when it cannot be read or written, or
  /// another manager has locked it; the reason names it.
  static result<std::unique_ptr<store>> open(std::string path);

  ~store();
  store(const store&) = delete;
  store& operator=(const store&) = delete;

  /// Returns what the file held when it was opened, with all changes since.
  const saved_state& state() const noexcept { return state_; }

  void save(const session_record& x);
  void forget(session_id x);
  void save(const control::event& x);
  /// Records that a node was drained, or that this was undone.
  void save_drained(const std::string& node, bool drained);
  /// Records the limits of a tenant, or without them that it was removed.
  void save_tenant(const std::string& name,
                   const std::optional<control::tenant_limits>& limits);

  /// Begins an elected leader's term. Forgets the sessions unless this manager
  /// led the term before, because others have led since and know better.
  /// Replaces the drained nodes and the tenants, unless this is the first term
  /// and follows a manager without election.
  void begin_term(std::uint64_t term, const std::set<std::string>& drained,
                  const std::map<std::string, control::tenant_limits>& tenants);

  /// Keeps one of the book's lines.
  void save_usage(const nlohmann::json& line);
  /// Keeps the whole book, in place of everything before.
  void save_usage(const usage_book& all);

private:
  explicit store(std::string path) : path_(std::move(path)) {}

  status lock();
  status load();
  status rewrite();
  void append(const std::string& line);
  void apply(const std::string& line);

  std::string path_;
  int fd_ = -1;
  bool lacks_ = false;      // some changes are not written yet
  std::size_t written_ = 0; // bytes in the file
  std::size_t rewritten_ = 0;
  saved_state state_;
};

} // namespace vgpu
