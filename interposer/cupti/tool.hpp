// The tool that uses libcupti.so: what it asked for, and the driver that serves
// it.
#pragma once

#include "interposer/cupti/cupti_abi.hpp"
#include "interposer/cupti/cupti_bridge.hpp"

#include <array>
#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace vgpu::cupti {

/// Is the largest CUpti_CallbackId of the driver's functions, and more.
inline constexpr std::size_t most_functions = 1024;

/// Represents the one subscriber that CUPTI permits.
struct subscriber {
  callback call = nullptr;
  void* user = nullptr;
  bool is_active = false;
  std::array<std::bitset<most_functions>, domain_count> enabled{};
};

/// Holds which of an interface's functions the tool chose one by one: some of a
/// kind that it does not want as a whole, or all of a kind but some.
struct chosen_functions {
  std::bitset<most_functions> wanted, unwanted;

  /// Chooses a function, whose number is in range.
  void choose(std::uint32_t number, bool on) {
    wanted[number] = on;
    unwanted[number] = !on;
  }
  bool wants(std::uint32_t number, bool whole_kind) const {
    return number < most_functions
               ? wanted[number] || (whole_kind && !unwanted[number])
               : whole_kind;
  }
};

/// Joins the calls of a thread with the tool's own numbers.
struct joined_call {
  std::uint32_t correlation;
  std::uint32_t of; // a CUpti_ExternalCorrelationKind
  std::uint64_t external;
};

/// Holds the tool's state. `mutex` guards it, except for atomics.
struct tool {
  std::mutex mutex;
  std::bitset<kind_count> kinds;
  chosen_functions of_driver, of_runtime;
  subscriber one;
  std::vector<joined_call> joined;

  request_buffer request = nullptr;
  complete_buffer complete = nullptr;
  std::atomic<std::uint64_t> dropped{0};
  std::atomic<bool> wants_latency{false};
  std::atomic<bool> wants_records{false}; // of any kind
  std::atomic<bool> wants_calls{false};   // driver, runtime or joined calls
  std::atomic<bool> wants_callbacks{false};
  std::atomic<std::uint32_t> flush_ms{0};
  std::atomic<std::uint32_t> thread_ids{1}; // a CUpti_ActivityThreadIdType
};

/// Returns the process's tool, which nothing destroys.
tool& here() noexcept;

/// Returns the driver's functions, or null where the driver is not ours.
const interposer::cupti_bridge* driver() noexcept;

/// Holds the function that hears a callback.
struct listening {
  callback call;
  void* user;
};
/// Returns the subscriber's function where it wants this callback.
std::optional<listening> subscriber_of(domain in, std::uint32_t number);

/// Starts and stops what the tool's wishes need. The caller holds the mutex.
code apply_wishes(tool& x);

} // namespace vgpu::cupti
