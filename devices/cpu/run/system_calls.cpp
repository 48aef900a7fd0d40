#include "devices/cpu/lower/system_calls.hpp"

#include "devices/cpu/memory/device_heap.hpp"
#include "devices/cpu/run/block.hpp"
#include "devices/cpu/run/printf_format.hpp"
#include "schema/base/condition_handles.hpp"

#include <bit>
#include <cstring>

namespace vgpu::device::cpu {

namespace {

constexpr std::size_t max_text = 64 << 10;

/// One lane's view of memory and of the parameters of its call.
class caller {
public:
  caller(warp& w, unsigned lane, const call_site& site)
      : w_{w}, lane_{lane}, site_{site} {}

  template <class T>
  T argument(std::size_t i) const {
    auto& p = site_.arguments[i];
    auto out = T{};
    auto from = w_.in_frame()->params + p.offset + lane_ * p.bytes;
    std::memcpy(&out, from, std::min<std::size_t>(sizeof(T), p.bytes));
    return out;
  }

  template <class T>
  void result(T x) const {
    if (site_.results.empty())
      return;
    auto& p = site_.results[0];
    std::memcpy(w_.in_frame()->params + p.offset + lane_ * p.bytes, &x,
                std::min<std::size_t>(sizeof x, p.bytes));
  }

  std::string text(std::uint64_t address) const {
    auto out = std::string{};
    if (address == 0)
      return "(null)";
    while (out.size() < max_text) {
      auto p = w_.blk.resolve(w_, lane_, address + out.size(), 1);
      if (p == nullptr || *p == std::byte{0})
        break;
      out += static_cast<char>(*p);
    }
    return out;
  }

  /// Returns the longest readable range from an address on, up to a limit.
  std::span<const std::byte> bytes(std::uint64_t address) const {
    for (auto size = std::size_t{4096}; size >= 4; size -= 4)
      if (auto p = w_.blk.resolve(w_, lane_, address, size))
        return {p, size};
    return {};
  }

private:
  warp& w_;
  unsigned lane_;
  const call_site& site_;
};

void print(warp& w, console where, std::string_view text) {
  if (w.blk.in.print)
    w.blk.in.print(where, text);
}

void run_vprintf(warp& w, unsigned lane, const call_site& site) {
  auto from = caller{w, lane, site};
  auto format = from.text(from.argument<std::uint64_t>(0));
  auto address = from.argument<std::uint64_t>(1);
  auto arguments =
      address != 0 ? from.bytes(address) : std::span<const std::byte>{};
  auto read = [&](std::uint64_t x) { return from.text(x); };
  auto text = format_printf(format, arguments, read);
  if (text)
    print(w, console::output, *text);
  from.result(text ? 1 : -1);
}

void run_malloc(warp& w, unsigned lane, const call_site& site) {
  auto from = caller{w, lane, site};
  auto heap = w.blk.in.heap;
  auto bytes = from.argument<std::uint64_t>(0);
  from.result(heap != nullptr ? heap->allocate(bytes) : 0);
}

/// Frees a block. Returns false when there is no such block.
bool run_free(warp& w, unsigned lane, const call_site& site) {
  auto address = caller{w, lane, site}.argument<std::uint64_t>(0);
  auto heap = w.blk.in.heap;
  return address == 0 || (heap != nullptr && heap->release(address));
}

/// Sets a condition. Returns false where the handle names no word.
bool run_set_condition(warp& w, unsigned lane, const call_site& site) {
  auto from = caller{w, lane, site};
  auto value = from.argument<std::uint32_t>(1);
  auto& words = w.blk.in.conditions;
  auto offset = condition_word(from.argument<std::uint64_t>(0)) - words.place;
  auto at = words.address + offset;
  if (words.place == 0 || offset >= condition_bytes ||
      !w.blk.in.memory->usable(at, sizeof(value)))
    return false;
  __atomic_store_n(reinterpret_cast<std::uint32_t*>(at), value,
                   __ATOMIC_RELEASE);
  return true;
}

std::string triple(std::uint32_t x, std::uint32_t y, std::uint32_t z) {
  return "[" + std::to_string(x) + "," + std::to_string(y) + "," +
         std::to_string(z) + "]";
}

void run_assert(warp& w, unsigned lane, const call_site& site) {
  auto from = caller{w, lane, site};
  auto& b = w.blk.index;
  print(w, console::error,
        from.text(from.argument<std::uint64_t>(1)) + ":" +
            std::to_string(from.argument<std::uint32_t>(2)) + ": " +
            from.text(from.argument<std::uint64_t>(3)) +
            ": block: " + triple(b.x, b.y, b.z) + ", thread: " +
            triple(w.tid[0][lane], w.tid[1][lane], w.tid[2][lane]) +
            " Assertion `" + from.text(from.argument<std::uint64_t>(0)) +
            "` failed.\n");
}

} // namespace

system_call find_system_call(std::string_view name) {
  if (name == "vprintf")
    return system_call::vprintf;
  if (name == "malloc")
    return system_call::malloc;
  if (name == "free")
    return system_call::free;
  if (name == "__assertfail")
    return system_call::assert_fail;
  if (name == "cudaGraphSetConditional")
    return system_call::set_condition;
  return system_call::none;
}

const instr* system_call_of(warp& w, const instr* in) {
  auto& site = w.blk.in.of->calls[in->extra];
  for (auto m = w.mask; m != 0; m &= m - 1) {
    auto lane = static_cast<unsigned>(std::countr_zero(m));
    switch (site.system) {
    case system_call::vprintf:
      run_vprintf(w, lane, site);
      break;
    case system_call::malloc:
      run_malloc(w, lane, site);
      break;
    case system_call::free:
      if (!run_free(w, lane, site))
        return w.fail(CUDA_ERROR_ILLEGAL_ADDRESS, in,
                      "free() of a pointer that malloc() did not return");
      break;
    case system_call::set_condition:
      if (!run_set_condition(w, lane, site))
        return w.fail(CUDA_ERROR_ILLEGAL_ADDRESS, in,
                      "a condition is set through an invalid handle");
      break;
    default:
      run_assert(w, lane, site);
      break;
    }
  }
  if (site.system == system_call::assert_fail)
    return w.fail(CUDA_ERROR_ASSERT, in, "an assertion failed");
  return in + 1;
}

} // namespace vgpu::device::cpu
