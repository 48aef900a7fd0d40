#include "actors/worker/execute/state_objects.hpp"

#include "actors/worker/execute/memory_lending.hpp"
#include "schema/base/cuda_fault.hpp"
#include "schema/wire/call_codec.hpp"

#include <algorithm>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

namespace vgpu {

namespace {

/// Refuses a call that a state cannot have. A state consists of the calls that
/// living_calls keeps.
status check_kept(std::uint64_t number, std::span<const std::uint64_t> words) {
  auto kept = false;
  auto look = [&]<class Call>(const Call&, std::uint8_t) {
    kept = living_calls::keeps<Call>();
  };
  if (auto ok = call::decode(words, look); !ok)
    return ok;
  if (!kept)
    return contradiction("call " + std::to_string(number) +
                         " leaves nothing behind");
  return {};
}

} // namespace

fault contradiction(const std::string& what) {
  return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                    "a vGPU's state contradicts itself: " + what +
                        "; it cannot be used");
}

// -- images -------------------------------------------------------------------

status state_objects::images() {
  if (auto ok = check_devices(); !ok)
    return ok;
  for (auto& x : index().images) {
    auto known = session_.images.find(x.digest);
    if (known != session_.images.end()) {
      if (known->second.size() == x.bytes)
        continue;
      // The program had sent a part of it.
      session_.image_sizes.forget(x.digest);
    }
    if (!session_.image_sizes.restore(x.digest, x.bytes))
      return cuda_fault(CUDA_ERROR_OUT_OF_MEMORY,
                        "the images of a state take too much memory");
    std::vector<std::byte> bytes(x.bytes);
    for (auto& part : x.chunks)
      if (auto ok = from_.read(
              part, std::span{bytes}.subspan(part.address, part.bytes));
          !ok)
        return ok;
    // The last parts may still come. Then the digest is checked.
    session_.images.insert_or_assign(x.digest, std::move(bytes));
  }
  return {};
}

status state_objects::check_devices() const {
  if (index().devices == session_.devices.size())
    return {};
  return cuda_fault(CUDA_ERROR_INVALID_DEVICE,
                    "a vGPU's state is of " + std::to_string(index().devices) +
                        " devices, and here are " +
                        std::to_string(session_.devices.size()));
}

// -- objects ------------------------------------------------------------------

/// The program chose the addresses of its memory; only the other objects decide
/// where a driver puts variables.
state_objects::stage
state_objects::stage_of(std::span<const std::uint64_t> words) {
  auto out = stage::ahead;
  (void)call::decode(words, [&]<class Call>(const Call&, std::uint8_t) {
    using call::number;
    if (Call::id == number::mem_alloc || Call::id == number::host_alloc ||
        Call::id == number::memory_create || Call::id == number::memory_map ||
        Call::id == number::memory_access || Call::id == number::host_map ||
        Call::id == number::condition_words ||
        Call::id == number::texture_create || Call::id == number::texture_known)
      out = stage::with_memory;
    else if (Call::id == number::zero_copy ||
             Call::id == number::stream_window || Call::id == number::time_work)
      out = stage::without_memory;
  });
  return out;
}

status state_objects::make(stage last, const std::atomic<bool>* stop) {
  auto& made = session_.living.calls();
  for (auto& [number, words] : index().living) {
    if (auto ok = check_kept(number, words); !ok)
      return ok;
    auto when = stage_of(words);
    if (when > last)
      continue;
    auto known = made.find(number);
    counted_.all += when == stage::ahead;
    counted_.made_ahead += when == stage::ahead && known != made.end();
    if (known != made.end()) {
      if (known->second != words)
        return contradiction("call " + std::to_string(number) +
                             " is another one than before");
      continue;
    }
    if (stop != nullptr && stop->load())
      return fault{fault_kind::not_ready, "its orders came before the end"};
    record what{.call = {number},
                .end = number,
                .slot = 0,
                .message = words,
                .payload = {}};
    if (auto ok = perform_(what); !ok)
      return ok.why().reworded("call " + std::to_string(number) +
                               " cannot be repeated here: " + ok.why().what);
  }
  return {};
}

status state_objects::make_ahead(const std::atomic<bool>& stop) {
  return make(stage::ahead, &stop);
}

status state_objects::make_all() {
  if (auto ok = end_others(); !ok)
    return ok;
  if (auto ok = make(stage::with_memory, nullptr); !ok)
    return ok;
  // A setting that was made ahead of an older state would still hold.
  if (session_.living.calls().size() > index().living.size())
    return contradiction("it is older than the objects that were made ahead");
  return {};
}

// -- objects that the session has ended meanwhile -----------------------------

status state_objects::end_others() {
  auto made = session_.living.calls(); // it changes
  if (made.empty())
    return {};
  std::set<std::uint64_t> living;
  for (auto& [number, words] : index().living)
    living.insert(number);
  for (auto& [number, words] : made)
    if (!living.contains(number))
      if (auto ok = end(number, words); !ok)
        return ok;
  return {};
}

/// Ends the object that a call has made. A setting ends with its object, or is
/// replaced. Unloaded modules are in a state, too.
status state_objects::end(std::uint64_t number,
                          std::span<const std::uint64_t> words) {
  auto ok = status{};
  auto look = [&]<class Call>(const Call& x, std::uint8_t device) {
    if constexpr (std::is_same_v<Call, call::stream_create>)
      ok = end_by(call::stream_destroy{{x.stream.id}}, device, number);
    else if constexpr (std::is_same_v<Call, call::event_create>)
      ok = end_by(call::event_destroy{{x.event.id}}, device, number);
    else if constexpr (std::is_same_v<Call, call::array_create>)
      ok = end_by(call::array_destroy{{x.array.id}}, device, number);
    else if constexpr (Call::lasting == call::lasts::begins)
      ok = contradiction("it is older than the object of call " +
                         std::to_string(number) + ", which was made ahead");
  };
  auto decoded = call::decode(words, look);
  return decoded ? ok : decoded;
}

template <class Call>
status state_objects::end_by(const Call& x, std::uint8_t device,
                             std::uint64_t number) {
  std::vector<std::uint64_t> message(call::message_words(x));
  call::encode(x, device, message);
  return perform_({.call = {number},
                   .end = number,
                   .slot = 0,
                   .message = message,
                   .payload = {}});
}

// -- variables ----------------------------------------------------------------

status state_objects::compare_variables() const {
  for (auto& x : index().globals)
    if (auto ok = compare(x); !ok)
      return ok;
  return {};
}

status state_objects::compare(const state_global& x) const {
  if (x.device >= session_.devices.size() ||
      !session_.devices[x.device].state.audit(call::live<module_id>{x.module}))
    return contradiction("a variable of a module that is not there");
  auto& there = session_.devices[x.device].state.module(x.module).globals;
  auto found = std::find_if(there.begin(), there.end(),
                            [&](auto& y) { return y.name == x.name; });
  if (found == there.end() || found->bytes != x.bytes)
    return cuda_fault(CUDA_ERROR_NOT_SUPPORTED,
                      "variable " + x.name + " of the program has " +
                          std::to_string(x.bytes) +
                          " bytes, and is missing or has another size here");
  if (found->address != x.address)
    return cuda_fault(CUDA_ERROR_NOT_SUPPORTED,
                      "variable " + x.name + " of the program lies at " +
                          hex_of(x.address) + ", and this device puts it at " +
                          hex_of(found->address));
  return {};
}

} // namespace vgpu
