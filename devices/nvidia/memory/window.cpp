#include "devices/nvidia/memory/window.hpp"

#include "devices/nvidia/memory/exported_memory.hpp"
#include "schema/base/cuda_fault.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>

namespace vgpu::device::nvidia {

namespace {

std::string hex(std::uint64_t x) {
  char out[32];
  std::snprintf(out, sizeof out, "0x%llx", static_cast<unsigned long long>(x));
  return out;
}

} // namespace

window::window(driver_ptr api, CUdevice device,
               const std::vector<CUdevice>& reached_by)
    : api_(std::move(api)), properties_(exportable_memory(*api_, device)) {
  access_.push_back({properties_.location, {}});
  for (auto other : reached_by)
    access_.push_back({{CU_MEM_LOCATION_TYPE_DEVICE, {other}}, {}});
}

status window::set_access(device_address address, std::uint64_t bytes,
                          CUmemAccess_flags flags) {
  auto wanted = access_;
  for (auto& x : wanted)
    x.flags = flags;
  auto code =
      api_->cuMemSetAccess(address, bytes, wanted.data(), wanted.size());
  if (code == CUDA_SUCCESS)
    return {};
  return api_->failed(code, "cannot give access to memory at " + hex(address));
}

status window::reserve(device_address base) {
  CUdeviceptr got = 0;
  if (auto code =
          api_->cuMemAddressReserve(&got, window_bytes, granule_bytes, base, 0);
      code != CUDA_SUCCESS)
    return api_->failed(code, "cannot reserve the window at " + hex(base));
  if (got != base) {
    (void)api_->cuMemAddressFree(got, window_bytes);
    return cuda_fault(CUDA_ERROR_OPERATING_SYSTEM,
                      "the addresses of the window at " + hex(base) +
                          " are taken on this device");
  }
  base_ = base;
  return {};
}

status window::check_range(const char* what, device_address address,
                           std::uint64_t bytes) const {
  if (holds(address) && bytes != 0 && address % granule_bytes == 0 &&
      bytes % granule_bytes == 0 && bytes <= window_bytes - (address - base_))
    return {};
  return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                    std::string{what} + ": " + hex(address) + " and its " +
                        hex(bytes) +
                        " bytes are not whole granules of the window");
}

window::block_map::iterator window::find(device_address address) {
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin())
    return blocks_.end();
  auto i = std::prev(next);
  return address - i->first < i->second.bytes ? i : blocks_.end();
}

window::granule& window::granule_at(block_map::iterator of,
                                    device_address address) {
  return of->second.granules[(address - of->first) / granule_bytes];
}

bool window::idle(const block& x) {
  return std::none_of(x.granules.begin(), x.granules.end(),
                      [](auto& g) { return g.used || g.leaving != 0; });
}

status window::map(device_address address, std::uint64_t bytes) {
  if (auto ok = check_range("map", address, bytes); !ok)
    return ok;
  std::lock_guard guard{mutex_};
  auto end = address + bytes;
  for (auto at = address; at != end; at += granule_bytes)
    if (auto i = find(at); i != blocks_.end() && granule_at(i, at).used)
      return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                        "map: " + hex(at) + " is mapped already");
  // Existing memory is claimed first, so that create() does not drop it to make
  // room.
  claim(address, end);
  for (auto at = address; at != end;) {
    if (auto i = find(at); i != blocks_.end()) {
      at = std::min(end, i->first + i->second.bytes);
      continue;
    }
    auto next = blocks_.lower_bound(at);
    auto stop = next == blocks_.end() ? end : std::min(end, next->first);
    if (auto ok = create(at, stop - at); !ok) {
      unclaim(address, end);
      return ok;
    }
    claim(at, stop);
    at = stop;
  }
  return {};
}

void window::claim(device_address address, device_address end) {
  for (auto at = address; at != end; at += granule_bytes) {
    auto i = find(at);
    if (i == blocks_.end())
      continue;
    if (auto kept = std::find(idle_.begin(), idle_.end(), i->first);
        kept != idle_.end()) {
      idle_.erase(kept);
      idle_bytes_ -= i->second.bytes;
    }
    granule_at(i, at).used = true;
  }
}

void window::unclaim(device_address address, device_address end) {
  for (auto at = address; at != end; at += granule_bytes)
    if (auto i = find(at); i != blocks_.end())
      granule_at(i, at).used = false;
  settle(address, end);
}

/// Keeps or drops the blocks of this range that nothing uses any more.
void window::settle(device_address address, device_address end) {
  for (auto at = address; at < end;) {
    auto i = find(at);
    if (i == blocks_.end()) {
      at += granule_bytes;
      continue;
    }
    at = i->first + i->second.bytes;
    if (!idle(i->second))
      continue;
    if (i->second.bytes > kept_bytes / 2 || i->second.shared) {
      drop(i);
      continue;
    }
    if (std::find(idle_.begin(), idle_.end(), i->first) != idle_.end())
      continue;
    idle_.push_back(i->first);
    idle_bytes_ += i->second.bytes;
  }
  drop_idle(kept_bytes);
}

