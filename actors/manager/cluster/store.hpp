// What the manager must not forget when it dies.
#pragma once

#include "actors/link/protocol.hpp"
#include "actors/manager/cluster/usage_book.hpp"
#include "actors/records/records.hpp"
#include "schema/base/fault.hpp"

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>

namespace vgpu {

struct saved_state {
  /// The highest numbers ever given; they are never given again.
  std::uint64_t last_session = 0;
  std::uint64_t last_vgpu = 0;
  std::map<session_id, session_record> sessions;
  std::deque<control::event> events;
  /// Nodes that take no sessions.
  std::set<std::string> drained;
  /// Of the leader that wrote it; 0: there is one manager, and it leads always.
  std::uint64_t term = 0;
  usage_book usage;
  /// Lines that were damaged and left out.
  std::size_t damaged = 0;
};

/// A file of lines, each a change with its checksum. Every change is written
/// before anybody is told of it, so a manager that is killed loses nothing; a
/// line that was cut off or damaged is left out on reading and the others
/// hold. While there is no room for a change it is in memory alone, and is
/// written with the first that finds room. The file is private to its owner (it
/// holds tokens) and is written anew, atomically, at opening and whenever it
/// has grown much. One thread.
class store {
public:
  /// Reads what is there, and keeps others from it. Fails when the file cannot
  /// be read or written, or is another manager's; the reason names it.
  static result<std::unique_ptr<store>> open(std::string path);

  ~store();
  store(const store&) = delete;
  store& operator=(const store&) = delete;

  /// What was there when it was opened, and what was saved since.
  const saved_state& state() const noexcept { return state_; }

  void save(const session_record& x);
  void forget(session_id x);
  void save(const control::event& x);
  /// A node was drained, or taken back.
  void save_drained(const std::string& node, bool drained);

  /// It is this term's leader that writes from now on. Sessions of an earlier
  /// term than the one before are forgotten: others have led since, and know
  /// better. So is which nodes were drained, except by a term before all
  /// others.
  void begin_term(std::uint64_t term, const std::set<std::string>& drained);

  /// One of the book's lines.
  void save_usage(const nlohmann::json& line);
  /// All of the book, in place of what was.
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
  bool lacks_ = false;      // there was no room for some of it
  std::size_t written_ = 0; // bytes
  std::size_t rewritten_ = 0;
  saved_state state_;
};

} // namespace vgpu
