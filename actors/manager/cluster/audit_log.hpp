// The files of a manager's audit log.
#pragma once

#include "actors/records/audit_chain.hpp"
#include "schema/base/fault.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vgpu {

/// Bounds an audit log: this many files of this size, PATH and PATH.1 (the
/// next older) onwards.
struct audit_bounds {
  std::uint64_t file_bytes = std::uint64_t{8} << 20;
  unsigned files = 8;
};

/// Keeps the audit log in files, private to their owner, to which it only
/// appends. When the newest file is full, it becomes PATH.1, the oldest one is
/// removed, and the chain goes on in a new file. PATH.head names the last
/// record, so that a log whose end was cut off while no manager ran does not
/// look whole. Not thread-safe.
///
/// A record for which the disk has no room is written with the next that finds
/// room, and up to most_waiting bytes of them are kept. Later ones are counted,
/// and a record says how many there were.
class audit_log {
public:
  static constexpr std::size_t most_waiting = std::size_t{1} << 20;
  /// Limits what after() returns, in lines and in bytes.
  static constexpr std::size_t most_lines = 1'000;
  static constexpr std::size_t most_text = std::size_t{256} << 10;

  /// Continues the log at this path, or begins it. The first record of each
  /// manager says how it found the log. Fails where a file cannot be used, or
  /// another manager uses it.
  static result<std::unique_ptr<audit_log>> open(std::string path, double now,
                                                 audit_bounds bounds = {});

  ~audit_log();
  audit_log(const audit_log&) = delete;
  audit_log& operator=(const audit_log&) = delete;

  /// Appends a record, and returns its number; 0: there was no room.
  std::uint64_t add(audit_record x);
  const audit_head& head() const noexcept { return head_; }

  /// Returns the lines after the record of this number, oldest first.
  std::vector<std::string> after(std::uint64_t number) const;

private:
  audit_log(std::string path, audit_bounds bounds)
      : path_(std::move(path)), bounds_(bounds) {}

  status open_file();
  std::string take_up();
  void flush();
  void rotate();
  void write_head();

  std::string path_;
  audit_bounds bounds_;
  int fd_ = -1;
  int head_fd_ = -1;
  std::uint64_t size_ = 0; // bytes in the newest file
  audit_head head_;
  std::string waiting_;
  std::uint64_t lost_ = 0;
  bool complained_ = false;
  /// Holds the number of the first record of each file that has one: 0 is
  /// PATH, 1 is PATH.1.
  std::map<unsigned, std::uint64_t> first_;
};

/// Hands the lines of a log's files to `take`, oldest first, until it returns
/// false. Bounds what it reads of each line. Fails where a file cannot be read;
/// a log without files has no lines.
status each_audit_line(const std::string& path,
                       const std::function<bool(std::string_view)>& take);

/// Returns the head that the last manager kept beside the log; unset: there is
/// none, or it is not readable.
std::optional<audit_head> kept_audit_head(const std::string& path);

} // namespace vgpu
