#include "interposer/session/process.hpp"

#include "interposer/session/driver_log.hpp"
#include "interposer/session/error_texts.hpp"
#include "interposer/session/session.hpp"
#include "interposer/session/write_all.hpp"
#include "schema/base/cuda_fault.hpp"
#include "schema/base/own_environment.hpp"

#include <algorithm>
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

/// Needs no destructor, so that it stays usable during exit().
constinit std::mutex initialising;

log_level level_from_environment() noexcept {
  const auto* text = setting("VGPU_LOG");
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

/// Opens the session where there is none. Precondition: the lock is held.
CUresult process::open_locked() {
  if (session_ != nullptr)
    return CUDA_SUCCESS;
  auto opened = session::open();
  if (!opened) {
    log_line(log_level::error, "no vGPU: " + opened.why().what);
    return CUDA_ERROR_NO_DEVICE;
  }
  session_ = std::move(*opened).release();
  static std::once_flag registered;
  std::call_once(registered, [] {
    ::pthread_atfork(nullptr, nullptr, [] {
      if (session_ == nullptr)
        return;
      session_->abandon_in_child();
      auto running = phase::running;
      // A child may open a session of its own if the parent's served only
      // queries before cuInit. The parent's mappings stay.
      if (!phase_.compare_exchange_strong(running, phase::forked) &&
          running == phase::fresh)
        session_ = nullptr;
    });
    // Handlers that the runtime registered earlier run after this one. When the
    // runtime unloads its modules, it then finds a driver that has shut down,
    // as with the real driver.
    std::atexit([] {
      if (phase_.load() == phase::running) {
        phase_.store(phase::ended);
        session_->finish();
      }
    });
  });
  return CUDA_SUCCESS;
}

CUresult process::open_session() noexcept {
  // A forked child may still read the parent's grant.
  if (auto now = phase_.load(); now == phase::ended)
    return code_of(now);
  else if (now != phase::fresh)
    return CUDA_SUCCESS;
  try {
    std::lock_guard guard{initialising};
    return open_locked();
  } catch (const std::exception& e) {
    report_exception(e.what());
    return CUDA_ERROR_NO_DEVICE;
  }
}

CUresult process::session_error() noexcept {
  return the_session().sticky();
}

CUresult process::initialise() noexcept {
  if (auto now = phase_.load(); now == phase::running)
    return CUDA_SUCCESS;
  else if (now != phase::fresh)
    return code_of(now);
  try {
    std::lock_guard guard{initialising};
    if (phase_.load() == phase::running)
      return CUDA_SUCCESS;
    if (auto code = open_locked(); code != CUDA_SUCCESS)
      return code;
    if (auto ok = session_->use_devices(); !ok) {
      log_line(log_level::error, "no vGPU: " + ok.why().what);
      return cuda_code(ok.why()) == CUDA_ERROR_INVALID_DEVICE
                 ? CUDA_ERROR_INVALID_DEVICE
                 : CUDA_ERROR_NO_DEVICE;
    }
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
    write_all(STDERR_FILENO, line);
  } catch (const std::exception&) {
    // Memory is short, so the line is dropped.
  }
}

void report_exception(const char* what) noexcept {
  log_line(log_level::error, what);
}

std::string_view entry_point_of(std::string_view body) noexcept {
  // Only names of entry points begin with cu and a capital letter.
  auto begins = [&](std::size_t at) {
    return body[at] == 'c' && body[at + 1] == 'u' && body[at + 2] >= 'A' &&
           body[at + 2] <= 'Z';
  };
  std::size_t begin = 0;
  while (begin + 2 < body.size() && !begins(begin))
    ++begin;
  if (begin + 2 >= body.size())
    return {};
  auto name = body.substr(begin);
  return name.substr(0, name.find('('));
}

void note_failed_call(std::string_view body, CUresult code) noexcept {
  if (code == CUDA_ERROR_NOT_READY)
    return;
  auto name = entry_point_of(body);
  if (name.empty())
    return;
  try {
    const auto* known = error_name(code);
    const auto* word = known != nullptr ? known : "an unknown error";
    if (logs(log_level::debug))
      log_line(log_level::debug, std::string{name} + " gives " + word);
    the_driver_log().add(CU_LOG_LEVEL_ERROR,
                         "Returning " + std::to_string(code) + " (" + word +
                             ") from " + std::string{name});
  } catch (const std::exception&) {
    // Memory is short, so the message is dropped.
  }
}

CUresult code_of_exception(const std::exception& thrown) noexcept {
  report_exception(thrown.what());
  auto ended = process::the_session().sticky();
  return ended != CUDA_SUCCESS ? ended : CUDA_ERROR_UNKNOWN;
}

} // namespace vgpu::interposer
