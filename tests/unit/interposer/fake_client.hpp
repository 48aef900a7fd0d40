// A client and worker in one thread of the test. It grants a vGPU and serves
// the log with memory and no GPU.
#pragma once

#include "schema/base/jit_settings.hpp"
#include "schema/log/session_area.hpp"
#include "schema/wire/call_codec.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace vgpu::test {

/// What the fake client grants.
struct fake_options {
  int devices = 1;
  std::uint64_t quota = std::uint64_t{1} << 30;
  /// A reason to refuse the hello.
  std::string refusal;
};

/// One launch, as the log had it.
struct seen_launch {
  call::launch call;
  std::vector<std::byte> parameters;
};

/// Listens on the socket name of `manager`, and serves one program at a time.
/// Modules have the kernels `none()`, `mixed(char, short, 40 bytes, pointer,
/// int)` and `mapped(int, 128 bytes aligned to 64, pointer)`, and the 16-byte
/// variable `table`. Only the first device has tensor maps.
class fake_client {
public:
  fake_client(const std::string& manager, fake_options options);
  ~fake_client();

  /// Executes and answers nothing until resume().
  void pause();
  void resume();
  /// Makes the next synchronising call and all later ones return this code.
  void fail_with(CUresult code);
  /// Prints as a kernel's printf does.
  void print(std::string text);

  /// Tells the times of traced work this often, as after a lost worker. At
  /// first it is once.
  void tell_times(int often) { tells_times_ = often; }

  /// Closes the connection and keeps everything else, like a client that died.
  void hang_up();

  std::vector<seen_launch> launches();
  /// Returns the compiler's options of the latest load or check of code.
  jit_settings settings();
  /// Returns the number of records of each call number.
  std::map<std::uint16_t, int> counts();
  /// Calls `f` with each launch on the client's thread, in place of the kernel.
  void when_launched(std::function<void(const call::launch&)> f);
  /// Sets a condition as a kernel's cudaGraphSetConditional does. Call it in
  /// when_launched().
  void set_condition(std::uint64_t handle, std::uint32_t value);
  /// Sets whether kernels can set conditions.
  void take_conditions(bool yes);
  /// Returns whether its program's calls would be replayed.
  bool is_protected() const;
  /// Sets the bytes that count against this program because of other sessions.
  void count_for_others(std::uint64_t bytes) { shared_bytes_ = bytes; }
  int greetings() const noexcept { return greetings_.load(); }
  std::uint64_t log_bytes() const noexcept { return executed_.load(); }

private:
  struct connection;

  void run(std::stop_token stop);
  bool welcome(int socket);
  bool serve_some();
  void execute(const record& r);
  void answer(const record& r, CUresult code, std::uint64_t value = 0);
  template <class Call>
  void apply(const record& r, const Call& x, std::uint8_t device);
  std::byte* at(device_address address, std::uint64_t bytes);
  void facts_into(const record& r, const call::arena_range& to);
  void encode(const record& r, const call::tensor_map_encode& x);
  void note_settings(std::span<const std::byte> bytes);
  void tell_times_of(const record& r);
  void call_those_in_turn();

  const fake_options options_;
  unique_fd listener_;
  std::unique_ptr<connection> open_;
  std::uint64_t resume_at_ = 0;

  std::mutex mutex_;
  bool paused_ = false;
  bool hang_up_ = false;
  CUresult failure_ = CUDA_SUCCESS;
  std::string text_;
  std::uint64_t text_position_ = 0;
  std::vector<seen_launch> launches_;
  jit_settings settings_;
  std::map<std::uint16_t, int> counts_;
  std::map<device_address, std::vector<std::byte>> memory_;
  std::map<std::uint64_t, call::late_write> late_writes_;
  /// Describes a host function that has not ended.
  struct turn {
    slot_index slot;
    call_number call;
    stream_id stream;
    bool called;
  };
  std::deque<turn> turns_;
  std::set<stream_id> blocking_;
  std::map<std::uint64_t, device_address> arrays_;
  std::map<std::uint64_t, std::uint64_t> placed_; // bytes by memory id
  std::function<void(const call::launch&)> launched_;
  device_address conditions_ = 0;
  bool takes_conditions_ = true;
  std::atomic<std::uint64_t> shared_bytes_{0};
  std::atomic<int> greetings_{0};
  std::atomic<std::uint64_t> executed_{0};
  bool is_traced_ = false;
  std::atomic<int> tells_times_{1};
  std::optional<std::uint64_t> held_by_; // the host function that runs
  std::jthread thread_;
};

} // namespace vgpu::test
