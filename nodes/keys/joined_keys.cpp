#include "nodes/keys/joined_keys.hpp"

#include "actors/link/link.hpp"
#include "actors/link/printable.hpp"
#include "actors/link/system.hpp"
#include "nodes/support/paths.hpp"
#include "schema/base/cuda_fault.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace vgpu {

namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto joined_version = 1;

link_keys keys_for(const key_pair& own, const std::string& endpoints,
                   const std::string& manager) {
  link_keys out;
  out.own = own;
  for (const auto& x : split_endpoints(endpoints))
    out.listeners[x] = manager;
  return out;
}

/// A newcomer's connection to one manager.
class newcomer_connection {
public:
  newcomer_connection(std::string endpoint, const link_keys& keys)
      : endpoint_(std::move(endpoint)), self_(system_) {
    link_options how;
    how.endpoint = endpoint_;
    how.name = "newcomer";
    how.keys = std::make_shared<const link_keys>(keys);
    auto link = spawn_link(system_, zmq_, how);
    if (!link) {
      opened_ = link.why();
      return;
    }
    link_ = link->actor;
    self_->send(link_, consumer_of(self_));
  }

  ~newcomer_connection() {
    if (link_) {
      self_->send_exit(link_, caf::exit_reason::user_shutdown);
      self_->wait_for(link_);
      link_ = nullptr;
    }
    system_.clock().cancel_all();
  }
  newcomer_connection(const newcomer_connection&) = delete;
  newcomer_connection& operator=(const newcomer_connection&) = delete;

  /// Asks at each new connection, because a question may be lost.
  status ask(const control::enroll& what, milliseconds patience) {
    if (!opened_)
      return opened_;
    std::optional<status> done;
    auto until = steady_clock::now() + patience;
    while (!done && steady_clock::now() < until)
      self_->receive(
          [&](const incoming_ptr& in) {
            if (std::holds_alternative<control::done>(in->what.body))
              done = status{};
            else if (auto* no = std::get_if<control::refusal>(&in->what.body))
              done = status{fault{kind_of(no->code), printable(no->reason)}};
          },
          [&](const link_event_ptr& event) {
            if (event->what == link_event::kind::up)
              self_->send(link_, std::make_shared<const outgoing>(
                                     outgoing{{}, {"newcomer", 1, what}}));
          },
          caf::after(until - steady_clock::now()) >> [] {});
    if (done)
      return *done;
    return fault{fault_kind::unreachable,
                 "no manager admits this token at " + endpoint_ +
                     "; check that it runs, and that the token is neither used "
                     "up nor expired"};
  }

private:
  std::string endpoint_;
  zmq::context_t zmq_;
  system_config config_;
  caf::actor_system system_{config_};
  caf::scoped_actor self_;
  link_actor link_;
  status opened_;
};

} // namespace

result<joined_keys> parse_joined_keys(const std::string& text) {
  try {
    auto all = json::parse(text);
    if (all.at("version").get<int>() != joined_version)
      return fault{fault_kind::other_version, "another release wrote it"};
    auto own = pair_of(all.at("secret").get<std::string>());
    joined_keys out;
    auto kind = value_in(principal_names, all.at("kind").get<std::string>());
    out.name = all.at("name").get<std::string>();
    out.endpoints = all.at("endpoints").get<std::string>();
    out.manager = all.at("manager").get<std::string>();
    if (!own || !kind || !is_key(out.manager) || !is_principal_name(out.name))
      return fault{fault_kind::corrupt, "a key or the name is malformed"};
    if (auto good = check_endpoints(out.endpoints); !good)
      return good.why();
    out.own = *own;
    out.is = *kind;
    out.rotation = all.value("rotation", std::uint64_t{0});
    if (auto i = all.find("next"); i != all.end()) {
      auto next = pair_of(i->at("secret").get<std::string>());
      auto manager = i->at("manager").get<std::string>();
      if (!next || !is_key(manager))
        return fault{fault_kind::corrupt, "the next key is malformed"};
      out.next = joined_keys::renewed{*next, std::move(manager),
                                      i->at("rotation").get<std::uint64_t>()};
    }
    return out;
  } catch (const std::exception& e) {
    return fault{fault_kind::corrupt, e.what()};
  }
}

