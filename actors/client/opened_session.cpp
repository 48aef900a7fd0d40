#include "actors/client/opened_session.hpp"

#include "schema/base/host.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace vgpu {

namespace {

/// Returns this host's id. It is cached, because it needs system calls and
/// never changes.
const std::string& own_host() {
  static const auto id = host_id();
  return id;
}

} // namespace

result<opened_session> opened_session::take(const guest::hello& hello,
                                            packet& in) {
  constexpr auto memory = session_area::descriptor_count;
  if (in.descriptors.size() < memory + 1)
    return fault{fault_kind::corrupt,
                 "a program hands over its session's memory, a doorbell, and "
                 "places for snapshots"};
  auto opened = session_area::open(in.descriptors);
  if (!opened)
    return opened.why();
  auto area = std::make_shared<session_area>(std::move(*opened));
  auto doorbell = std::move(in.descriptors[memory]);
  log_reader reader{*area, doorbell.get(), 0};
  opened_session out{.program = hello.program,
                     .specification = hello.specification,
                     .area = std::move(area),
                     .doorbell = std::move(doorbell),
                     .places = state_places::take(in.descriptors, memory + 1),
                     .reader = std::move(reader),
                     .hears_waiting = hello.hears_waiting && !hello.resumed};
  out.program.host = own_host();
  return out;
}

bool opened_session::is_protected() const noexcept {
  return header().protection_level.load() !=
         static_cast<std::uint32_t>(protection::none);
}

bool opened_session::waits_before(std::uint64_t position) const noexcept {
  auto found = false;
  each_waiting(*area, [&](slot_index, call_number call) {
    found = found || call.value < position;
  });
  return found;
}

result<guest::ticket> opened_session::read_ticket() const {
  std::vector<std::byte> bytes(
      std::min<std::size_t>(header().ticket_size.load(), ticket_bytes));
  std::memcpy(bytes.data(), header().ticket.data(), bytes.size());
  return guest::decode_ticket(bytes);
}

} // namespace vgpu
