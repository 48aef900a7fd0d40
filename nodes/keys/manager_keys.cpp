#include "nodes/keys/manager_keys.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace vgpu {

namespace {

using nlohmann::json;

constexpr auto file_version = 1;
/// Says how long a token that is used up may still connect, so that the answer
/// to its last use arrives.
constexpr double last_answer_s = 30;

principal::kind kind_in(const json& x, const char* field) {
  auto out = value_in(principal_names, x.at(field).get<std::string>());
  if (!out)
    throw std::runtime_error{std::string{field} + " is no kind of key"};
  return *out;
}

permitted_key from_json(const json& x) {
  permitted_key out;
  out.who.is = kind_in(x, "kind");
  out.who.name = x.at("name").get<std::string>();
  out.who.tenant = x.value("tenant", "");
  out.key = x.at("key").get<std::string>();
  out.ends = x.value("ends", 0.0);
  out.former = x.value("former", "");
  out.former_ends = x.value("former_ends", 0.0);
  out.rotation = x.value("rotation", std::uint64_t{0});
  if (!is_key(out.key) || (!out.former.empty() && !is_key(out.former)) ||
      !is_principal_name(out.who.name) ||
      (!out.who.tenant.empty() && !is_principal_name(out.who.tenant)))
    throw std::runtime_error{"a name or a key is malformed"};
  if (out.who.is == principal::kind::newcomer) {
    out.joins_as = kind_in(x, "joins_as");
    out.uses = x.at("uses").get<unsigned>();
  }
  return out;
}

/// Returns the entry of this name, or the end.
auto find(manager_keys& keys, const std::string& name) {
  return std::ranges::find_if(
      keys.permitted, [&](const auto& x) { return x.who.name == name; });
}

/// Throws where the text is not what text_of() writes.
manager_keys read_keys(const std::string& text) {
  auto all = json::parse(text);
  if (all.at("version").get<int>() != file_version)
    throw std::runtime_error{"another release wrote it"};
  auto own = pair_of(all.at("secret").get<std::string>());
  if (!own)
    throw std::runtime_error{own.why().what};
  manager_keys out;
  out.own = *own;
  if (auto former = all.value("former", ""); !former.empty()) {
    auto pair = pair_of(former);
    if (!pair)
      throw std::runtime_error{pair.why().what};
    out.former = *pair;
  }
  out.rotation = all.value("rotation", std::uint64_t{0});
  out.rotation_ends = all.value("rotation_ends", 0.0);
  out.endpoint = all.at("endpoint").get<std::string>();
  const auto& permitted = all.at("permitted");
  if (permitted.size() > most_keys)
    throw std::runtime_error{"it has too many keys"};
  for (const auto& x : permitted) {
    auto each = from_json(x);
    if (find(out, each.who.name) != out.permitted.end())
      throw std::runtime_error{"two keys have the name " + each.who.name};
    out.permitted.push_back(std::move(each));
  }
  return out;
}

bool is_in_use(const manager_keys& keys, const std::string& key) {
  return std::ranges::any_of(keys.permitted, [&](const auto& x) {
    return x.key == key || x.former == key;
  });
}

void drop_ended(manager_keys& keys, double now) {
  std::erase_if(keys.permitted,
                [&](const auto& x) { return x.ends != 0 && x.ends <= now; });
}

} // namespace

json to_json(const permitted_key& x) {
  json out{{"name", x.who.name},
           {"kind", text_in(principal_names, x.who.is)},
           {"key", x.key}};
  if (!x.who.tenant.empty())
    out["tenant"] = x.who.tenant;
  if (x.ends != 0)
    out["ends"] = x.ends;
  if (x.rotation != 0)
    out["rotation"] = x.rotation;
  if (!x.former.empty()) {
    out["former"] = x.former;
    out["former_ends"] = x.former_ends;
  }
  if (x.who.is == principal::kind::newcomer) {
    out["joins_as"] = text_in(principal_names, x.joins_as);
    out["uses"] = x.uses;
  }
  return out;
}

