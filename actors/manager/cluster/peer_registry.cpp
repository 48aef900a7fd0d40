#include "actors/manager/cluster/peer_registry.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <variant>

namespace vgpu {

using control::role;

const char* prefix_of(role x) {
  switch (x) {
  case role::node:
    return "node/";
  case role::client:
    return "client/";
  case role::worker:
    return "worker/";
  case role::command:
    return "command";
  }
  return "?";
}

namespace {

constexpr std::size_t longest_name = 200;

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' ||
         c == '/' || c == ':' || c == '@';
}

bool good_name(const std::string& name, role as) {
  std::string prefix = prefix_of(as);
  return name.starts_with(prefix) && name.size() <= longest_name &&
         (as == role::command || name.size() > prefix.size()) &&
         std::all_of(name.begin(), name.end(), is_plain);
}

std::string version_mismatch(const control::envelope& from,
                             const control::hello& x) {
  return "this manager speaks versions " +
         std::to_string(control::oldest_version) + " to " +
         std::to_string(control::protocol_version) + ", " + from.from + " (" +
         x.software + ") " + std::to_string(x.oldest) + " to " +
         std::to_string(x.newest) + "; install the same release on both sides";
}

} // namespace

peer_registry::peer_registry(outbox& out, manager_greeting greeting)
    : out_(out), greeting_(greeting) {}

bool peer_registry::welcome(const std::string& peer,
                            const control::envelope& from,
                            const control::hello& x) {
  auto version = std::min(x.newest, control::protocol_version);
  if (version < std::max(x.oldest, control::oldest_version) ||
      x.oldest > x.newest) {
    out_.refuse(peer, from,
                {fault_kind::other_version, version_mismatch(from, x)});
    return false;
  }
  if (!good_name(from.from, x.as)) {
    out_.refuse(
        peer, from,
        {fault_kind::usage, "a name of this role begins with " +
                                std::string{prefix_of(x.as)} +
                                " and has letters, digits, and - _ . : / @"});
    return false;
  }
  peers_[peer] = {from.from, x.as};
  control::welcome back;
  back.version = version;
  back.software = "vgpu";
  back.incarnation = greeting_.incarnation;
  back.beat_every_ms = greeting_.beat_every_ms;
  back.lost_after_ms = greeting_.lost_after_ms;
  back.term = greeting_.term;
  out_.answer(peer, from.request, back);
  return true;
}

bool peer_registry::may_say(const std::string& peer,
                            const control::envelope& what) {
  if (std::holds_alternative<control::hello>(what.body))
    return true;
  auto i = peers_.find(peer);
  if (i == peers_.end()) {
    out_.refuse(peer, what, {fault_kind::refused, "say hello first"});
    return false;
  }
  if (what.from != i->second.name) {
    out_.refuse(peer, what,
                {fault_kind::refused, "this connection belongs to " +
                                          i->second.name + ", not to " +
                                          what.from});
    return false;
  }
  auto allowed = control::may_say(i->second.as, what.body);
  if (!allowed)
    out_.refuse(peer, what,
                {fault_kind::refused,
                 what.from + " may not say " + control::name_of(what.body)});
  return allowed;
}

std::optional<role> peer_registry::remove(const std::string& peer) {
  auto entry = peers_.extract(peer);
  if (entry.empty())
    return std::nullopt;
  return entry.mapped().as;
}

std::string peer_registry::node_of(const std::string& peer) const {
  auto i = peers_.find(peer);
  if (i == peers_.end() || i->second.as != role::node)
    return {};
  return i->second.name.substr(std::string_view{prefix_of(role::node)}.size());
}

bool peer_registry::has_clients() const {
  return std::ranges::any_of(
      peers_, [](const auto& x) { return x.second.as == role::client; });
}

} // namespace vgpu
