// Images, modules and what is launched from them.
#include "actors/worker/execute/call_dispatch.hpp"

#include "actors/worker/execute/module_facts_message.hpp"

#include <spdlog/spdlog.h>
#include <xxhash.h>

#include <algorithm>

namespace vgpu {

status call_dispatch::operator()(const call::image_part& x) {
  constexpr std::uint64_t largest_image = std::uint64_t{4} << 30;
  auto size = what.payload.size();
  if (x.total > largest_image || x.offset > x.total ||
      size > x.total - x.offset)
    return fault{CUDA_ERROR_INVALID_IMAGE, "a part lies outside its image"};
  auto& image = self.images_[x.image];
  if (x.offset == 0)
    image.clear();
  if (x.offset != image.size())
    return fault{CUDA_ERROR_INVALID_IMAGE, "parts of an image are missing"};
  image.insert(image.end(), what.payload.begin(), what.payload.end());
  if (image.size() != x.total)
    return {};
  auto digest = XXH3_128bits(image.data(), image.size());
  if (call::digest{digest.low64, digest.high64} == x.image)
    return {};
  self.images_.erase(x.image);
  return fault{CUDA_ERROR_INVALID_IMAGE,
               "an image's bytes do not match its digest"};
}

status call_dispatch::operator()(const call::module_load& x) {
  auto image = self.images_.find(x.image);
  if (image == self.images_.end())
    return fault{CUDA_ERROR_INVALID_IMAGE,
                 "a module's image was not sent before it"};
  auto loaded = dev().load_module(x.module.id, image->second);
  if (!loaded)
    return refuse_module(loaded.why(), x.facts);
  if (auto ok = state().audit_variables(loaded->globals); !ok) {
    (void)dev().unload_module(x.module.id);
    return refuse_module(ok.why(), x.facts);
  }
  for (auto& variable : loaded->globals)
    self.keep_for_good(ordinal, variable);
  self.note_places(ordinal, what.call, loaded->globals);
  self.look_beside();
  state().add(x.module.id, {.kernels = loaded->kernels.size(),
                            .facts = encode_facts(*loaded),
                            .globals = loaded->globals,
                            .hidden_heap = loaded->hidden_heap});
  return answer_facts(x.module.id, x.facts);
}

/// What the device says of the image lands where its facts would have.
status call_dispatch::refuse_module(const fault& why, call::arena_range where) {
  // The program is told a number only; what to change stands here.
  spdlog::warn("a module does not load: {}", why.what);
  if (executor::health::is_loss(why.code) || !self.sink_->wanted(who()))
    return why;
  auto words = std::as_bytes(std::span{why.what});
  words = words.first(std::min<std::uint64_t>(words.size(), where.bytes));
  auto place = self.sink_->land(where, words.size());
  if (!place)
    return why;
  std::copy(words.begin(), words.end(), place->bytes.begin());
  self.sink_->deliver(who(), why.code, words.size(), *place, where.offset, 0);
  return {};
}

status call_dispatch::operator()(const call::module_facts& x) {
  return answer_facts(x.module.id, x.facts);
}

status call_dispatch::answer_facts(module_id id, call::arena_range where) {
  auto& facts = state().module(id).facts;
  auto bytes = std::as_bytes(std::span{facts});
  if (!self.sink_->wanted(who())) {
    if (what.digest != 0)
      self.checks_->compare(what.call, what.digest,
                            fold_digest(row_hash(bytes)));
    return {};
  }
  if (bytes.size() > where.bytes) {
    self.sink_->answer(who(), CUDA_SUCCESS, bytes.size());
    return {};
  }
  auto place = self.sink_->land(where, bytes.size());
  if (!place)
    return place.why();
  std::copy(bytes.begin(), bytes.end(), place->bytes.begin());
  self.sink_->deliver(who(), CUDA_SUCCESS, bytes.size(), *place, where.offset,
                      digest_of(bytes));
  return {};
}

status call_dispatch::operator()(const call::module_unload& x) {
  state().remove(x.module.id);
  auto gone = dev().unload_module(x.module.id);
  self.look_beside();
  return gone;
}

status call_dispatch::operator()(const call::kernel_attribute& x) {
  if (x.kernel >= state().module(x.module.id).kernels)
    return no_such_kernel(x.kernel);
  return dev().set_kernel_attribute(x.module.id, x.kernel,
                                    static_cast<int>(x.attribute),
                                    static_cast<int>(x.value));
}

} // namespace vgpu
