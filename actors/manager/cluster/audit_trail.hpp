// Who ordered what of a manager, and what came of it.
#pragma once

#include "actors/link/log_limit.hpp"
#include "actors/link/protocol.hpp"
#include "actors/manager/cluster/audit_log.hpp"
#include "actors/records/audit_chain.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace vgpu {

/// Returns to what an order applies, and what is to change, in words.
std::string text_of_order(const control::body& what);

/// Writes the orders of a manager's peers (control::is_order) into its audit
/// log: before the answer is sent, with the answer as the outcome. An order
/// that takes longer is `accepted`, and gets a second record when it is
/// answered. Refused orders of one principal are limited in number, so that
/// nobody drives the others out of the log. Not thread-safe.
class audit_trail {
public:
  /// Limits the accepted orders whose answers are awaited. The oldest is
  /// forgotten, and then has no second record.
  static constexpr std::size_t most_awaited = 4'096;

  audit_trail() = default;
  /// Writes nothing where `log` is null.
  audit_trail(std::shared_ptr<audit_log> log, std::function<double()> wall_time)
      : log_(std::move(log)), wall_time_(std::move(wall_time)) {}

  /// Call it before a message is handled.
  void begin(const std::string& peer, const control::envelope& what);
  /// Call it before something is sent to a peer.
  void told(const std::string& peer, const control::envelope& what);
  /// Call it after the message was handled.
  void end();
  /// Records an order that is refused because of the sender's key.
  void refused(const control::envelope& what, const principal_ptr& who,
               const std::string& why);

private:
  /// Names an order by its connection and request.
  using order_key = std::pair<std::string, std::uint64_t>;
  struct order {
    order_key key;
    audit_record record;
  };

  audit_record record_of(const control::envelope& what,
                         const principal_ptr& who) const;
  void write(audit_record x);
  void await(order x, std::uint64_t number);

  std::shared_ptr<audit_log> log_;
  std::function<double()> wall_time_;
  /// Holds the order that is being handled.
  std::optional<order> now_;
  std::map<order_key, audit_record> awaited_;
  std::deque<order_key> awaited_order_;
  log_limit refusals_;
};

} // namespace vgpu
