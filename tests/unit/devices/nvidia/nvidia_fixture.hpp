// The fake driver, and the nvidia device on top of it.
#pragma once

#include "devices/interface/memory_unit.hpp"
#include "devices/nvidia/driver/driver.hpp"
#include "devices/nvidia/memory/window.hpp"
#include "devices/nvidia/nvidia_device.hpp"

#include <boost/test/unit_test.hpp>

#include <dlfcn.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>

namespace vgpu::test {

using namespace device;

inline constexpr auto base = window_of(5);
inline constexpr auto g = granule_bytes;

/// Returns the fake driver's path.
const char* fake_driver() noexcept;

inline void choose_driver(const std::string& path) {
  ::setenv("VGPU_NVIDIA_DRIVER", path.c_str(), 1);
}

/// A completion whose result a test can wait for.
class outcome {
public:
  completion tell() {
    return [this](CUresult x) {
      std::lock_guard guard{mutex_};
      value_ = x;
      wake_.notify_all();
    };
  }
  CUresult wait() {
    std::unique_lock guard{mutex_};
    wake_.wait(guard, [&] { return value_.has_value(); });
    return *value_;
  }
  bool told() {
    std::lock_guard guard{mutex_};
    return value_.has_value();
  }

private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::optional<CUresult> value_;
};

/// Makes the fake driver the only one.
struct fake {
  fake() {
    choose_driver(fake_driver());
    api = *nvidia::open_driver(fake_driver());
    call<void()>("fake_reset")();
  }
  ~fake() { call<void(int)>("fake_fail")(0); }

  template <class F>
  static F* call(const char* name) {
    static auto* library = ::dlopen(fake_driver(), RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<F*>(::dlsym(library, name));
  }
  static void hold(int x) { call<void(int)>("fake_hold")(x); }
  static void fail(CUresult x) {
    call<void(int)>("fake_fail")(static_cast<int>(x));
  }
  static std::uint64_t created() {
    return call<std::uint64_t()>("fake_created")();
  }

  nvidia::driver_ptr api;
};

struct with_window : fake {
  with_window() : before(created()), memory(api, 0) {
    BOOST_REQUIRE(memory.reserve(base).ok());
  }
  std::uint64_t here() const { return created() - before; }

  std::uint64_t before;
  nvidia::window memory;
};

/// Keeps stdout and stderr, which the first device redirects, for the tests'
/// reports.
class kept_descriptors {
public:
  ~kept_descriptors() {
    for (auto fd : {STDOUT_FILENO, STDERR_FILENO}) {
      ::dup2(copies_[fd - 1], fd);
      ::close(copies_[fd - 1]);
    }
  }

private:
  int copies_[2] = {::dup(STDOUT_FILENO), ::dup(STDERR_FILENO)};
};

struct with_device : fake {
  with_device() {
    kept_descriptors kept;
    auto opened = open_nvidia_device(0);
    BOOST_REQUIRE(opened.ok());
    dev = std::move(*opened);
    BOOST_REQUIRE(dev->reserve_window(base).ok());
  }
  ~with_device() { hold(0); }

  std::unique_ptr<device::device> dev;
};

} // namespace vgpu::test
