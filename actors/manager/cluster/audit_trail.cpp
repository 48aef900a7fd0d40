#include "actors/manager/cluster/audit_trail.hpp"

#include "actors/records/tenant_quota.hpp"
#include "schema/base/sizes.hpp"

#include <tuple>
#include <variant>

namespace vgpu {

namespace {

std::string number(std::uint64_t x) {
  return std::to_string(x);
}

// -- orders -------------------------------------------------------------------

std::string text(const control::register_node& x) {
  return "node " + x.name + " of host " + x.host;
}

std::string text(const control::acquire& x) {
  return "program " + x.program.name + " of " + x.program.user + " on " +
         x.program.host;
}

std::string text(const control::adopt& x) {
  return "session " + number(x.session.value) + " in epoch " +
         number(x.epoch.value);
}

std::string text(const control::inject_fault& x) {
  return "pGPU " + number(x.pgpu) + " of " + x.node + ": " + name_of(x.kind);
}

std::string text(const control::shutdown&) {
  return "the receiver";
}

std::string text(const control::set_vgpu& x) {
  auto out = "vGPU " + number(x.vgpu.value);
  if (x.share != 0)
    out += " share=" + decimal(x.share);
  if (x.limit != 0)
    out += " limit=" + decimal(x.limit);
  if (x.memory != 0)
    out += " memory=" + show_size(x.memory);
  if (x.change_priority)
    out += " priority=" + std::to_string(x.priority);
  if (x.recover_within_ms != 0)
    out += " recover-within=" + number(x.recover_within_ms) + "ms";
  if (x.change_protect_cost)
    out += " protect-cost=" + decimal(x.protect_cost);
  if (x.change_on_divergence)
    out += std::string{" on-divergence="} + control::name_of(x.on_divergence);
  return out;
}

std::string text(const control::set_policy& x) {
  auto out = "pGPU " + number(x.pgpu) + " of " + x.node;
  if (!x.policy.empty())
    out += " policy=" + x.policy;
  if (x.quantum_us != 0)
    out += " quantum=" + number(x.quantum_us) + "us";
  return out;
}

std::string text(const control::suspend_vgpu& x) {
  return "vGPU " + number(x.vgpu.value) + (x.hold ? " hold" : "");
}

std::string text(const control::resume_vgpu& x) {
  return "vGPU " + number(x.vgpu.value);
}

std::string text(const control::migrate_vgpu& x) {
  auto out = "vGPU " + number(x.vgpu.value);
  if (!x.node.empty())
    out += " to " + x.node;
  if (x.pgpu >= 0)
    out += " pGPU " + std::to_string(x.pgpu);
  return out;
}

std::string text(const control::drain_node& x) {
  return "node " + x.node + (x.undo ? " undo" : "");
}

std::string text(const control::enroll& x) {
  return "key of " + x.name;
}

std::string text(const control::renew_key& x) {
  return "its own key, in rotation " + number(x.number);
}

std::string text(const control::set_tenant& x) {
  return "tenant " + x.name + ": " + text_of(x.limits);
}

std::string text(const control::remove_tenant& x) {
  return "tenant " + x.name + (x.force ? " force" : "");
}

/// Says what an answer is for an order; unset: it is none.
std::optional<std::pair<std::string, std::string>>
outcome_of(const control::body& answer) {
  if (const auto* no = std::get_if<control::refusal>(&answer))
    return std::pair{std::string{"refused"}, no->reason};
  if (const auto* other = std::get_if<control::redirect>(&answer))
    return std::pair{std::string{"redirected"}, other->leader};
  if (const auto* given = std::get_if<control::lease>(&answer))
    return std::pair{std::string{"done"},
                     "session " + number(given->session.value) + ", vGPU " +
                         number(given->vgpu.value) + " on " + given->node};
  return std::pair{std::string{"done"}, std::string{}};
}

/// Returns the role that a name begins with.
std::string role_in(const std::string& name) {
  return name.substr(0, name.find('/'));
}

} // namespace

std::string text_of_order(const control::body& what) {
  return std::visit(
      [](const auto& x) -> std::string {
        if constexpr (requires { text(x); })
          return text(x);
        else
          return {};
      },
      what);
}

audit_record audit_trail::record_of(const control::envelope& what,
                                    const principal_ptr& who) const {
  audit_record out;
  out.time = wall_time_();
  out.role =
      who ? std::string{text_in(principal_names, who->is)} : role_in(what.from);
  out.name = who ? who->name : what.from;
  out.tenant = who ? who->tenant : "";
  out.proved = who != nullptr;
  out.from = what.from;
  out.order = control::name_of(what.body);
  out.object = text_of_order(what.body);
  return out;
}

void audit_trail::begin(const std::string& peer,
                        const control::envelope& what) {
  now_.reset();
  if (log_ && control::is_order(what.body))
    now_ = order{{peer, what.request}, record_of(what, what.who)};
}

void audit_trail::told(const std::string& peer, const control::envelope& what) {
  if (!log_ || what.request == 0)
    return;
  order_key key{peer, what.request};
  auto outcome = outcome_of(what.body);
  if (!outcome)
    return;
  audit_record record;
  if (now_ && now_->key == key) {
    record = std::move(now_->record);
    now_.reset();
  } else if (auto accepted = awaited_.extract(key); !accepted.empty()) {
    record = std::move(accepted.mapped());
    record.time = wall_time_();
  } else
    return;
  std::tie(record.outcome, record.reason) = std::move(*outcome);
  write(std::move(record));
}

void audit_trail::end() {
  if (!now_)
    return;
  auto done = std::move(*now_);
  now_.reset();
  auto record = done.record;
  record.outcome = "accepted";
  auto number = log_->add(std::move(record));
  if (done.key.second != 0)
    await(std::move(done), number);
}

void audit_trail::refused(const control::envelope& what,
                          const principal_ptr& who, const std::string& why) {
  if (!log_ || !control::is_order(what.body))
    return;
  auto record = record_of(what, who);
  record.outcome = "refused";
  record.reason = why;
  write(std::move(record));
}

void audit_trail::write(audit_record x) {
  if (x.outcome == "refused") {
    auto before = refusals_.admits(x.name, log_limit::clock::now());
    if (!before)
      return;
    x.reason += note_suppressed(*before);
  }
  log_->add(std::move(x));
}

/// A client asks again with the same number after its manager was lost; then
/// the later order is awaited.
void audit_trail::await(order x, std::uint64_t number) {
  x.record.of = number;
  if (awaited_.insert_or_assign(x.key, std::move(x.record)).second)
    awaited_order_.push_back(std::move(x.key));
  while (awaited_order_.size() > most_awaited) {
    awaited_.erase(awaited_order_.front());
    awaited_order_.pop_front();
  }
}

} // namespace vgpu