/// Creates memory for a range. The last granule is a block of its own, because
/// it may also hold the next allocation and then outlive the rest.
status window::create(device_address address, std::uint64_t bytes) {
  auto first = bytes > granule_bytes ? bytes - granule_bytes : bytes;
  if (auto ok = create_block(address, first); !ok)
    return ok;
  if (first != bytes)
    if (auto ok = create_block(address + first, granule_bytes); !ok) {
      drop(find(address));
      return ok;
    }
  auto ok = set_access(address, bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  if (ok)
    return ok;
  if (first != bytes)
    drop(find(address + first));
  drop(find(address));
  return ok;
}

status window::create_block(device_address address, std::uint64_t bytes) {
  block fresh{bytes, 0, std::vector<granule>(bytes / granule_bytes), false};
  auto code = api_->cuMemCreate(&fresh.memory, bytes, &properties_, 0);
  if (code == CUDA_ERROR_OUT_OF_MEMORY && idle_bytes_ != 0) {
    drop_idle(0);
    code = api_->cuMemCreate(&fresh.memory, bytes, &properties_, 0);
  }
  if (code != CUDA_SUCCESS)
    return api_->failed(code, "cannot create " + std::to_string(bytes) +
                                  " bytes of device memory");
  code = api_->cuMemMap(address, bytes, 0, fresh.memory, 0);
  if (code != CUDA_SUCCESS) {
    (void)api_->cuMemRelease(fresh.memory);
    return api_->failed(code, "cannot map memory at " + hex(address));
  }
  backed_ += bytes;
  blocks_.emplace(address, std::move(fresh));
  return {};
}

status window::retire(device_address address, std::uint64_t bytes) {
  if (auto ok = check_range("unmap", address, bytes); !ok)
    return ok;
  std::lock_guard guard{mutex_};
  for (auto at = address; at != address + bytes; at += granule_bytes)
    if (auto i = find(at); i == blocks_.end() || !granule_at(i, at).used)
      return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                        "unmap: " + hex(at) + " is not mapped");
  for (auto at = address; at != address + bytes; at += granule_bytes) {
    auto& g = granule_at(find(at), at);
    g.used = false;
    ++g.leaving;
  }
  return {};
}

void window::release(device_address address, std::uint64_t bytes) {
  std::lock_guard guard{mutex_};
  auto end = address + bytes;
  for (auto at = address; at != end; at += granule_bytes)
    --granule_at(find(at), at).leaving;
  settle(address, end);
}

result<shared_granules> window::share(device_address address,
                                      std::uint64_t bytes) {
  if (!is_exportable(properties_))
    return not_exportable();
  std::lock_guard guard{mutex_};
  shared_granules out;
  auto& [what, lead, all] = out;
  for (auto at = address; at < address + bytes;) {
    auto i = find(at);
    if (i == blocks_.end() || !granule_at(i, at).used)
      return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                        "share: " + hex(at) + " is not mapped");
    if (what.words.size() == shared_object::most)
      return cuda_fault(CUDA_ERROR_OUT_OF_MEMORY,
                        "share: the memory at " + hex(address) +
                            " consists of too many allocations");
    auto file = export_memory(*api_, i->second.memory);
    if (!file)
      return file.why();
    if (what.words.empty())
      lead = address / granule_bytes * granule_bytes - i->first;
    i->second.shared = true;
    what.words.push_back(i->second.bytes);
    what.descriptors.push_back(std::move(*file));
    all += i->second.bytes;
    at = i->first + i->second.bytes;
  }
  return out;
}

status window::vacate(device_address address, std::uint64_t bytes) {
  std::lock_guard guard{mutex_};
  auto end = address + bytes;
  for (auto at = address; at < end;) {
    auto i = find(at);
    if (i == blocks_.end()) {
      at += granule_bytes;
      continue;
    }
    at = i->first + i->second.bytes;
    auto kept = std::find(idle_.begin(), idle_.end(), i->first);
    if (kept == idle_.end())
      return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                        "map: " + hex(i->first) + " is still in use");
    idle_.erase(kept);
    idle_bytes_ -= i->second.bytes;
    drop(i);
  }
  return {};
}

std::vector<device_address> window::used_granules() const {
  std::vector<device_address> out;
  for (auto& [address, x] : blocks_)
    for (std::size_t i = 0; i < x.granules.size(); ++i)
      if (x.granules[i].used)
        out.push_back(address + i * granule_bytes);
  return out;
}

status window::check_used(device_address at) const {
  auto next = blocks_.upper_bound(at);
  if (next != blocks_.begin()) {
    auto& [address, x] = *std::prev(next);
    if (at - address < x.bytes &&
        x.granules[(at - address) / granule_bytes].used)
      return {};
  }
  return cuda_fault(CUDA_ERROR_INVALID_VALUE, hex(at) + " is not mapped");
}

bool window::spare() {
  std::lock_guard guard{mutex_};
  auto any = idle_bytes_ != 0;
  drop_idle(0);
  return any;
}

void window::drop_idle(std::uint64_t down_to) {
  while (idle_bytes_ > down_to) {
    auto i = blocks_.find(idle_.front());
    idle_.pop_front();
    idle_bytes_ -= i->second.bytes;
    drop(i);
  }
}

void window::drop(block_map::iterator which) {
  auto& [address, x] = *which;
  (void)api_->cuMemUnmap(address, x.bytes);
  (void)api_->cuMemRelease(x.memory);
  backed_ -= x.bytes;
  blocks_.erase(which);
}

std::uint64_t window::backed_bytes() const {
  std::lock_guard guard{mutex_};
  return backed_;
}

} // namespace vgpu::device::nvidia
