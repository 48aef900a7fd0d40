// Calls that make, end and describe memory: allocations, arrays, textures.
#include "actors/worker/execute/call_dispatch.hpp"

#include "schema/base/round_up.hpp"

#include <spdlog/spdlog.h>

#include <chrono>
#include <condition_variable>

namespace vgpu {

status call_dispatch::operator()(const call::mem_alloc& x) {
  if (auto ok = state().audit_alloc(x.address, x.bytes); !ok)
    return ok;
  if (auto ok = map_memory(x.address, x.bytes); !ok)
    return ok;
  self.used_ += x.bytes;
  return {};
}

status call_dispatch::map_memory(device_address address, std::uint64_t bytes) {
  for (auto& run : state().allocate(address, bytes)) {
    auto ok = dev().map(run.address, run.bytes);
    if (ok.code() == CUDA_ERROR_OUT_OF_MEMORY && wait_for_device())
      ok = dev().map(run.address, run.bytes);
    if (!ok)
      return ok;
  }
  return {};
}

status call_dispatch::unmap_memory(device_address address,
                                   std::uint64_t bytes) {
  for (auto& run : state().release(address, bytes))
    if (auto ok = dev().unmap(run.address, run.bytes); !ok)
      return ok;
  return {};
}

bool call_dispatch::wait_for_device() {
  struct gate {
    std::mutex lock;
    std::condition_variable changed;
    bool open = false;
  };
  auto done = std::make_shared<gate>();
  dev().when_done(std::nullopt, [done](CUresult) {
    std::lock_guard guard{done->lock};
    done->open = true;
    done->changed.notify_one();
  });
  std::unique_lock guard{done->lock};
  return done->changed.wait_for(guard, std::chrono::seconds{10},
                                [&] { return done->open; });
}

status call_dispatch::operator()(const call::mem_free& x) {
  if (auto ok = state().audit_free(x.address, x.bytes); !ok)
    return ok;
  // What is allocated next may lie at the same addresses: it must not be
  // touched before the work that used them is done, whatever its stream.
  order().after_all();
  if (self.broker_) [[unlikely]]
    self.broker_->withdraw({share_kind::memory, x.address});
  if (auto ok = unmap_memory(x.address, x.bytes); !ok)
    return ok;
  self.used_ -= x.bytes;
  count_left();
  return {};
}

status call_dispatch::operator()(const call::host_alloc& x) {
  if (!in_host(x.address, x.bytes))
    return fault{CUDA_ERROR_INVALID_VALUE,
                 "pinned memory does not lie in the host window"};
  return dev().attach_host(x.address, x.bytes);
}

status call_dispatch::operator()(const call::host_free& x) {
  if (!in_host(x.address, x.bytes))
    return fault{CUDA_ERROR_INVALID_VALUE,
                 "pinned memory does not lie in the host window"};
  if (self.zero_copy_)
    self.zero_copy_->forget(x.address);
  if (auto ok = dev().detach_host(x.address, x.bytes); !ok)
    return ok;
  return self.host_files_ ? self.host_files_->hide(x.address, x.bytes)
                          : status{};
}

status call_dispatch::operator()(const call::zero_copy& x) {
  if (x.bytes == 0 || x.address % changed_line::bytes != 0 ||
      !in_host(x.address, x.bytes) ||
      !in_host(x.address, round_up(x.bytes, changed_line::bytes)))
    return fault{CUDA_ERROR_INVALID_VALUE,
                 "host memory that kernels use in place does not lie in the "
                 "host window"};
  if (!self.zero_copy_)
    return {};
  return self.zero_copy_->watch(x.address, x.bytes, is_replayed());
}

/// Of a program on this host kernels see the memory itself. In a replay kernels
/// that came before have read it when the program wrote to it.
status call_dispatch::operator()(const call::zero_copy_write& x) {
  if (x.count != what.payload.size() / sizeof(changed_line))
    return fault{CUDA_ERROR_INVALID_VALUE,
                 "what the program wrote to host memory is not as long as it "
                 "says"};
  if (!self.zero_copy_)
    return {};
  if (is_replayed())
    if (auto ok = self.await_known(); !ok)
      return ok;
  return self.zero_copy_->write(lines_of(what.payload));
}

status call_dispatch::operator()(const call::host_file& x) {
  auto ok = self.host_files_
                ? self.host_files_->show(x)
                : status{fault{CUDA_ERROR_NOT_SUPPORTED,
                               "the program is on another host, or its calls "
                               "are forwarded"}};
  if (ok)
    ok = dev().attach_host(x.address, x.bytes);
  if (!ok) {
    spdlog::warn("a file that the program registered: {}", ok.why().what);
    if (self.host_files_)
      (void)self.host_files_->hide(x.address, x.bytes);
    return ok;
  }
  self.sink_->answer(who(), CUDA_SUCCESS, 0);
  return {};
}

status call_dispatch::operator()(const call::array_create& x) {
  if (unit() == nullptr)
    return no_unit();
  auto layout = layout_of(x.shape);
  if (!layout || layout->bytes != x.bytes)
    return fault{CUDA_ERROR_INVALID_VALUE,
                 "an array's size does not match its shape"};
  if (auto ok = state().audit_alloc(x.address, x.bytes); !ok)
    return ok;
  if (!unit()->arrays_in_memory())
    state().reserve(x.address, x.bytes);
  else if (auto ok = map_memory(x.address, x.bytes); !ok)
    return ok;
  state().add(x.array.id, {x.address, x.bytes, x.shape});
  self.used_ += x.bytes;
  auto ok = unit()->create_array(x.array.id, x.shape, x.address);
  if (ok.code() == CUDA_ERROR_OUT_OF_MEMORY && wait_for_device())
    ok = unit()->create_array(x.array.id, x.shape, x.address);
  return ok;
}

status call_dispatch::operator()(const call::array_destroy& x) {
  auto gone = state().arrays().at(x.array.id);
  order().after_all(); // as mem_free
  if (auto ok = unit()->destroy_array(x.array.id); !ok)
    return ok;
  state().remove(x.array.id);
  self.used_ -= gone.bytes;
  if (unit()->arrays_in_memory())
    return unmap_memory(gone.address, gone.bytes);
  state().unreserve(gone.address, gone.bytes);
  return {};
}

status call_dispatch::operator()(const call::texture_create& x) {
  if (auto ok = state().audit_texture(x.what); !ok)
    return ok;
  if (unit() == nullptr)
    return no_unit();
  auto value = unit()->create_texture(x.texture.id, x.what);
  if (!value)
    return value.why();
  state().add(x.texture.id, x.what);
  self.sink_->answer(who(), CUDA_SUCCESS, *value);
  return {};
}

status call_dispatch::operator()(const call::texture_known& x) {
  if (auto ok = unit()->name_texture(x.texture.id, x.value); !ok)
    return ok;
  state().know(x.texture.id, x.value);
  return {};
}

status call_dispatch::operator()(const call::texture_destroy& x) {
  state().remove(x.texture.id);
  return unit()->destroy_texture(x.texture.id);
}

} // namespace vgpu
