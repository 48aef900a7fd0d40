// Whether another process would get variables where this one has them.
//
// A GPU's driver puts modules' variables where it finds room, and programs have
// stored their addresses anywhere. Processes that load the same in the same
// order get the same places, most of the time; a state that could not be made
// again would be worth nothing when it is needed. So it is tried beforehand, by
// a process that is like the next worker, while the session runs on.
#include "actors/executor.hpp"
#include "schema/call_codec.hpp"

#include <algorithm>

namespace vgpu {

bool executor::needs_rehearsal() const {
  auto needs = false;
  for (auto& [number, words] : living_.calls())
    (void)call::decode(words, [&]<class Call>(const Call& x,
                                              std::uint8_t device) {
      if constexpr (Call::id == call::number::module_load)
        needs = needs || (number >= rehearsed_ && hangs_on_places(device, x));
    });
  return needs;
}

/// Whether a driver placed a variable of what this loaded, and it is loaded.
bool executor::hangs_on_places(std::size_t device,
                               const call::module_load& x) const {
  auto& modules = states_[device].modules();
  auto module = modules.find(x.module.id);
  return module != modules.end() &&
         std::any_of(module->second.globals.begin(),
                     module->second.globals.end(), [&](auto& variable) {
                       return !in_window(device, variable.address);
                     });
}

} // namespace vgpu
