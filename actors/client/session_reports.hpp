// The reports of a session's client to the manager.
#pragma once

#include "actors/client/client_actor.hpp"
#include "actors/client/opened_session.hpp"
#include "actors/client/session_lease.hpp"
#include "actors/link/protocol.hpp"
#include "schema/log/session_area.hpp"

#include <caf/all.hpp>

#include <string>

namespace vgpu {

/// Sends messages of one session to the manager, by way of the client actor.
///
/// It reads the lease and the program's name, and changes nothing. It belongs
/// to the session_client's thread.
class session_reports {
public:
  /// Takes the session_client's owner. `lease` and `opened` must outlive the
  /// object.
  session_reports(session_owner client, const session_lease& lease,
                  const opened_session& opened)
      : client_(std::move(client)), lease_(lease), opened_(opened) {}

  void tell(control::body what) const;
  /// Reports an event of the current lease. `kind` is one that `vgpu events`
  /// lists.
  void tell_event(std::string kind, std::string text) const;
  /// Returns such an event, to which the caller can add numbers.
  control::event make_event(std::string kind, std::string text) const;
  /// Refuses an order of the current lease that cannot be carried out. The
  /// session then runs on where it is.
  void refuse_pause(const std::string& why) const;

  const std::string& program() const noexcept { return opened_.program.name; }

private:
  session_owner client_;
  const session_lease& lease_;
  const opened_session& opened_;
};

/// Tells the manager once what the program chose when it first used managed
/// memory. It belongs to the session_client's thread.
class touch_report {
public:
  /// Both must outlive the object.
  touch_report(const opened_session& opened, const session_reports& reports)
      : opened_(opened), reports_(reports) {}

  /// Reports the service if it is new.
  void tell();

private:
  const opened_session& opened_;
  const session_reports& reports_;
  fault_service told_ = fault_service::unused;
};

} // namespace vgpu
