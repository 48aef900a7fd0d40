#include "actors/worker/execute/state_preparation.hpp"

#include "schema/base/cuda_fault.hpp"
#include "schema/base/jit_settings.hpp"
#include "schema/wire/call_codec.hpp"

#include <algorithm>
#include <string>
#include <type_traits>

namespace vgpu {

/// Counts the images as a restore does, in a copy of the session's book.
status state_preparation::check_size() const {
  auto book = session_.image_sizes;
  for (auto& x : from_.index().images)
    if (!book.restore(x.digest, x.bytes))
      return cuda_fault(CUDA_ERROR_OUT_OF_MEMORY,
                        "the images of a state take too much memory");
  return {};
}

result<std::vector<std::byte>> state_preparation::image(const state_image& x) {
  std::vector<std::byte> out(x.bytes);
  for (auto& part : x.chunks)
    if (auto ok =
            from_.read(part, std::span{out}.subspan(part.address, part.bytes));
        !ok)
      return ok.why();
  return out;
}

status state_preparation::module(const call::module_load& x,
                                 std::size_t device) {
  if (device >= session_.devices.size())
    return cuda_fault(CUDA_ERROR_INVALID_DEVICE,
                      "a module of a device that is not there");
  auto* unit = session_.devices[device].can.preparation;
  if (unit == nullptr)
    return {};
  auto& images = from_.index().images;
  auto found = std::ranges::find(images, x.image, &state_image::digest);
  if (found == images.end())
    return cuda_fault(CUDA_ERROR_INVALID_IMAGE,
                      "a module whose image is not in the state");
  auto how = decode_jit_settings(x.bytes);
  if (!how)
    return how.why();
  auto bytes = image(*found);
  return bytes ? unit->prepare_module(*bytes, *how) : bytes.why();
}

status state_preparation::run() {
  if (auto ok = check_size(); !ok)
    return ok;
  for (auto& [number, words] : from_.index().living) {
    status ok;
    auto look = [&]<class Call>(const Call& x, std::uint8_t device) {
      if constexpr (std::is_same_v<Call, call::module_load>)
        ok = module(x, device);
    };
    if (stop_.load())
      return fault{fault_kind::not_ready, "its orders came before the end"};
    if (auto decoded = call::decode(words, look); !decoded)
      return decoded;
    if (!ok)
      return ok;
  }
  return {};
}

bool can_prepare(const session_objects& session) {
  return std::ranges::any_of(session.devices, [](auto& slot) {
    return slot.can.preparation != nullptr;
  });
}

device::preparation_unit::counts forget_prepared(session_objects& session) {
  device::preparation_unit::counts out;
  for (auto& slot : session.devices)
    if (slot.can.preparation != nullptr) {
      auto of_one = slot.can.preparation->forget_prepared();
      out.prepared += of_one.prepared;
      out.used += of_one.used;
    }
  return out;
}

} // namespace vgpu
