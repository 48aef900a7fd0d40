#include "actors/manager/cluster/key_rights.hpp"

#include "actors/records/tenant_quota.hpp"

#include <string_view>
#include <variant>

namespace vgpu {

namespace {

using control::role;
using control::scope;

scope scope_of(const control::senders& by, principal::kind who) {
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
  return scope::none;
}

bool may_be(principal::kind who, role as) {
  switch (who) {
  case principal::kind::node:
    return as == role::node;
  case principal::kind::tenant:
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

result<control::envelope> as_principal(const principal_ptr& key,
                                       const control::envelope& said) {
  const auto& who = *key;
  auto refuse = [&](const std::string& what) {
    return fault{fault_kind::refused,
                 "the key of '" + who.name + "' does not allow " + what};
  };
  auto reach = scope_of(control::senders_of(said.body), who.is);
  auto admitted = reach != scope::none;
  if (!admitted && who.is == principal::kind::newcomer)
    return refuse("more than to join; use the key that it was given then");
  if (auto* x = std::get_if<control::hello>(&said.body);
      x != nullptr && !may_be(who.is, x->as))
    return refuse(x->as == role::node     ? "to be a node"
                  : x->as == role::client ? "to run programs"
                                          : "commands");
  if (!admitted)
    return refuse(
        "to say " + std::string{control::name_of(said.body)} +
        (who.is == principal::kind::tenant ? "; log in as an admin" : ""));
  auto out = said;
  out.from = name_for(who, said.from);
  out.who = key;
  out.reach = reach;
  return out;
}

std::optional<std::string> confined_to(const control::envelope& said) {
  if (said.reach == scope::all || !said.who)
    return std::nullopt;
  return tenant_of(said.who->tenant);
}

bool may_reach(const control::envelope& said, const std::string& tenant) {
  auto only = confined_to(said);
  return !only || *only == tenant_of(tenant);
}

std::string proven_key(const control::envelope& said) {
  return said.who ? said.who->key : std::string{};
}

std::string proven_tenant(const control::envelope& said) {
  return said.who ? said.who->tenant : std::string{};
}

} // namespace vgpu
