// What a session_server has of a log that it maps.
#pragma once

#include "actors/worker/serve/session_server.hpp"

namespace vgpu {

/// A log that this process maps, and the client's end of the socket over which
/// it came: when that closes, the client is gone.
struct session_server::mapped {
  unique_fd client;
  std::shared_ptr<const session_area> area;
  unique_fd doorbell;
  log_reader reader;
  std::shared_ptr<mapped_answers> answers;
  std::shared_ptr<host_files> files;

  mapped(session_area memory, unique_fd bell, std::function<void()> first)
      : area(std::make_shared<const session_area>(std::move(memory))),
        doorbell(std::move(bell)), reader(*area, doorbell.get(), 0),
        answers(std::make_shared<mapped_answers>(area, std::move(first))),
        files(std::make_shared<host_files>(area)) {}
};

} // namespace vgpu
