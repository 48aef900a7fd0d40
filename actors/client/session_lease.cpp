#include "actors/client/session_lease.hpp"

#include "actors/client/guest_codec.hpp"

#include <cstring>
#include <stdexcept>

namespace vgpu {

session_lease::change
session_lease::compare(const control::lease& offered) const noexcept {
  if (!current_ || offered.epoch > current_->epoch)
    return change::place;
  return offered.epoch == current_->epoch ? change::terms : change::nothing;
}

void session_lease::grant(const control::lease& next) {
  // A lease whose predecessor was never fenced has served nothing.
  if (current_ && !former_)
    former_ = current_;
  current_ = next;
  suspected_ = false;
}

void session_lease::suspect(const std::string& why) {
  suspected_ = true;
  last_suspicion_ = why;
}

void session_lease::write_ticket(control_header& header) const {
  auto bytes = guest::encode_ticket(*current_);
  if (bytes.size() > ticket_bytes)
    throw std::logic_error{"a session's ticket does not fit its place"};
  header.ticket_size.store(0);
  std::memcpy(header.ticket.data(), bytes.data(), bytes.size());
  header.ticket_size.store(static_cast<std::uint32_t>(bytes.size()));
}

} // namespace vgpu
