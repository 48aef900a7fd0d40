// Whether another process would get variables where this one has them.
//
// A GPU's driver puts modules' variables where it finds room, and programs have
// stored their addresses anywhere. Processes that load the same in the same
// order get the same places, most of the time; a state that could not be made
// again would be worth nothing when it is needed. So it is tried beforehand, by
// a process that is like the next worker, while the session runs on.
#include "actors/executor.hpp"
#include "schema/call_codec.hpp"

#include <xxhash.h>

namespace vgpu {

namespace {

template <class Call>
constexpr bool loads() {
  using call::number;
  return Call::id == number::module_load || Call::id == number::module_unload;
}

} // namespace

bool executor::needs_rehearsal() const {
  for (std::size_t d = 0; d < devices_.size(); ++d)
    if (!outside_of_window(d).empty())
      return rehearsed_ != placement();
  return false;
}

/// Of what was loaded and unloaded, when.
std::uint64_t executor::placement() const {
  std::vector<std::uint64_t> numbers;
  for (auto& [number, words] : living_.calls())
    (void)call::decode(words, [&]<class Call>(const Call&, std::uint8_t) {
      if (loads<Call>())
        numbers.push_back(number);
    });
  return XXH3_64bits(numbers.data(), numbers.size() * sizeof(numbers[0])) | 1;
}

} // namespace vgpu