std::string text_of(const joined_keys& keys) {
  json out{{"version", joined_version},
           {"secret", keys.own.secret},
           {"kind", text_in(principal_names, keys.is)},
           {"name", keys.name},
           {"endpoints", keys.endpoints},
           {"manager", keys.manager}};
  if (keys.rotation != 0)
    out["rotation"] = keys.rotation;
  if (keys.next)
    out["next"] = {{"secret", keys.next->own.secret},
                   {"manager", keys.next->manager},
                   {"rotation", keys.next->rotation}};
  return out.dump(2) + "\n";
}

result<std::optional<joined_keys>> read_joined_keys(const key_folder& where,
                                                    const char* file) {
  return where.read_as(file, parse_joined_keys,
                       "; join again with a new token");
}

result<manager_link_keys> keys_to_managers(const key_folder& where,
                                           const char* file,
                                           const std::string& endpoints) {
  manager_link_keys out;
  if (endpoints.find("tcp://") == endpoints.npos)
    return out;
  auto joined = read_joined_keys(where, file);
  if (!joined)
    return joined.why();
  if (!*joined)
    return out;
  const auto& x = **joined;
  auto known = keys_for(x.own, x.endpoints, x.manager);
  if (std::ranges::none_of(split_endpoints(endpoints), [&](const auto& each) {
        return known.listeners.contains(each);
      }))
    return out;
  out.present = std::make_shared<const link_keys>(std::move(known));
  if (x.next)
    out.next = std::make_shared<const link_keys>(
        keys_for(x.next->own, x.endpoints, x.next->manager));
  return out;
}

// -- renewal ------------------------------------------------------------------

/// Reads the file, and keeps other processes from changing it.
result<joined_renewal::locked> joined_renewal::lock() const {
  auto lock = where_.lock();
  if (!lock)
    return lock.why();
  auto joined = read_joined_keys(where_, file_);
  if (!joined)
    return joined.why();
  if (!*joined)
    return fault{fault_kind::missing, where_.path_of(file_) + " is gone"};
  return locked{std::move(*lock), std::move(**joined)};
}

result<std::shared_ptr<const link_keys>>
joined_renewal::begin(const control::rotate_key& order) {
  if (!is_key(order.manager))
    return fault{fault_kind::corrupt, "the manager's new key is malformed"};
  auto file = lock();
  if (!file)
    return file.why();
  auto& x = file->keys;
  // Another process of this user has done it.
  if (x.rotation >= order.number)
    return std::make_shared<const link_keys>(
        keys_for(x.own, x.endpoints, x.manager));
  if (!x.next || x.next->rotation != order.number ||
      x.next->manager != order.manager) {
    auto own = make_key_pair();
    if (!own)
      return own.why();
    x.next = joined_keys::renewed{std::move(*own), order.manager, order.number};
    if (auto kept = where_.write(file_, text_of(x)); !kept)
      return kept.why();
  }
  return std::make_shared<const link_keys>(
      keys_for(x.next->own, x.endpoints, x.next->manager));
}

status joined_renewal::finish(const std::string& open) {
  auto file = lock();
  if (!file)
    return file.why();
  auto& x = file->keys;
  if (x.next && x.next->own.open == open) {
    x.own = x.next->own;
    x.manager = x.next->manager;
    x.rotation = x.next->rotation;
    x.next.reset();
    if (auto kept = where_.write(file_, text_of(x)); !kept)
      return kept;
  }
  if (renewed_ && x.own.open == open)
    renewed_(x.own);
  return {};
}

result<std::string> manager_of_login(const key_folder& where) {
  auto joined = read_joined_keys(where, login_key_file);
  if (!joined)
    return joined.why();
  return *joined ? (*joined)->endpoints : std::string{};
}

status join_with(const token& by, const std::string& name,
                 const key_folder& where, const char* file,
                 milliseconds patience) {
  auto own = make_key_pair();
  auto secret = pair_of(by.secret);
  if (!own || !secret)
    return own ? secret.why() : own.why();
  status done;
  for (const auto& x : split_endpoints(by.endpoints)) {
    newcomer_connection at{x, keys_for(*secret, by.endpoints, by.manager)};
    done = at.ask({own->open, name}, patience);
    if (done || done.why().kind != fault_kind::unreachable)
      break;
  }
  if (!done)
    return done;
  // Not before: the manager may have its keys in the same folder, and changes
  // them to permit this one.
  auto lock = where.lock();
  if (!lock)
    return lock.why();
  return where.write(file, text_of(joined_keys{*own, by.joins_as, name,
                                               by.endpoints, by.manager}));
}

} // namespace vgpu
