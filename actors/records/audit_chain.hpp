// The records of the audit log, and the chain of digests that proves them.
#pragma once

#include "schema/base/fault.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace vgpu {

/// Says who ordered what, and what came of it. All texts may come from a peer.
struct audit_record {
  std::uint64_t number = 0;
  double time = 0; // seconds since 1970
  /// Says what the principal's key is for (`admin`), or the role of who has no
  /// key.
  std::string role;
  /// Is the name of the principal's key, or what who has no key calls itself.
  std::string name;
  std::string tenant;
  /// Tells whether a key proves the three above.
  bool proved = false;
  /// Names the connection, which tells a principal's processes apart.
  std::string from;
  std::string order;  // name of the message
  std::string object; // to which the order applies, with what is to change
  /// Is `accepted`, `done`, `refused`, `redirected` or `noted`.
  std::string outcome;
  std::string reason;
  /// Names the record of the accepted order that ended like this; 0: the record
  /// has order and outcome.
  std::uint64_t of = 0;
  bool operator==(const audit_record&) const = default;
};

nlohmann::json to_json(const audit_record& x);

/// Gives the longest text in a record, in bytes; the rest is cut off.
inline constexpr std::size_t longest_audit_text = 256;
/// Gives the longest line that anybody reads.
inline constexpr std::size_t longest_audit_line = 16'384;

/// Names the last record of a chain. Who keeps it elsewhere can prove later
/// that all records up to this one are still there, and are the same.
struct audit_head {
  std::uint64_t number = 0;
  /// Is the record's SHA-256 in hexadecimal digits; zeros before the first.
  std::string digest = std::string(64, '0');
  bool operator==(const audit_head&) const = default;
};

/// Returns `NUMBER:DIGEST`.
std::string text_of(const audit_head& x);
/// Reads what text_of() wrote; unset: it is something else.
std::optional<audit_head> parse_audit_head(std::string_view text);

/// Returns the line of a record, without an end of line, and moves the head on.
/// The record gets the number after the head's. The line is
/// `NUMBER DIGEST JSON`: the digest is that of the JSON, which contains the
/// digest of the record before.
std::string add_to_chain(audit_head& head, audit_record x);

/// Returns the number with which a line begins; unset: it has none.
std::optional<std::uint64_t> number_of_audit_line(std::string_view line);

/// Reads the record of a line, which may be anything. Fails with `corrupt`.
/// Proves nothing.
result<audit_record> read_audit_line(std::string_view line);

/// Proves a chain of lines. Not thread-safe.
class audit_check {
public:
  /// Takes the next line. The first one may follow records that rotation has
  /// removed. Fails where the line was changed, or records between it and the
  /// one before were removed, added or reordered; the reason names the record.
  /// After a failure the next line is held against this one.
  status take(std::string_view line);

  /// Returns a fault unless the chain has, or goes beyond, this head. Call it
  /// after the last line.
  status contains(const audit_head& known) const;

  /// Makes contains() able to answer for this head. Call it before the first
  /// line.
  void look_for(const audit_head& known) { wanted_ = known; }

  const audit_head& head() const noexcept { return head_; }
  std::uint64_t records() const noexcept { return records_; }
  /// Returns the number of the first record; 0: there is none.
  std::uint64_t first() const noexcept { return first_; }

private:
  audit_head head_;
  audit_head wanted_;
  std::optional<std::string> found_; // digest of the wanted number
  std::uint64_t records_ = 0;
  std::uint64_t first_ = 0;
};

} // namespace vgpu
