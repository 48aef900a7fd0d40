// `vgpu set` and `vgpu policy`: change vGPUs and pGPUs while programs run.
#include "actors/link/protocol.hpp"
#include "nodes/cli/vgpu_commands.hpp"
#include "policies/compute/share_policies.hpp"
#include "schema/wire/specification.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <memory>
#include <utility>

namespace vgpu::command {

namespace {

using assignment = std::pair<std::string, std::string>;

result<assignment> split(const std::string& text) {
  auto at = text.find('=');
  if (at == std::string::npos || at == 0)
    return fault{fault_kind::usage,
                 "'" + text + "': give FIELD=VALUE, such as share=0.5"};
  return assignment{text.substr(0, at), text.substr(at + 1)};
}

/// Says how `vgpu set` changes a field. `to` gets what was read.
struct settable {
  const char* name;
  void (*assign)(control::set_vgpu& to, const control::specification& read);
};

using read_spec = const control::specification&;
constexpr settable settables[] = {
    {"share", [](control::set_vgpu& to, read_spec x) { to.share = x.share; }},
    {"limit", [](control::set_vgpu& to, read_spec x) { to.limit = x.limit; }},
    {"memory",
     [](control::set_vgpu& to, read_spec x) { to.memory = x.memory; }},
    {"priority",
     [](control::set_vgpu& to, read_spec x) {
       to.change_priority = true;
       to.priority = x.priority;
     }},
    {"recover-within",
     [](control::set_vgpu& to, read_spec x) {
       to.recover_within_ms = x.recover_within_ms;
     }},
    {"protect-cost",
     [](control::set_vgpu& to, read_spec x) {
       to.change_protect_cost = true;
       to.protect_cost = x.protect_cost;
     }},
    {"on-divergence",
     [](control::set_vgpu& to, read_spec x) {
       to.change_on_divergence = true;
       to.on_divergence = x.on_divergence;
     }},
};

/// Lists the fields that can be changed, for people.
std::string list_settables() {
  std::string out;
  for (const auto& x : settables)
    out += (out.empty()                            ? ""
            : &x == std::prev(std::end(settables)) ? " and "
                                                   : ", ") +
           std::string{x.name};
  return out;
}

/// Parses one FIELD=VALUE of `vgpu set`.
vgpu::status assign(control::set_vgpu& to, const std::string& text) {
  auto got = split(text);
  if (!got)
    return got.why();
  const auto& [name, value] = *got;
  auto found = std::find_if(std::begin(settables), std::end(settables),
                            [&](auto& x) { return x.name == name; });
  if (found == std::end(settables))
    return fault{fault_kind::usage, "'" + name +
                                        "' cannot be changed while it runs; " +
                                        list_settables() + " can"};
  control::specification read;
  if (auto good = control::set_field(read, name, value); !good)
    return good;
  if (name == "memory" && read.memory == 0)
    return fault{fault_kind::usage,
                 "memory '" + value + "': give a size, such as 512MiB or 4G"};
  found->assign(to, read);
  return {};
}

/// Parses milliseconds and returns microseconds.
result<std::uint32_t> read_quantum(const std::string& text) {
  double value = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() ||
      !(value >= 1 && value <= 1000))
    return fault{fault_kind::usage,
                 "quantum '" + text + "': give 1 to 1000 milliseconds"};
  return static_cast<std::uint32_t>(std::lround(value * 1000));
}

/// Parses NODE/ORDINAL.
vgpu::status read_pgpu(const std::string& text, control::set_policy& to) {
  auto at = text.rfind('/');
  auto* begin = text.data() + at + 1;
  auto* last = text.data() + text.size();
  if (at == std::string::npos || at == 0 || begin == last ||
      std::from_chars(begin, last, to.pgpu).ptr != last)
    return fault{fault_kind::usage,
                 "pGPU '" + text + "': give NODE/ORDINAL, such as a/0"};
  to.node = text.substr(0, at);
  return {};
}

vgpu::status read_rule(const std::string& text, control::set_policy& to) {
  if (text.find('=') == std::string::npos) {
    std::string all;
    for (auto name : policy::share_policy_names)
      all += (all.empty() ? "" : ", ") + std::string{name};
    if (!policy::parse_share_policy(text))
      return fault{fault_kind::usage,
                   "policy '" + text + "': give one of " + all};
    to.policy = text;
    return {};
  }
  auto got = split(text);
  if (!got)
    return got.why();
  if (got->first != "quantum")
    return fault{fault_kind::usage, "'" + got->first +
                                        "': a pGPU's rules are a policy's name "
                                        "and quantum=MILLISECONDS"};
  auto quantum = read_quantum(got->second);
  if (!quantum)
    return quantum.why();
  to.quantum_us = *quantum;
  return {};
}

int set(const target& where, std::uint64_t vgpu,
        const std::vector<std::string>& fields) {
  control::set_vgpu what;
  what.vgpu = {vgpu};
  for (const auto& x : fields)
    if (auto good = assign(what, x); !good)
      return complain("set", good.why().what, wrong_usage);
  return order("set", where, what);
}

int set_policy(const target& where, const std::string& pgpu,
               const std::vector<std::string>& rules) {
  control::set_policy what;
  auto good = read_pgpu(pgpu, what);
  for (const auto& x : rules)
    if (good)
      good = read_rule(x, what);
  if (!good)
    return complain("policy", good.why().what, wrong_usage);
  return order("policy", where, what);
}

} // namespace

void add_set_commands(CLI::App& app, job& todo) {
  auto where = std::make_shared<target>();
  auto vgpu = std::make_shared<std::uint64_t>(0);
  auto fields = std::make_shared<std::vector<std::string>>();
  auto* sub =
      app.add_subcommand("set", "Changes a vGPU while its programs run.");
  sub->add_option("VGPU", *vgpu, "the vGPU's number")->required();
  sub->add_option("FIELDS", *fields, "FIELD=VALUE of " + list_settables())
      ->required();
  where->add_to(*sub);
  sub->footer("Examples:\n"
              "  vgpu set 3 share=0.5\n"
              "  vgpu set 3 limit=0.25 memory=2GiB priority=10\n"
              "  vgpu set 3 recover-within=500ms protect-cost=5\n"
              "  vgpu set 3 on-divergence=error");
  sub->callback(
      [=, &todo] { todo = [=] { return set(*where, *vgpu, *fields); }; });

  auto at = std::make_shared<target>();
  auto pgpu = std::make_shared<std::string>();
  auto rules = std::make_shared<std::vector<std::string>>();
  auto* rule = app.add_subcommand(
      "policy", "Sets the policy by which a pGPU's compute is shared.");
  rule->add_option("PGPU", *pgpu, "NODE/ORDINAL, such as a/0")->required();
  rule->add_option("RULES", *rules,
                   policy::list_share_policies() + ", and quantum=MILLISECONDS")
      ->required();
  at->add_to(*rule);
  rule->footer("Examples:\n"
               "  vgpu policy a/0 equal\n"
               "  vgpu policy a/0 priority quantum=5");
  rule->callback(
      [=, &todo] { todo = [=] { return set_policy(*at, *pgpu, *rules); }; });
}

} // namespace vgpu::command
