#include "actors/manager/cluster/key_rights.hpp"

#include <string_view>
#include <variant>

namespace vgpu {

namespace {

using control::role;

bool admits(const control::senders& by, principal::kind who) {
  switch (who) {
  case principal::kind::node:
    return by.node_key;
  case principal::kind::tenant:
    return by.tenant_key;
  case principal::kind::admin:
    return by.admin_key;
  case principal::kind::newcomer:
    return by.newcomer_key;
  }
  return false;
}

bool may_be(principal::kind who, role as) {
  switch (who) {
  case principal::kind::node:
    return as == role::node;
  case principal::kind::tenant:
    return as == role::client;
  case principal::kind::admin:
    return as == role::client || as == role::command;
  case principal::kind::newcomer:
    return false;
  }
  return false;
}

/// Returns the name that follows from the key. Of its own, a client or command
/// chooses only how to tell its processes apart.
std::string name_for(const principal& who, const std::string& own) {
  if (who.is == principal::kind::node)
    return "node/" + who.name;
  constexpr std::string_view command = "command";
  auto slash = own.find('/');
  auto rest = slash == own.npos ? std::string{} : own.substr(slash);
  return (own.starts_with(command) ? "command/" : "client/") + who.name + rest;
}

} // namespace

result<control::envelope> as_principal(const principal& who,
                                       const control::envelope& said) {
  auto refuse = [&](const std::string& what) {
    return fault{fault_kind::refused,
                 "the key of '" + who.name + "' does not allow " + what};
  };
  auto admitted = admits(control::senders_of(said.body), who.is);
  if (!admitted && who.is == principal::kind::newcomer)
    return refuse("more than to join; use the key that it was given then");
  if (auto* x = std::get_if<control::hello>(&said.body);
      x != nullptr && !may_be(who.is, x->as))
    return refuse(x->as == role::node     ? "to be a node"
                  : x->as == role::client ? "to run programs"
                                          : "commands; log in as an admin");
  if (!admitted)
    return refuse("to say " + std::string{control::name_of(said.body)});
  auto out = said;
  out.from = name_for(who, said.from);
  if (auto* x = std::get_if<control::acquire>(&out.body)) {
    x->proven_key = who.key;
    x->proven_tenant = who.tenant;
  } else if (auto* adopting = std::get_if<control::adopt>(&out.body)) {
    adopting->proven_key = who.key;
    adopting->proven_tenant = who.tenant;
  }
  return out;
}

} // namespace vgpu
