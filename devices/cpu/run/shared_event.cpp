#include "devices/cpu/run/shared_event.hpp"

#include "schema/base/cuda_fault.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

namespace vgpu::device::cpu {

namespace {

constexpr std::uint64_t event_bytes = 4096;

} // namespace

/// Maps the page. A zeroed page is an event that was never recorded.
result<std::shared_ptr<shared_event>>
shared_event::map(shared_descriptor file) {
  static_assert(sizeof(page) <= event_bytes);
  auto* at = ::mmap(nullptr, event_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                    file->get(), 0);
  if (at == MAP_FAILED)
    return cuda_fault(CUDA_ERROR_OPERATING_SYSTEM,
                      std::string{"cannot map a shared event: "} +
                          std::strerror(errno));
  auto out = std::make_shared<shared_event>();
  out->memory_ = mapping{at, event_bytes};
  out->file_ = std::move(file);
  return out;
}

result<std::shared_ptr<shared_event>> shared_event::create() {
  auto file = make_sealed_memory("vgpu shared event", event_bytes);
  if (!file)
    return file.why();
  return map(std::make_shared<unique_fd>(std::move(*file)));
}

result<std::shared_ptr<shared_event>>
shared_event::open(const shared_object& from) {
  auto none = cuda_fault(
      CUDA_ERROR_INVALID_VALUE,
      "the shared object of the other process is not an event of this device");
  if (from.descriptors.size() != 1 || !from.words.empty())
    return none;
  auto size = sealed_size(from.descriptors.front()->get());
  if (!size || *size != event_bytes)
    return none;
  return map(from.descriptors.front());
}

std::uint64_t shared_event::begin_record() noexcept {
  // Records that begin at the same time get a number and a place each.
  auto& last = at().recorded;
  auto record = last.load();
  do
    at().all[(record + 1) % places].recorder.store(::getpid());
  while (!last.compare_exchange_weak(record, record + 1));
  return record + 1;
}

void shared_event::reach(std::uint64_t record) noexcept {
  auto& done = at().all[record % places].done;
  for (auto now = done.load(); now < record;)
    if (done.compare_exchange_weak(now, record))
      break;
}

std::uint64_t shared_event::recorded() const noexcept {
  return at().recorded.load();
}

bool shared_event::reached(std::uint64_t record) const noexcept {
  auto& of = at().all[record % places];
  if (record == 0 || of.done.load() >= record || recorded() - record >= places)
    return true;
  auto recorder = of.recorder.load();
  return recorder != ::getpid() && ::kill(recorder, 0) != 0 && errno == ESRCH;
}

} // namespace vgpu::device::cpu
