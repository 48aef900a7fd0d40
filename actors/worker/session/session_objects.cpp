#include "actors/worker/session/session_objects.hpp"

#include "actors/link/log.hpp"
#include "actors/state/device_wait.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

namespace vgpu {

session_objects::session_objects(
    std::vector<std::unique_ptr<device::device>> backends,
    std::uint64_t quota) {
  for (auto& x : backends) {
    auto ordinal = devices.size();
    auto& slot = devices.emplace_back(std::move(x), ordinal, quota);
    slot.device->set_printer(
        [to = output](vgpu::console where, std::string_view text) {
          to->print(where, text);
        });
    slot.device->set_reporter([](std::string_view why) {
      spdlog::warn("work of the program failed: {}", why);
    });
  }
  allow(quota);
  account.measure_side_memory();
}

void session_objects::allow(std::uint64_t quota) {
  for (auto& x : devices)
    x.state.allow(quota);
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  auto count = std::max<std::uint64_t>(devices.size(), 1);
  auto of_all = quota > most / count ? most : quota * count;
  image_sizes.allow(of_all);
  host.allow(of_all);
}

session_objects::~session_objects() {
  for (auto& x : devices)
    x.device.reset();
}

void session_objects::when_idle(const std::function<void()>& then) {
  auto left = std::make_shared<std::atomic<std::size_t>>(devices.size());
  for (auto& x : devices)
    x.device->when_done(std::nullopt, [left, then](CUresult) {
      if (left->fetch_sub(1) == 1)
        then();
    });
}

bool session_objects::end_replayed_wait(call_number call) {
  if (!waits.any()) [[likely]]
    return false;
  std::vector<replayed_waits::streams_of> all;
  for (auto& slot : devices) {
    const auto& streams = slot.state.streams();
    all.push_back({slot.device.get(), {streams.begin(), streams.end()}});
  }
  return waits.end(call, all);
}

void session_objects::end_waits_ahead() {
  for (auto call : functions.calls->left_ahead())
    if (end_replayed_wait(call_number{call}))
      functions.calls->note_ended_ahead(call);
}

status session_objects::await_known() {
  // The client gives a worker up before that.
  constexpr std::chrono::minutes patience{10};
  for (auto& x : devices) {
    // Otherwise the program has learned nothing yet.
    if (!x.order.uses_host_stream())
      continue;
    if (auto ok = wait_for(*x.device, "work that a program had waited for",
                           patience, x.order.host_stream());
        !ok)
      return ok;
  }
  return {};
}

} // namespace vgpu
