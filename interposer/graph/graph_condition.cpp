#include "interposer/graph/graph_condition.hpp"

#include "interposer/graph/graph_part.hpp"
#include "interposer/memory/copies.hpp"
#include "interposer/memory/virtual_memory.hpp"
#include "interposer/session/on_occasion.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"
#include "schema/base/condition_handles.hpp"

#include <mutex>
#include <utility>

namespace vgpu::interposer {

namespace {

constexpr std::uint64_t word_bytes = sizeof(std::uint32_t);
/// The worker uses the last words itself.
constexpr std::uint64_t usable_bytes = condition_bytes - 64;

word_store& words_of(std::uint8_t device) {
  return graph_part::get().words.at(device);
}

} // namespace

CUresult word_store::open(std::uint8_t device) {
  if (place != 0)
    return CUDA_SUCCESS;
  auto& all = virtual_memories();
  CUmemAllocationProp what{};
  what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  what.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  what.location.id = device;
  CUmemAccessDesc access{what.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUdeviceptr at = 0;
  auto code = all.create(device, condition_bytes, what, memory);
  if (code != CUDA_SUCCESS)
    return code;
  code = all.reserve(device, condition_bytes, 0, at);
  base = at;
  if (code == CUDA_SUCCESS)
    code = all.map(at, condition_bytes, 0, memory);
  if (code == CUDA_SUCCESS)
    code = all.set_access(at, condition_bytes, &access, 1);
  outcome got;
  if (code == CUDA_SUCCESS) {
    got = here().ask(call::condition_place{{memory_id{memory}}, at}, device);
    code = got.result;
  }
  if (code != CUDA_SUCCESS) {
    close();
    return code;
  }
  here().send(call::condition_words{{memory_id{memory}}, at, got.value},
              device);
  place = got.value;
  return CUDA_SUCCESS;
}

void word_store::close() {
  auto& all = virtual_memories();
  if (base != 0) {
    (void)all.unmap(base, condition_bytes);
    (void)all.free(base, condition_bytes);
  }
  (void)all.release(memory);
  base = place = memory = used = 0;
  given_back.clear();
}

device_address word_store::next(std::uint8_t device) {
  auto is_done = [&] {
    return !given_back.empty() &&
           given_back.front().position <= here().done_until(device);
  };
  if (!is_done() && used < usable_bytes)
    return base + std::exchange(used, used + word_bytes);
  if (!is_done())
    (void)on_occasion<occasion::room>(
        [&] { return here().synchronise(device); });
  if (!is_done())
    return 0;
  auto out = given_back.front().word;
  given_back.pop_front();
  return out;
}

namespace {

condition_table& known_conditions() noexcept {
  return graph_part::get().conditions;
}

} // namespace

// -- words
// -----------------------------------------------------------------------------

CUresult device_word::take(std::uint8_t device, device_word& out) {
  auto& store = words_of(device);
  std::lock_guard guard{store.mutex};
  auto code =
      on_occasion<occasion::first_use>([&] { return store.open(device); });
  if (code != CUDA_SUCCESS)
    return code;
  out.address_ = store.next(device);
  out.device_ = device;
  if (out.address_ == 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  ++store.taken;
  return CUDA_SUCCESS;
}

void device_word::give_up_memory(std::uint8_t device) {
  auto& store = words_of(device);
  std::lock_guard guard{store.mutex};
  if (store.place != 0 && store.taken == 0)
    store.close();
}

device_word::device_word(device_word&& other) noexcept
    : device_(other.device_), address_(std::exchange(other.address_, 0)) {}

device_word& device_word::operator=(device_word&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(address_, other.address_);
  return *this;
}

device_word::~device_word() {
  if (address_ == 0)
    return;
  auto& store = words_of(device_);
  std::lock_guard guard{store.mutex};
  --store.taken;
  store.given_back.push_back({address_, here().tail()});
}

CUgraphConditionalHandle device_word::handle() const noexcept {
  const auto& store = words_of(device_);
  return condition_handle(store.place + (address_ - store.base));
}

CUresult device_word::fill(stream& in, std::uint32_t value) const {
  return fill_bytes(in, flat(address_), value, word_bytes, {1, 1, 1});
}

// -- conditions
// -----------------------------------------------------------------------------

condition::condition(context& in, CUgraph of, settings what, device_word word)
    : graph(of), owner_(in), default_(what), word_(std::move(word)) {}

CUresult condition::make(context& in, CUgraph of, settings what,
                         std::shared_ptr<condition>& out) {
  device_word word;
  if (auto code = device_word::take(in.device_index(), word);
      code != CUDA_SUCCESS)
    return code;
  out = std::make_shared<condition>(in, of, what, std::move(word));
  auto& known = known_conditions();
  std::lock_guard guard{known.mutex};
  std::erase_if(known.all, [](auto& x) { return x.second.expired(); });
  known.all.insert_or_assign(out->handle(), out);
  return CUDA_SUCCESS;
}

CUresult condition::begin_launch(stream& in) const {
  if (default_.assigned)
    return word_.fill(in, default_.value);
  return launched_.exchange(true) ? CUDA_SUCCESS : word_.fill(in, 0);
}

std::shared_ptr<condition> find_condition(CUgraphConditionalHandle handle) {
  auto& known = known_conditions();
  std::lock_guard guard{known.mutex};
  auto found = known.all.find(handle);
  return found == known.all.end() ? nullptr : found->second.lock();
}

} // namespace vgpu::interposer
