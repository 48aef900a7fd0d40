// A client and worker in one thread of the test: grants a vGPU and serves the
// log with memory and no GPU.
#pragma once

#include "schema/log/session_area.hpp"
#include "schema/wire/call_codec.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace vgpu::test {

/// What it grants.
struct fake_options {
  int devices = 1;
  std::uint64_t quota = std::uint64_t{1} << 30;
  /// Answers the hello with this reason instead.
  std::string refusal;
};

/// One launch, as it came through the log.
struct seen_launch {
  call::launch call;
  std::vector<std::byte> parameters;
};

/// Listens on the socket name of `manager` and serves one program at a time.
/// Modules hold the kernels `none()`, `mixed(char, short, 40 bytes, pointer,
/// int)`, `mapped(int, 128 bytes aligned to 64, pointer)` and the 16-byte
/// variable `table`. Of several devices the first alone has tensor maps.
class fake_client {
public:
  fake_client(const std::string& manager, fake_options options);
  ~fake_client();

  /// Work after this is not executed, and nothing is answered, until resume().
  void pause();
  void resume();
  /// The next synchronising call, and all later ones, end in this.
  void fail_with(CUresult code);
  /// As a kernel's printf would.
  void print(std::string text);

  /// Forgets nothing but its connection, as a client that died.
  void hang_up();

  std::vector<seen_launch> launches();
  /// How many records there were of each call number.
  std::map<std::uint16_t, int> counts();
  /// What kernels do: called with each launch, on the client's thread.
  void when_launched(std::function<void(const call::launch&)> f);
  /// As a kernel's cudaGraphSetConditional. In when_launched().
  void set_condition(std::uint64_t handle, std::uint32_t value);
  /// Whether kernels can do that.
  void take_conditions(bool yes);
  /// Whether its program's calls would be replayed.
  bool is_protected() const;
  /// As if other sessions had, or left, so much that counts here.
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
  std::map<std::uint16_t, int> counts_;
  std::map<device_address, std::vector<std::byte>> memory_;
  std::map<std::uint64_t, device_address> arrays_;
  std::map<std::uint64_t, std::uint64_t> placed_; // bytes, by memory id
  std::function<void(const call::launch&)> launched_;
  device_address conditions_ = 0;
  bool takes_conditions_ = true;
  std::atomic<std::uint64_t> shared_bytes_{0};
  std::atomic<int> greetings_{0};
  std::atomic<std::uint64_t> executed_{0};
  std::optional<std::uint64_t> held_by_; // a host function under way
  std::jthread thread_;
};

} // namespace vgpu::test
