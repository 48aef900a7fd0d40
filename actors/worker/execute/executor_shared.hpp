// What an executor shares with what it enqueued: it outlives the call.
#pragma once

#include "actors/state/device_wait.hpp"
#include "actors/worker/execute/executor.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace vgpu {

/// Host functions whose turn has come or that are done, by call number. What a
/// replay finds done goes on at once: the program ran it in an earlier life of
/// the worker.
struct executor::host_calls {
  std::mutex lock;
  std::map<std::uint64_t, std::function<void()>> going;
  std::set<std::uint64_t> done;
  std::set<std::uint64_t> early; // of these, before the log came to it

  void begin(call_number call, std::function<void()> go_on) {
    {
      std::lock_guard guard{lock};
      if (done.erase(call.value) == 0) {
        going.emplace(call.value, std::move(go_on));
        return;
      }
    }
    go_on();
  }

  /// The log has come to where its end is told.
  void finish(std::uint64_t call) {
    if (std::lock_guard guard{lock}; early.erase(call) != 0)
      return;
    end(call);
  }

  /// Its end is told further on in the log.
  void finish_early(std::uint64_t call) {
    if (std::lock_guard guard{lock}; !early.insert(call).second)
      return;
    end(call);
  }

private:
  void end(std::uint64_t call) {
    std::function<void()> go_on;
    {
      std::lock_guard guard{lock};
      auto i = going.find(call);
      if (i == going.end()) {
        done.insert(call);
        return;
      }
      go_on = std::move(i->second);
      going.erase(i);
    }
    go_on();
  }
};

/// The part of the devices' time that is not charged to the program.
struct executor::recovery {
  std::atomic<std::uint64_t> apart{0}; // ns
  /// All of the time so far is; in devices, or not ended.
  std::atomic<std::size_t> going{0};
};

/// Gives a kernel's text its place among all the session's text.
struct executor::consoles {
  std::mutex lock;
  std::array<std::uint64_t, console_count> positions{};
  std::shared_ptr<answer_sink> sink;

  void print(console where, std::string_view text) {
    std::lock_guard guard{lock};
    auto& position = positions[static_cast<std::size_t>(where)];
    if (sink)
      sink->print(where, position, text);
    position += text.size();
  }
};

/// The errors that the devices ended in. Thread-safe.
struct executor::health {
  std::atomic<std::uint32_t> error{0}; // the program's own
  std::atomic<std::uint32_t> lost{0};  // the device's
  std::function<void()> when_lost = [] {};

  static bool is_loss(CUresult result) {
    return result == CUDA_ERROR_DEVICE_UNAVAILABLE ||
           result == CUDA_ERROR_ECC_UNCORRECTABLE ||
           result == CUDA_ERROR_NVLINK_UNCORRECTABLE;
  }

  /// Notes how something ended. False where the program must not be told.
  bool note(answer_sink& sink, CUresult result) {
    std::uint32_t none = 0;
    auto code = static_cast<std::uint32_t>(result);
    if (is_loss(result)) {
      if (lost.compare_exchange_strong(none, code))
        when_lost();
      return false;
    }
    if (result != CUDA_SUCCESS && error.compare_exchange_strong(none, code))
      sink.sticky(result);
    return lost.load() == 0;
  }
};

/// Contents under way between devices and a state, at most.
inline constexpr std::uint64_t state_batch_bytes = std::uint64_t{32} << 20;

inline std::string hex_of(std::uint64_t x) {
  char out[32];
  std::snprintf(out, sizeof(out), "0x%llx", static_cast<unsigned long long>(x));
  return out;
}

/// Shows physical memory at addresses that the program does not use, and
/// calls `f(address, offset, bytes)` for one part of it after the other: it may
/// enqueue copies there.
template <class F>
status executor::look_through(std::size_t device, memory_id memory,
                              std::uint64_t bytes, F f) {
  auto& unit = *memory_units_[device];
  auto at = states_[device].free_place(bytes);
  if (!at)
    return fault{CUDA_ERROR_OUT_OF_MEMORY,
                 "no addresses are free to look at physical memory " +
                     std::to_string(memory.value)};
  if (auto ok = unit.map_memory(*at, bytes, memory); !ok)
    return ok;
  auto ok = unit.set_access(*at, bytes, memory_access::read_write);
  for (std::uint64_t offset = 0; ok && offset != bytes;) {
    auto part = std::min(bytes - offset, state_batch_bytes);
    ok = f(*at + offset, offset, part);
    // Also after a fault: what was enqueued before it may still run.
    auto idle = wait_for(*devices_[device], "copies of physical memory");
    if (ok)
      ok = idle;
    offset += part;
  }
  auto gone = unit.unmap_memory(*at, bytes);
  return ok ? gone : ok;
}

} // namespace vgpu
