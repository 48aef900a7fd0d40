#include "actors/link/printable.hpp"

namespace vgpu {

std::string printable(std::string_view name) {
  constexpr std::size_t longest = 80;
  std::string out;
  for (auto c : name.substr(0, longest))
    out += (c >= ' ' && c <= '~') ? c : '?';
  if (name.size() > longest)
    out += "...";
  return out;
}

} // namespace vgpu
