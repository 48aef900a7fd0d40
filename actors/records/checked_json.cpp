#include "actors/records/checked_json.hpp"

namespace vgpu {

using nlohmann::json;

json parse_json(std::string_view text) {
  constexpr int deepest = 64;
  return json::parse(text, [](int depth, json::parse_event_t, const json&) {
    return depth < deepest;
  });
}

} // namespace vgpu
