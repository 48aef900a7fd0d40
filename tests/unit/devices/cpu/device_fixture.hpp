// A cpu device with a window of memory, driven as a worker drives it.
#pragma once

#include "devices/cpu/cpu_device.hpp"

#include <boost/test/unit_test.hpp>

#include <condition_variable>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace vgpu::test {

/// A completion whose result a test can wait for.
class outcome {
public:
  device::completion tell() {
    return [this](CUresult x) {
      auto lock = std::lock_guard{mutex_};
      value_ = x;
      told_ = true;
      ++times_;
      wake_.notify_all();
    };
  }
  CUresult wait() {
    auto lock = std::unique_lock{mutex_};
    wake_.wait(lock, [&] { return told_; });
    return value_;
  }
  bool told() {
    auto lock = std::lock_guard{mutex_};
    return told_;
  }
  int times() {
    auto lock = std::lock_guard{mutex_};
    return times_;
  }

private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool told_ = false;
  int times_ = 0;
  CUresult value_ = CUDA_SUCCESS;
};

inline std::vector<std::byte> read_file(const std::string& path) {
  auto in = std::ifstream{path, std::ios::binary};
  BOOST_REQUIRE_MESSAGE(in.good(), "cannot read " << path);
  auto text = std::string{std::istreambuf_iterator<char>{in}, {}};
  auto out = std::vector<std::byte>(text.size());
  std::memcpy(out.data(), text.data(), text.size());
  return out;
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span{text.data(), text.size()});
}

/// The parameter block of a launch, laid out as C lays out arguments.
class arguments {
public:
  template <class... Ts>
  explicit arguments(const Ts&... xs) {
    (add(xs), ...);
  }
  std::span<const std::byte> bytes() const { return data_; }

private:
  template <class T>
  void add(const T& x) {
    data_.resize((data_.size() + alignof(T) - 1) / alignof(T) * alignof(T));
    auto at = data_.size();
    data_.resize(at + sizeof(T));
    std::memcpy(data_.data() + at, &x, sizeof(T));
  }
  std::vector<std::byte> data_;
};

struct device_fixture {
  static constexpr device_address base = window_of(7);

  explicit device_fixture(std::uint64_t quota = std::uint64_t{1} << 30,
                          unsigned threads = 2) {
    dev = device::open_cpu_device({0, quota, threads}, quota);
    auto ok = dev->reserve_window(base);
    BOOST_REQUIRE_MESSAGE(ok.ok(), ok.why().what);
  }

  /// Returns memory of at least that size, in granules of its own.
  device_address memory(std::uint64_t bytes) {
    auto size = (bytes + granule_bytes - 1) / granule_bytes * granule_bytes;
    auto at = base + used;
    auto ok = dev->map(at, size);
    BOOST_REQUIRE_MESSAGE(ok.ok(), ok.why().what);
    used += size;
    return at;
  }

  template <class T>
  device_address upload(const std::vector<T>& x) {
    auto at = memory(x.size() * sizeof(T));
    auto copy = std::make_shared<std::vector<T>>(x);
    auto ok = dev->enqueue_write(legacy_stream, at,
                                 std::as_bytes(std::span{*copy}), copy);
    BOOST_REQUIRE(ok.ok());
    return at;
  }

  template <class T>
  std::vector<T> download(device_address from, std::size_t count) {
    auto out = std::vector<T>(count);
    auto done = outcome{};
    auto ok =
        dev->enqueue_read(legacy_stream, std::as_writable_bytes(std::span{out}),
                          from, done.tell());
    BOOST_REQUIRE_MESSAGE(ok.ok(), ok.why().what);
    last = done.wait();
    return out;
  }

  CUresult synchronize() {
    auto done = outcome{};
    dev->when_done(std::nullopt, done.tell());
    return done.wait();
  }

  device::module_info load(std::span<const std::byte> image) {
    module = module_id{++modules};
    auto got = dev->load_module(module, image);
    if (!got)
      BOOST_FAIL(got.why().what);
    info = *got;
    return info;
  }

  device::module_info load_ptx(std::string_view text) {
    return load(bytes_of(text));
  }

  std::uint32_t kernel(std::string_view name) const {
    for (auto i = 0u; i < info.kernels.size(); ++i)
      if (info.kernels[i].name.find(name) != std::string::npos)
        return i;
    BOOST_FAIL("no kernel " << name);
    return 0;
  }

  status launch(std::string_view name, device::dim3 grid, device::dim3 block,
                const arguments& args, std::uint32_t shared = 0,
                stream_id stream = legacy_stream) {
    auto x = device::launch{};
    x.module = module;
    x.kernel = kernel(name);
    x.grid = grid;
    x.block = block;
    x.cluster = {0, 0, 0};
    x.dynamic_shared = shared;
    x.parameters = args.bytes();
    return dev->enqueue_launch(stream, x);
  }

  /// Launches and waits.
  CUresult run(std::string_view name, device::dim3 grid, device::dim3 block,
               const arguments& args, std::uint32_t shared = 0) {
    auto ok = launch(name, grid, block, args, shared);
    BOOST_REQUIRE_MESSAGE(ok.ok(), ok.why().what);
    return synchronize();
  }

  std::unique_ptr<device::device> dev;
  std::uint64_t used = 0;
  std::uint64_t modules = 0;
  module_id module;
  device::module_info info;
  CUresult last = CUDA_SUCCESS;
};

} // namespace vgpu::test
