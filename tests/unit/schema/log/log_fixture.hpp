// A session's areas as the program and the reader see them, in one process.
#pragma once

#include "schema/log/call_log.hpp"
#include "schema/wire/call_codec.hpp"

#include <boost/test/unit_test.hpp>

#include <sys/eventfd.h>
#include <unistd.h>

namespace vgpu::test {

struct log_fixture {
  session_area program;
  session_area server;
  unique_fd doorbell{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  std::uint64_t fills_at = 0;
  log_writer writer{program, doorbell.get(),
                    [this](std::uint64_t bytes) { fills_at = bytes; }};

  explicit log_fixture(std::uint64_t capacity = minimum_log)
      : program(std::move(*session_area::create(capacity, granule_bytes))),
        server(opened()) {}

  session_area opened() const {
    auto handed = handed_over();
    return std::move(*session_area::open(handed));
  }

  std::vector<unique_fd> handed_over() const {
    std::vector<unique_fd> out;
    for (auto fd : program.descriptors())
      out.emplace_back(::dup(fd));
    return out;
  }

  template <class Call>
  call_number append(const Call& x, slot_index slot = 0,
                     std::uint32_t payload = 0) {
    return call::append(writer, x, 0, slot, payload,
                        [](std::span<std::byte> bytes) {
                          for (std::size_t i = 0; i < bytes.size(); ++i)
                            bytes[i] = static_cast<std::byte>(i);
                        },
                        {});
  }
};

} // namespace vgpu::test
