// Measures the call log alone: the cost of appending a launch while a reader
// drains the log.
#include "measure.hpp"

#include "schema/log/call_log.hpp"
#include "schema/wire/call_codec.hpp"

#include <array>
#include <atomic>
#include <thread>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace vgpu::bench {

namespace {

/// Holds a log whose reader is a thread that only decodes each call.
class drained_log {
public:
  drained_log() : reader_{[this] { drain(); }} {}
  drained_log(const drained_log&) = delete;
  drained_log& operator=(const drained_log&) = delete;
  ~drained_log() {
    stop_ = true;
    log.ring();
    reader_.join();
  }

  bool drained() const noexcept { return read_.load() == log.tail(); }

private:
  static constexpr std::uint64_t capacity = std::uint64_t{1} << 30;

  void drain() {
    log_reader reader{area_, doorbell_.get(), 0};
    while (!stop_) {
      while (auto got = *reader.next())
        benchmark::DoNotOptimize(call::decode(got->message, [](auto&&...) {}));
      read_.store(reader.position());
      if (!reader.fall_asleep())
        continue;
      pollfd bell{doorbell_.get(), POLLIN, 0};
      reader.awake(::poll(&bell, 1, 100) == 1);
    }
  }

  session_area area_{std::move(*session_area::create(capacity, granule_bytes))};
  unique_fd doorbell_{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  std::atomic<bool> stop_ = false;
  std::atomic<std::uint64_t> read_{0};

public:
  log_writer log{area_, doorbell_.get(), [](std::uint64_t) {}};

private:
  std::thread reader_;
};

constexpr int log_batch = 1000;

void log_append_launch(benchmark::State& state) {
  drained_log to;
  std::array<std::byte, 28> parameters{};
  call::launch what;
  what.bytes = parameters;
  auto append = [&] {
    for (int i = 0; i < log_batch; ++i)
      call::append(to.log, what, 0, 0, 0, [](auto) {}, {});
  };
  measure(state, log_batch, append, [&] {
    while (!to.drained())
      std::this_thread::yield();
  });
}
BENCHMARK(log_append_launch)
    ->UseManualTime()
    ->Iterations(500)
    ->Unit(benchmark::kMicrosecond);

void encode_launch(benchmark::State& state) {
  std::array<std::byte, 28> parameters{};
  call::launch what;
  what.bytes = parameters;
  std::vector<std::uint64_t> words(call::message_words(what));
  for ([[maybe_unused]] auto _ : state) {
    std::fill(words.begin(), words.end(), 0);
    call::encode(what, 0, words);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(encode_launch);

void decode_launch(benchmark::State& state) {
  std::array<std::byte, 28> parameters{};
  call::launch what;
  what.bytes = parameters;
  std::vector<std::uint64_t> words(call::message_words(what));
  call::encode(what, 0, words);
  for ([[maybe_unused]] auto _ : state)
    benchmark::DoNotOptimize(call::decode(words, [](auto&&...) {}));
}
BENCHMARK(decode_launch);

} // namespace

} // namespace vgpu::bench
