#include "interposer/process.hpp"

#include "interposer/session.hpp"

#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>

#include <pthread.h>
#include <unistd.h>

namespace vgpu::interposer {

std::atomic<phase> process::phase_{phase::fresh};
session* process::session_ = nullptr;

namespace {

std::mutex& initialising() {
  static auto& mutex = *new std::mutex;
  return mutex;
}

log_level level_from_environment() noexcept {
  const auto* text = std::getenv("VGPU_LOG");
  if (text == nullptr)
    return log_level::off;
  std::string_view name{text};
  if (name == "error")
    return log_level::error;
  if (name == "warn")
    return log_level::warn;
  if (name == "info")
    return log_level::info;
  return name == "debug" ? log_level::debug : log_level::off;
}

} // namespace

CUresult process::code_of(phase x) noexcept {
  return x == phase::ended ? CUDA_ERROR_DEINITIALIZED
                           : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult process::initialise() noexcept {
  if (auto now = phase_.load(); now == phase::running)
    return CUDA_SUCCESS;
  else if (now != phase::fresh)
    return code_of(now);
  try {
    std::lock_guard guard{initialising()};
    if (phase_.load() == phase::running)
      return CUDA_SUCCESS;
    auto opened = session::open();
    if (!opened) {
      log_line(log_level::error, "no vGPU: " + opened.why().what);
      return opened.why().code == CUDA_ERROR_INVALID_DEVICE
                 ? CUDA_ERROR_INVALID_DEVICE
                 : CUDA_ERROR_NO_DEVICE;
    }
    session_ = std::move(*opened).release();
    ::pthread_atfork(nullptr, nullptr, [] {
      if (phase_.load() == phase::running) {
        phase_.store(phase::forked);
        session_->abandon_in_child();
      }
    });
    // What the runtime registered before runs after this: its unloading of
    // modules then finds a driver that has shut down, as with the real one.
    std::atexit([] {
      if (phase_.load() == phase::running) {
        phase_.store(phase::ended);
        session_->finish();
      }
    });
    phase_.store(phase::running, std::memory_order_release);
    return CUDA_SUCCESS;
  } catch (const std::exception& e) {
    report_exception(e.what());
    return CUDA_ERROR_NO_DEVICE;
  }
}

bool logs(log_level level) noexcept {
  static const auto limit = level_from_environment();
  return level <= limit;
}

void log_line(log_level level, std::string_view text) noexcept {
  if (level == log_level::off || !logs(level))
    return;
  try {
    auto line = "vgpu[" + std::to_string(::getpid()) + "]: ";
    line += text;
    line += '\n';
    [[maybe_unused]] auto n = ::write(STDERR_FILENO, line.data(), line.size());
  } catch (const std::exception&) {
    // Out of memory: a line of the log is the least loss.
  }
}

void report_exception(const char* what) noexcept {
  log_line(log_level::error, what);
}

CUresult code_of_exception(const std::exception& thrown) noexcept {
  report_exception(thrown.what());
  auto ended = process::the_session().sticky();
  return ended != CUDA_SUCCESS ? ended : CUDA_ERROR_UNKNOWN;
}

} // namespace vgpu::interposer
