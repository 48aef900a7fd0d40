#include "actors/worker/session/answers.hpp"

namespace vgpu {

bool mapped_answers::wanted(const waiter& who) const {
  return who.slot != 0 && area_->waits(who.slot, who.call);
}

void mapped_answers::answer(const waiter& who, CUresult result,
                            std::uint64_t value) {
  if (!wanted(who))
    return;
  area_->answer(who.slot, who.call, result, value);
  if (count_.fetch_add(1) == 0)
    first_();
}

result<landing> mapped_answers::land(call::arena_range range,
                                     std::uint64_t bytes) {
  auto arena = area_->arena();
  if (bytes > range.bytes || range.offset > arena.size() ||
      range.bytes > arena.size() - range.offset)
    return cuda_fault(
        CUDA_ERROR_INVALID_VALUE,
        "an answer does not fit the place that the program named");
  return landing{arena.subspan(range.offset, bytes), nullptr};
}

bool mapped_answers::keeps_digests() const {
  return area_->is_journalled();
}

void mapped_answers::deliver(const waiter& who, CUresult result,
                             std::uint64_t value, const landing& what,
                             std::uint64_t, std::uint32_t digest) {
  area_->note_result(who.call, digest, what.bytes);
  answer(who, result, value);
}

landing mapped_answers::land_host(device_address address, std::uint64_t bytes) {
  return {{reinterpret_cast<std::byte*>(address), bytes}, nullptr};
}

void mapped_answers::deliver_host(const waiter& who, CUresult result,
                                  device_address, const landing& what,
                                  std::uint32_t digest) {
  area_->note_result(who.call, digest, what.bytes);
  answer(who, result, 0);
}

void mapped_answers::call_host(const waiter& who) {
  area_->call_host(who.slot, who.call);
}

void mapped_answers::print(console where, std::uint64_t position,
                           std::string_view text) {
  area_->print(where, position, text);
}

void mapped_answers::sticky(CUresult error) {
  area_->header().sticky_error.store(static_cast<std::uint32_t>(error),
                                     std::memory_order_release);
}

} // namespace vgpu
