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
    return out;
  } catch (const std::exception& e) {
    return fault{fault_kind::corrupt, e.what()};
  }
}

std::string text_of(const joined_keys& keys) {
  return json{{"version", joined_version},
              {"secret", keys.own.secret},
              {"kind", text_in(principal_names, keys.is)},
              {"name", keys.name},
              {"endpoints", keys.endpoints},
              {"manager", keys.manager}}
             .dump(2) +
         "\n";
}

result<std::optional<joined_keys>> read_joined_keys(const key_folder& where,
                                                    const char* file) {
  return where.read_as(file, parse_joined_keys,
                       "; join again with a new token");
}

result<std::shared_ptr<const link_keys>>
keys_to_managers(const key_folder& where, const char* file,
                 const std::string& endpoints) {
  using pointer = std::shared_ptr<const link_keys>;
  if (endpoints.find("tcp://") == endpoints.npos)
    return pointer{};
  auto joined = read_joined_keys(where, file);
  if (!joined)
    return joined.why();
  if (!*joined)
    return pointer{};
  const auto& x = **joined;
  auto known = keys_for(x.own, x.endpoints, x.manager);
  if (std::ranges::none_of(split_endpoints(endpoints), [&](const auto& each) {
        return known.listeners.contains(each);
      }))
    return pointer{};
  return pointer{std::make_shared<const link_keys>(std::move(known))};
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
  auto lock = where.lock();
  if (!lock)
    return lock.why();
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
  return where.write(file, text_of(joined_keys{*own, by.joins_as, name,
                                               by.endpoints, by.manager}));
}

} // namespace vgpu