permitted_keys::table manager_keys::table(double now) const {
  permitted_keys::table out;
  for (const auto& x : permitted) {
    if (x.ends != 0 && now >= x.ends)
      continue;
    if (!x.former.empty() && now < x.former_ends)
      out.emplace(x.former, x.who);
    if (!is_old(x) || rotates(now))
      out.insert_or_assign(x.key, x.who);
  }
  return out;
}

result<manager_keys> parse_manager_keys(const std::string& text) {
  try {
    return read_keys(text);
  } catch (const std::exception& e) {
    return fault{fault_kind::corrupt, e.what()};
  }
}

std::string text_of(const manager_keys& keys) {
  auto list = json::array();
  for (const auto& x : keys.permitted)
    list.push_back(to_json(x));
  json out{{"version", file_version},
           {"secret", keys.own.secret},
           {"endpoint", keys.endpoint},
           {"permitted", std::move(list)}};
  if (keys.rotation != 0) {
    out["rotation"] = keys.rotation;
    out["rotation_ends"] = keys.rotation_ends;
  }
  if (keys.former)
    out["former"] = keys.former->secret;
  return out.dump(2) + "\n";
}

result<std::optional<manager_keys>> read_manager_keys(const key_folder& where) {
  return where.read_as(manager_key_file, parse_manager_keys);
}

status change_manager_keys(const key_folder& where,
                           const std::function<status(manager_keys&)>& change) {
  auto lock = where.lock();
  if (!lock)
    return lock.why();
  auto keys = read_manager_keys(where);
  if (!keys)
    return keys.why();
  if (!*keys)
    return fault{fault_kind::missing,
                 "no keys of a manager are in " + where.path() +
                     "; run `vgpu keys init` as the manager's user first"};
  if (auto done = change(**keys); !done)
    return done;
  return where.write(manager_key_file, text_of(**keys));
}

status init_manager_keys(const key_folder& where, const std::string& endpoint) {
  auto lock = where.lock();
  if (!lock)
    return lock.why();
  auto former = where.read(manager_key_file);
  if (!former)
    return former.why();
  if (*former)
    return fault{fault_kind::refused,
                 where.path_of(manager_key_file) +
                     " exists; without it, nobody who joined can connect "
                     "again. Remove it to begin anew"};
  auto own = make_key_pair();
  if (!own)
    return own.why();
  return where.write(manager_key_file,
                     text_of(manager_keys{.own = std::move(*own),
                                          .endpoint = endpoint,
                                          .permitted = {}}));
}

result<token> add_token(manager_keys& keys, principal::kind joins_as,
                        const std::string& tenant, unsigned uses, double ends) {
  auto own = make_key_pair();
  if (!own)
    return own.why();
  if (keys.permitted.size() >= most_keys)
    return fault{fault_kind::exhausted, "there are 10000 keys; revoke some"};
  permitted_key x;
  // The number of the token is not secret, and tells it from all others.
  auto number = 1u;
  auto name = [&] { return "token-" + std::to_string(number); };
  while (find(keys, name()) != keys.permitted.end())
    ++number;
  x.who = {principal::kind::newcomer, name(), tenant};
  x.key = own->open;
  x.ends = ends;
  x.joins_as = joins_as;
  x.uses = uses;
  x.rotation = keys.rotation;
  keys.permitted.push_back(std::move(x));
  return token{joins_as, keys.endpoint, keys.own.open, own->secret};
}

