#include "nodes/cli/command_client.hpp"

#include "actors/link/managers/leader_link.hpp"
#include "actors/link/printable.hpp"
#include "nodes/keys/joined_keys.hpp"
#include "nodes/support/paths.hpp"
#include "nodes/support/run_dir.hpp"
#include "nodes/support/version.hpp"
#include "schema/base/cuda_fault.hpp"

#include <unistd.h>

#include <optional>

namespace vgpu {

using std::chrono::steady_clock;

namespace {

fault unreachable(const std::string& endpoint) {
  return {fault_kind::unreachable,
          (endpoint.find(',') == endpoint.npos
               ? "no manager answers at "
               : "no leading manager answers at any of ") +
              endpoint +
              "; check that it runs (`vgpu up`, or vgpu-manager) and that "
              "VGPU_MANAGER or --manager names it"};
}

fault stands_by(const std::string& endpoint, const std::string& leader) {
  return {fault_kind::unreachable,
          "the manager at " + endpoint + " is a standby, and " +
              printable(leader) +
              " leads; give both in VGPU_MANAGER or --manager, separated by a "
              "comma"};
}

} // namespace

command_client::command_client(std::string endpoint)
    : endpoint_(std::move(endpoint)),
      name_("command/" + std::to_string(::getpid())), system_(config_),
      self_(system_) {}

command_client::~command_client() {
  if (link_) {
    self_->send_exit(link_, caf::exit_reason::user_shutdown);
    self_->wait_for(link_);
    link_ = nullptr;
  }
  system_.clock().cancel_all();
}

result<std::unique_ptr<command_client>>
command_client::connect(const std::string& endpoint, milliseconds patience,
                        milliseconds absence) {
  if (auto good = check_endpoints(endpoint); !good)
    return good.why();
  if (auto good = check_own_cluster(endpoint); !good)
    return good.why();
  std::unique_ptr<command_client> out{new command_client{endpoint}};
  if (auto opened = out->open(patience, absence); !opened)
    return opened.why();
  return out;
}

status command_client::open(milliseconds patience, milliseconds absence) {
  link_options options;
  options.name = name_;
  options.greeting =
      control::hello{control::oldest_version, control::protocol_version,
                     version_of("vgpu"), control::role::command};
  auto keys = keys_to_managers(key_folder{}, login_key_file, endpoint_);
  if (!keys)
    return keys.why();
  options.keys = keys->present;
  options.next_keys = keys->next;
  options.settles = true;
  renewing_ = keys->next;
  auto link =
      spawn_leader_link(system_, zmq_, split_endpoints(endpoint_), options);
  if (!link)
    return link.why();
  link_ = link->actor;
  self_->send(link_, consumer_of(self_));
  auto begun = steady_clock::now();
  auto until = begun + patience;
  std::optional<status> done;
  while (!done && steady_clock::now() < until)
    self_->receive(
        [&](const incoming_ptr& in) {
          if (auto* yes = std::get_if<control::welcome>(&in->what.body)) {
            term_ = yes->term;
            done = status{};
          } else if (auto* no = std::get_if<control::refusal>(&in->what.body))
            done = status{
                fault{fault_kind::refused, "the manager at " + endpoint_ +
                                               " refuses: " + no->reason}};
          // Only a single named manager ends here. With several, the command
          // waits for a leader.
          else if (auto* other = std::get_if<control::redirect>(&in->what.body);
                   other != nullptr && !other->leader.empty())
            done = status{stands_by(endpoint_, other->leader)};
        },
        [&](const link_event_ptr& event) {
          if (event->what == link_event::kind::rekeyed && renewing_)
            (void)renewal_.finish(renewing_->own.open);
          // A manager that is restarting is back soon.
          if (event->what == link_event::kind::unreachable &&
              steady_clock::now() - begun >= absence)
            done = status{unreachable(endpoint_)};
        },
        caf::after(until - steady_clock::now()) >> [] {});
  return done ? *done : status{unreachable(endpoint_)};
}

result<control::body> command_client::ask(control::body what,
                                          milliseconds patience) {
  auto request = ++last_request_;
  self_->send(link_, std::make_shared<const outgoing>(
                         outgoing{{}, {name_, request, std::move(what)}}));
  auto until = steady_clock::now() + patience;
  std::optional<result<control::body>> done;
  while (!done && steady_clock::now() < until)
    self_->receive(
        [&](const incoming_ptr& in) {
          if (take_renewal(in->what))
            return;
          if (in->what.request != request)
            return;
          if (auto* no = std::get_if<control::refusal>(&in->what.body))
            done = fault{kind_of(no->code), no->reason};
          else
            done = in->what.body;
        },
        [&](const link_event_ptr& event) {
          if (event->what == link_event::kind::down)
            done = unreachable(endpoint_);
        },
        caf::after(until - steady_clock::now()) >> [] {});
  end_renewal();
  return done ? std::move(*done)
              : result<control::body>{unreachable(endpoint_)};
}

/// Renews the user's key where the manager asks for that. Returns whether the
/// message was about it.
bool command_client::take_renewal(const control::envelope& what) {
  if (auto* order = std::get_if<control::rotate_key>(&what.body)) {
    auto keys = renewal_.begin(*order);
    if (!keys)
      return true; // the manager asks the next command again
    renewing_ = *keys;
    renewal_request_ = ++last_request_;
    self_->send(link_,
                std::make_shared<const outgoing>(outgoing{
                    {},
                    {name_, renewal_request_,
                     control::renew_key{order->number, renewing_->own.open}}}));
    return true;
  }
  if (renewal_request_ == 0 || what.request != renewal_request_)
    return false;
  renewal_request_ = 0;
  if (std::holds_alternative<control::done>(what.body))
    (void)renewal_.finish(renewing_->own.open);
  return true;
}

/// Waits briefly for the answer to a renewal.
void command_client::end_renewal() {
  constexpr std::chrono::seconds patience{1};
  auto until = steady_clock::now() + patience;
  while (renewal_request_ != 0 && steady_clock::now() < until)
    self_->receive([&](const incoming_ptr& in) { take_renewal(in->what); },
                   [](const link_event_ptr&) {},
                   caf::after(until - steady_clock::now()) >> [] {});
  renewal_request_ = 0;
}

} // namespace vgpu
