// Reports who serves a program's touches of managed memory.
#pragma once

#include "actors/client/session_reports.hpp"
#include "schema/log/session_area.hpp"

namespace vgpu {

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
