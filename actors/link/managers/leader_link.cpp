#include "actors/link/managers/leader_link.hpp"

#include "actors/link/log.hpp"
#include "actors/link/printable.hpp"

#include <algorithm>

namespace vgpu {

// -- the choice ---------------------------------------------------------------

leader_choice::leader_choice(std::vector<std::string> endpoints) {
  for (auto& x : endpoints)
    here_[std::move(x)] = false;
}

leader_choice::verdict leader_choice::hears(const std::string& endpoint,
                                            const control::body& what) {
  auto is_chosen = endpoint == chosen_;
  if (auto* x = std::get_if<control::welcome>(&what)) {
    // A manager that was frozen still believes that it leads, and so would a
    // process that listened to it.
    auto old = x->term < term_;
    // Managers without election all have the same term, so the chosen one
    // stays.
    auto rival = x->term == term_ && !chosen_.empty() && !is_chosen;
    if (old || rival) {
      spdlog::warn("ignored {}, which says that it leads (term {}): {}",
                   endpoint, x->term,
                   old ? "there was a later leader" : chosen_ + " leads");
      return verdict::drop;
    }
    term_ = x->term;
    chosen_ = endpoint;
    return verdict::begins;
  }
  if (auto* x = std::get_if<control::redirect>(&what)) {
    spdlog::info("{} stands by; leader: {}", endpoint,
                 x->leader.empty() ? "not known" : printable(x->leader));
    if (!is_chosen)
      return verdict::drop;
    chosen_.clear();
    return verdict::ends;
  }
  // A manager refuses a hello only for a reason that holds for all managers.
  if (std::holds_alternative<control::refusal>(what) && chosen_.empty())
    return verdict::pass;
  return is_chosen ? verdict::pass : verdict::drop;
}

bool leader_choice::lost(const std::string& endpoint) {
  here_[endpoint] = false;
  if (endpoint != chosen_)
    return false;
  chosen_.clear();
  return true;
}

void leader_choice::connected(const std::string& endpoint) {
  here_[endpoint] = true;
}

bool leader_choice::all_gone() const noexcept {
  return std::none_of(here_.begin(), here_.end(),
                      [](const auto& x) { return x.second; });
}

// -- the actor ----------------------------------------------------------------

namespace {

using choosing_ptr = leader_link_actor::stateful_pointer<leader_link_state>;

void tell(choosing_ptr self, link_event::kind what) {
  auto& st = self->state;
  self->send(st.consumer,
             std::make_shared<const link_event>(link_event{what, st.peer}));
}

void take(choosing_ptr self, const incoming& in) {
  auto& st = self->state;
  auto before = st.choice->chosen();
  auto verdict = st.choice->hears(in.peer, in.what.body);
  if (verdict == leader_choice::verdict::drop) {
    spdlog::debug("dropped a {} of {}, which does not lead",
                  control::name_of(in.what.body), in.peer);
    return;
  }
  if (verdict == leader_choice::verdict::ends)
    return tell(self, link_event::kind::down);
  if (verdict == leader_choice::verdict::begins) {
    if (!before.empty())
      tell(self, link_event::kind::down);
    spdlog::info("{} leads", in.peer);
    tell(self, link_event::kind::up);
  }
  self->send(st.consumer,
             std::make_shared<const incoming>(incoming{st.peer, in.what}));
}

void take(choosing_ptr self, const link_event& event) {
  auto& choice = *self->state.choice;
  switch (event.what) {
  case link_event::kind::up:
    return choice.connected(event.peer);
  case link_event::kind::down:
    if (choice.lost(event.peer))
      tell(self, link_event::kind::down);
    return;
  case link_event::kind::unreachable:
    if (choice.lost(event.peer))
      tell(self, link_event::kind::down);
    if (choice.all_gone())
      tell(self, link_event::kind::unreachable);
    return;
  case link_event::kind::overrun:
    if (event.peer == choice.chosen())
      tell(self, link_event::kind::overrun);
    return;
  case link_event::kind::looked:
    // It comes after all that its link passed on.
    if (self->state.looks)
      tell(self, link_event::kind::looked);
    self->state.looks = false;
    return;
  case link_event::kind::rekeyed:
    return tell(self, link_event::kind::rekeyed);
  case link_event::kind::revoked:
    return; // its links connect, and have no keys of others
  }
}

std::string joined(const std::vector<std::string>& x) {
  std::string out;
  for (const auto& each : x)
    out += (out.empty() ? "" : ",") + each;
  return out;
}

} // namespace

leader_link_actor::behavior_type
leader_link(choosing_ptr self, std::string peer,
            std::map<std::string, link_actor> links) {
  auto& st = self->state;
  st.peer = std::move(peer);
  st.links = std::move(links);
  std::vector<std::string> endpoints;
  for (const auto& [endpoint, link] : st.links) {
    endpoints.push_back(endpoint);
    // The links end with this actor, whatever its exit reason.
    self->link_to(link);
  }
  st.choice = std::make_unique<leader_choice>(std::move(endpoints));
  return {
      [self](control_consumer& consumer) {
        self->state.consumer = std::move(consumer);
        for (const auto& [endpoint, link] : self->state.links)
          self->send(link, control_consumer{self});
      },
      [self](const incoming_ptr& in) { take(self, *in); },
      [self](const link_event_ptr& event) { take(self, *event); },
      [self](const outgoing_ptr& out) {
        auto& state = self->state;
        if (auto i = state.links.find(state.choice->chosen());
            i != state.links.end())
          self->send(i->second, out);
      },
      [self](const link_look&) {
        auto& state = self->state;
        auto i = state.links.find(state.choice->chosen());
        if (i == state.links.end())
          return tell(self, link_event::kind::looked);
        state.looks = true;
        self->send(i->second, link_look{self});
      },
      [self](const link_rekey& x) {
        for (const auto& [endpoint, link] : self->state.links)
          self->send(link, x);
      },
  };
}

result<open_link> spawn_leader_link(caf::actor_system& system,
                                    zmq::context_t& zmq,
                                    const std::vector<std::string>& endpoints,
                                    link_options how) {
  std::map<std::string, link_actor> links;
  for (const auto& endpoint : endpoints) {
    how.endpoint = endpoint;
    auto link = spawn_link(system, zmq, how);
    if (!link) {
      for (auto& [unused, other] : links)
        caf::anon_send_exit(other, caf::exit_reason::user_shutdown);
      return link;
    }
    if (endpoints.size() == 1)
      return link;
    links.emplace(endpoint, link->actor);
  }
  auto peer = joined(endpoints);
  return open_link{system.spawn(leader_link, peer, std::move(links)), peer};
}

} // namespace vgpu