status enroll(manager_keys& keys, const principal& newcomer,
              const std::string& key, const std::string& name, double now) {
  drop_ended(keys, now);
  auto by = find(keys, newcomer.name);
  if (by == keys.permitted.end() || by->who.is != principal::kind::newcomer)
    return fault{fault_kind::refused, "this token is not valid any more"};
  if (!is_key(key))
    return fault{fault_kind::usage, "this is not a public key"};
  if (!is_principal_name(name))
    return fault{fault_kind::usage,
                 "name '" + name.substr(0, 64) +
                     "': give 1 to 64 letters, digits, and - _ . @"};
  principal who{by->joins_as, name, by->who.tenant};
  if (auto i = find(keys, name); i != keys.permitted.end()) {
    // Its answer was lost, and it asks again.
    if (i->key == key && i->who == who)
      return {};
    return fault{fault_kind::refused,
                 "'" + name +
                     "' has a key already; choose another name, or "
                     "revoke that key first (`vgpu keys revoke " +
                     name + "`)"};
  }
  if (is_in_use(keys, key))
    return fault{fault_kind::refused, "this key has another name already"};
  if (by->uses == 0)
    return fault{fault_kind::refused, "this token is used up"};
  if (keys.permitted.size() >= most_keys)
    return fault{fault_kind::exhausted, "there are 10000 keys; revoke some"};
  if (--by->uses == 0)
    by->ends = by->ends == 0 ? now + last_answer_s
                             : std::min(by->ends, now + last_answer_s);
  permitted_key added;
  added.who = std::move(who);
  added.key = key;
  // The token named the manager's key of then.
  added.rotation = by->rotation;
  keys.permitted.push_back(std::move(added));
  return {};
}

status rotate(manager_keys& keys, double overlap_s, double now) {
  if (keys.rotates(now))
    return fault{
        fault_kind::refused,
        "the last rotation is not over; `vgpu keys list` shows who has "
        "not renewed a key yet, and `vgpu keys rotate --end` ends it"};
  auto next = make_key_pair();
  if (!next)
    return next.why();
  drop_ended(keys, now);
  // Who missed the last one has no key any more.
  std::erase_if(keys.permitted, [&](const auto& x) { return keys.is_old(x); });
  keys.former = std::exchange(keys.own, std::move(*next));
  ++keys.rotation;
  keys.rotation_ends = now + overlap_s;
  for (auto& x : keys.permitted) {
    x.former.clear();
    // A token names the former key of the manager.
    if (x.who.is == principal::kind::newcomer)
      x.ends = x.ends == 0 ? keys.rotation_ends
                           : std::min(x.ends, keys.rotation_ends);
  }
  return {};
}

status end_rotation(manager_keys& keys, double now) {
  if (!keys.rotates(now))
    return fault{fault_kind::refused, "no rotation is under way"};
  keys.rotation_ends = now;
  keys.former.reset();
  for (auto& x : keys.permitted)
    x.former_ends = std::min(x.former_ends, now);
  return {};
}

std::optional<control::rotate_key> rotation_for(const manager_keys& keys,
                                                const principal& who) {
  auto i = std::ranges::find_if(keys.permitted, [&](const auto& x) {
    return x.who.name == who.name && x.who.is == who.is;
  });
  if (i == keys.permitted.end() || who.is == principal::kind::newcomer ||
      !(keys.is_old(*i) || who.key == i->former))
    return std::nullopt;
  return control::rotate_key{keys.rotation, keys.own.open, keys.rotation_ends};
}

status renew(manager_keys& keys, const principal& who,
             const control::renew_key& x, double now) {
  auto mine = find(keys, who.name);
  if (mine == keys.permitted.end() || mine->who.is != who.is)
    return fault{fault_kind::refused, "no key is permitted under this name"};
  if (mine->key == x.key)
    return {}; // its answer was lost, and it asks again
  if (x.number != keys.rotation || !keys.rotates(now))
    return fault{fault_kind::refused, "this rotation is over"};
  if (!keys.is_old(*mine))
    return fault{fault_kind::refused,
                 "'" + who.name +
                     "' has another new key already; where its file of keys "
                     "was copied, let each copy join by a token of its own"};
  if (!is_key(x.key) || is_in_use(keys, x.key))
    return fault{fault_kind::usage, "this is not a new public key"};
  mine->former = std::exchange(mine->key, x.key);
  mine->former_ends = keys.rotation_ends;
  mine->rotation = keys.rotation;
  return {};
}

status revoke(manager_keys& keys, const std::string& name) {
  auto i = find(keys, name);
  if (i == keys.permitted.end())
    return fault{fault_kind::missing, "no key has the name '" + name +
                                          "'; `vgpu keys list` shows them"};
  keys.permitted.erase(i);
  return {};
}

} // namespace vgpu
