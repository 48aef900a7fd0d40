// Calls for images, modules and kernels.
#include "actors/worker/execute/call_dispatch.hpp"

#include "actors/link/log.hpp"
#include "actors/worker/execute/module_facts_message.hpp"

#include <xxhash.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace vgpu {

namespace {

/// Answers with a text, cut to the room that the program gave. No replay
/// compares it.
status answer_text(dispatch_context& on, CUresult result,
                   const std::string& text, call::arena_range where) {
  auto words = std::as_bytes(std::span{text});
  words = words.first(std::min<std::uint64_t>(words.size(), where.bytes));
  auto place = on.session.sink->land(where, words.size());
  if (!place)
    return place.why();
  std::copy(words.begin(), words.end(), place->bytes.begin());
  on.session.sink->deliver(on.who(), result, words.size(), *place, where.offset,
                           0);
  return {};
}

/// Refuses code. The device's error text replaces the answer. In a replay, a
/// module that the program has must not be missing.
status refuse_code(dispatch_context& on, const fault& why,
                   call::arena_range where) {
  on.refused = true;
  if (on.is_answered() && on.what.digest != 0 &&
      !session_health::is_loss(cuda_code(why)))
    return on.unlike("a module cannot be loaded again: " + why.what);
  spdlog::warn("code is refused: {}", why.what);
  if (session_health::is_loss(cuda_code(why)) || on.is_answered())
    return why;
  return answer_text(on, cuda_code(why), why.what, where) ? status{} : why;
}

/// Returns the digest of what a program and its memory may hold of a module:
/// the variables' addresses, and the kernels' indices. Kernels' registers and
/// the like may be others elsewhere.
std::uint32_t digest_of_places(const module_state& module) {
  std::string all = std::to_string(module.kernels);
  for (auto& x : module.globals)
    all += ' ' + x.name + ' ' + std::to_string(x.address) + ' ' +
           std::to_string(x.bytes) + (x.managed ? " m" : "");
  return fold_digest(row_hash(std::as_bytes(std::span{all})));
}

/// Answers with a module's facts and the compiler's log behind them, where the
/// program gave enough room for both. The digest is of what the program has
/// from then on and kernels find by address: another worker that loads the
/// module must have the same.
status answer_facts(dispatch_context& on, module_id id, call::arena_range where,
                    std::string_view log = {}) {
  auto& module = on.state().module(id);
  auto places = digest_of_places(module);
  if (on.is_answered())
    return on.what.digest == 0 || on.what.digest == places
               ? status{}
               : on.unlike("the variables of module " +
                           std::to_string(id.value) +
                           " lie elsewhere, or are others");
  auto bytes = std::as_bytes(std::span{module.facts});
  auto size = bytes.size() + log.size();
  if (size > where.bytes) {
    on.answer(size);
    return {};
  }
  auto place = on.session.sink->land(where, size);
  if (!place)
    return place.why();
  auto end = std::ranges::copy(bytes, place->bytes.begin()).out;
  std::ranges::copy(std::as_bytes(std::span{log}), end);
  on.session.sink->deliver(on.who(), CUDA_SUCCESS, size, *place, where.offset,
                           on.session.sink->keeps_digests() ? places : 0);
  return {};
}

/// Finds an image that the program sent.
result<std::span<const std::byte>> find_image(const dispatch_context& on,
                                              const call::digest& name) {
  auto image = on.session.images.find(name);
  if (image == on.session.images.end())
    return on.session.image_sizes.was_refused(name)
               ? cuda_fault(CUDA_ERROR_OUT_OF_MEMORY,
                            "the images of this session take more memory of "
                            "its worker's host than docs/limits.md allows")
               : cuda_fault(CUDA_ERROR_INVALID_IMAGE,
                            "an image was not sent before its use");
  return std::span<const std::byte>{image->second};
}

} // namespace

status execute_call(dispatch_context& on, const call::image_part& x) {
  constexpr std::uint64_t largest_image = std::uint64_t{4} << 30;
  auto size = on.what.payload.size();
  if (x.total > largest_image || x.offset > x.total ||
      size > x.total - x.offset)
    return cuda_fault(CUDA_ERROR_INVALID_IMAGE,
                      "a part lies outside its image");
  // The program learns of it when it loads the image.
  if (!on.session.image_sizes.admit(x.image, x.total))
    return {};
  auto& image = on.session.images[x.image];
  if (x.offset == 0)
    image.clear();
  if (x.offset != image.size())
    return cuda_fault(CUDA_ERROR_INVALID_IMAGE,
                      "parts of an image are missing");
  image.insert(image.end(), on.what.payload.begin(), on.what.payload.end());
  if (image.size() != x.total)
    return {};
  auto digest = XXH3_128bits(image.data(), image.size());
  if (call::digest{digest.low64, digest.high64} == x.image)
    return {};
  on.session.images.erase(x.image);
  on.session.image_sizes.forget(x.image);
  return cuda_fault(CUDA_ERROR_INVALID_IMAGE,
                    "an image's bytes do not match its digest");
}

status execute_call(dispatch_context& on, const call::module_load& x) {
  auto image = find_image(on, x.image);
  if (!image)
    return image.why();
  auto how = decode_jit_settings(x.bytes);
  if (!how)
    return refuse_code(on, how.why(), x.facts);
  auto loaded = on.device().load_module(x.module.id, *image, *how);
  if (!loaded)
    return refuse_code(on, loaded.why(), x.facts);
  if (auto ok = on.state().audit_variables(loaded->globals); !ok) {
    (void)on.device().unload_module(x.module.id);
    return refuse_code(on, ok.why(), x.facts);
  }
  on.slot.keep_for_good(loaded->globals);
  if (std::ranges::any_of(loaded->globals, [&](auto& global) {
        return !on.slot.in_window(global.address);
      }))
    on.session.driver_placed = on.what.call.value;
  on.session.account.measure_side_memory();
  on.session.image_sizes.loaded(on.slot.ordinal, x.module.id, x.image);
  on.state().add(x.module.id, {.kernels = loaded->kernels.size(),
                               .facts = encode_facts(*loaded),
                               .globals = loaded->globals,
                               .hidden_heap = loaded->hidden_heap});
  return answer_facts(on, x.module.id, x.facts, loaded->log);
}

status execute_call(dispatch_context& on, const call::part_check& x) {
  // The outcome is the program's alone.
  if (on.is_answered())
    return {};
  auto image = find_image(on, x.image);
  if (!image)
    return image.why();
  auto how = decode_jit_settings(x.bytes);
  auto log = how ? on.device().check_part(*image, *how) : how.why();
  return log ? answer_text(on, CUDA_SUCCESS, *log, x.text)
             : refuse_code(on, log.why(), x.text);
}

status execute_call(dispatch_context& on, const call::module_facts& x) {
  return answer_facts(on, x.module.id, x.facts);
}

status execute_call(dispatch_context& on, const call::module_unload& x) {
  on.state().remove(x.module.id);
  on.session.image_sizes.unloaded(on.slot.ordinal, x.module.id);
  auto gone = on.device().unload_module(x.module.id);
  on.session.account.measure_side_memory();
  return gone;
}

status execute_call(dispatch_context& on, const call::kernel_attribute& x) {
  if (x.kernel >= on.state().module(x.module.id).kernels)
    return no_such_kernel(x.kernel);
  return on.device().set_kernel_attribute(x.module.id, x.kernel,
                                          static_cast<int>(x.attribute),
                                          static_cast<int>(x.value));
}

} // namespace vgpu
