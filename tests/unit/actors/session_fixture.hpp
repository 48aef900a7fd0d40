// A session without a client: an executor on the cpu device, for tests of its
// state.
#pragma once

#include "actors/worker/execute/executor.hpp"
#include "devices/cpu/cpu_device.hpp"
#include "schema/wire/call_codec.hpp"

#include <boost/test/unit_test.hpp>

#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace vgpu {

/// An executor on a cpu device. Tests write to its memory as kernels do.
struct a_session {
  static constexpr std::uint64_t quota = std::uint64_t{1} << 30;
  static constexpr std::uint64_t granules = 12;
  static constexpr device_address at = first_window;

  std::unique_ptr<executor> exec = fresh();
  std::uint64_t number = 0;
  std::mutex lock;
  std::condition_variable rang;
  bool rung = false;

  static std::unique_ptr<executor> fresh() {
    std::vector<std::unique_ptr<device::device>> devices;
    devices.push_back(device::open_cpu_device({0, quota, 1}, quota));
    return std::make_unique<executor>(std::move(devices), quota);
  }

  template <class Call>
  void call_it(const Call& x) {
    std::vector<std::uint64_t> words(call::message_words(x));
    call::encode(x, 0, words);
    number += 8;
    record what{.call = {number},
                .end = number + 8,
                .slot = 0,
                .message = words,
                .payload = {}};
    BOOST_REQUIRE(exec->execute(what, nullptr));
    BOOST_REQUIRE(exec->error() == CUDA_SUCCESS);
  }

  void allocate(device_address from, std::uint64_t bytes) {
    call_it(call::mem_alloc{.address = from, .bytes = bytes});
  }

  static std::uint32_t& word(std::uint64_t granule, std::uint64_t index = 0) {
    return reinterpret_cast<std::uint32_t*>(at +
                                            granule * granule_bytes)[index];
  }

  static std::vector<std::byte> memory(std::uint64_t bytes = granules *
                                                             granule_bytes) {
    std::vector<std::byte> out(bytes);
    std::memcpy(out.data(), reinterpret_cast<const void*>(at), bytes);
    return out;
  }

  void begin(int file, bool keep) {
    auto ok = exec->begin_copy(file, keep, [this] {
      std::lock_guard guard{lock};
      rung = true;
      rang.notify_one();
    });
    BOOST_REQUIRE_MESSAGE(ok.ok(), ok.why().what);
  }

  /// Copies until the session has to pause. Calls `meanwhile` before each step,
  /// in place of the program.
  void copy(const std::function<void()>& meanwhile = [] {}) {
    for (;;) {
      meanwhile();
      auto ready = exec->copy_on();
      if (!ready)
        BOOST_FAIL(ready.why().what);
      if (*ready)
        return;
      std::unique_lock guard{lock};
      rang.wait(guard, [&] { return rung; });
      rung = false;
    }
  }

  /// Describes the session, and calls `meanwhile` before the state is complete,
  /// in place of the program.
  void finish(const std::function<void()>& meanwhile = [] {}) {
    if (auto ok = exec->describe_copy(); !ok)
      BOOST_FAIL(ok.why().what);
    meanwhile();
    auto bytes = exec->finish_copy();
    if (!bytes)
      BOOST_FAIL(bytes.why().what);
  }

  void take(int file, bool keep = true) {
    begin(file, keep);
    copy();
    finish();
  }

  /// Restores a state, and the memory lent with it, on another worker.
  void follow(int file, bool adopt, std::vector<unique_fd> lent = {}) {
    follow(file, {.adopt = adopt, .lent = std::move(lent)});
  }
  void follow(int file, restore_terms how) {
    exec.reset();
    exec = fresh();
    auto position = exec->restore(file, std::move(how));
    if (!position)
      BOOST_FAIL(position.why().what);
  }
};

} // namespace vgpu
