#include "actors/state/living_calls.hpp"

#include <algorithm>

namespace vgpu {

void living_calls::keep(const object& of, call_number at,
                        std::span<const std::uint64_t> message, bool replaces) {
  auto& numbers = of_[of];
  // A new value replaces the earlier one of the same property. The value is the
  // last argument, and the last word.
  if (replaces && !numbers.empty()) {
    auto same = std::find_if(
        numbers.begin() + 1, numbers.end(), [&](std::uint64_t other) {
          auto& words = calls_.at(other);
          return words.size() == message.size() &&
                 std::equal(words.begin(), words.end() - 1, message.begin());
        });
    if (same != numbers.end()) {
      calls_.erase(*same);
      numbers.erase(same);
    }
  }
  numbers.push_back(at.value);
  calls_.insert_or_assign(
      at.value, std::vector<std::uint64_t>{message.begin(), message.end()});
}

void living_calls::drop(const object& of) {
  auto gone = of_.extract(of);
  if (gone)
    for (auto number : gone.mapped())
      calls_.erase(number);
}

/// Keeps the calls that begin and end the object, and drops those that set its
/// properties.
void living_calls::retire(const object& of, call_number at,
                          std::span<const std::uint64_t> message) {
  auto gone = of_.extract(of);
  if (gone)
    for (auto i = gone.mapped().begin() + 1; i != gone.mapped().end(); ++i)
      calls_.erase(*i);
  calls_.insert_or_assign(
      at.value, std::vector<std::uint64_t>{message.begin(), message.end()});
}

} // namespace vgpu
