// A prepared worker of the session of data_plane_fixture.hpp.
#pragma once

#include "actors/worker/checkpoint/preparation_desk.hpp"
#include "tests/unit/actors/data_plane_fixture.hpp"

namespace vgpu::test {

/// A prepared worker, which waits for its orders.
struct prepared_worker {
  next_worker next{"vgpu-test-next-" + std::to_string(::getpid()), 4711};
  unique_fd listener = std::move(*listen_abstract(next.socket));
  std::unique_ptr<executor> exec;
  std::optional<preparation_desk> desk;

  explicit prepared_worker(std::unique_ptr<device::device> with) {
    std::vector<std::unique_ptr<device::device>> devices;
    devices.push_back(std::move(with));
    exec = std::make_unique<executor>(std::move(devices), 1 << 30);
    desk.emplace(listener.get(), session_id{1}, next.token, *exec);
  }

  /// Ends the preparation, as orders do.
  std::unique_ptr<executor> ready() {
    desk->end();
    return std::move(exec);
  }
};

} // namespace vgpu::test
