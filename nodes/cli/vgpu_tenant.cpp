// `vgpu tenant`: what each tenant may have.
#include "actors/link/permitted_keys.hpp"
#include "actors/link/printable.hpp"
#include "actors/records/checked_json.hpp"
#include "actors/records/records_json.hpp"
#include "actors/records/tenant_quota.hpp"
#include "nodes/cli/command_client.hpp"
#include "nodes/cli/text_table.hpp"
#include "nodes/cli/vgpu_commands.hpp"
#include "schema/base/sizes.hpp"

#include <charconv>
#include <iostream>
#include <memory>
#include <variant>

namespace vgpu::command {

using nlohmann::json;

namespace {

constexpr const char* no_limit = "none";

struct tenant_options {
  target where;
  std::string name;
  std::string gpus;
  std::string memory;
  std::string share;
  std::string sessions;
  std::string priority;
  bool as_json = false;
  bool force = false;
};

using tenant_options_ptr = std::shared_ptr<tenant_options>;

// -- limits -------------------------------------------------------------------

fault wrong(const char* option, const std::string& given, const char* range) {
  return {fault_kind::usage,
          std::string{option} + " '" + given + "': give " + range};
}

/// Parses a whole text as a number.
template <class T>
bool read_number(const std::string& text, T& to) {
  const auto* last = text.data() + text.size();
  auto [end, error] = std::from_chars(text.data(), last, to);
  return error == std::errc{} && end == last;
}

/// Reads one option, unless it was not given. Returns a fault where it is no
/// limit, which `read` says.
template <class T, class F>
vgpu::status read_limit(const char* option, const char* range,
                        const std::string& text, T none, T& to, bool& change,
                        F read) {
  if (text.empty())
    return {};
  change = true;
  to = none;
  if (text != no_limit && !read(to))
    return wrong(option, text, range);
  return {};
}

result<control::set_tenant> read_tenant(const tenant_options& x, bool add) {
  control::set_tenant out;
  out.name = x.name;
  out.add = add;
  if (!is_principal_name(x.name))
    return wrong("tenant", x.name, "1 to 64 letters, digits, and - _ . @");
  auto& to = out.limits;
  constexpr const char* count = "a number, or none";
  auto good = read_limit("--gpus", count, x.gpus, control::unlimited, to.gpus,
                         out.change_gpus,
                         [&](auto& n) { return read_number(x.gpus, n); });
  if (good)
    good = read_limit("--sessions", count, x.sessions, control::unlimited,
                      to.sessions, out.change_sessions,
                      [&](auto& n) { return read_number(x.sessions, n); });
  if (good)
    good = read_limit("--memory", "a size, such as 512MiB or 4G, or none",
                      x.memory, control::unlimited, to.memory,
                      out.change_memory, [&](auto& n) {
                        auto size = parse_size(x.memory);
                        n = size ? *size : 0;
                        return size.ok();
                      });
  if (good)
    good = read_limit("--share", "a number, such as 2.5, or none", x.share,
                      control::unlimited_share, to.share, out.change_share,
                      [&](auto& n) { return read_number(x.share, n); });
  if (good)
    good =
        read_limit("--priority", "-1000 to 1000, or none", x.priority,
                   control::largest_priority, to.priority, out.change_priority,
                   [&](auto& n) { return read_number(x.priority, n); });
  if (good)
    good = check_limits(to);
  if (!good)
    return good.why();
  return out;
}

int change(const char* me, const tenant_options& x, bool add) {
  auto what = read_tenant(x, add);
  if (!what)
    return complain(me, what.why().what, wrong_usage);
  return order(me, x.where, *what);
}

// -- the list -----------------------------------------------------------------

std::string count_text(std::uint64_t x) {
  return x == control::unlimited ? no_limit : std::to_string(x);
}

std::string size_text(std::uint64_t x) {
  return x == control::unlimited ? no_limit : show_size(x);
}

std::string share_text(double x) {
  return x == control::unlimited_share ? no_limit : decimal(x);
}

void print_tenants(const control::tenants& all) {
  std::vector<std::vector<std::string>> rows{
      {"tenant", "sessions", "waiting", "GPUs", "memory", "share", "priority"}};
  for (const auto& x : all.list) {
    const auto& most = x.limits;
    rows.push_back(
        {shown(x.name) + (x.added ? "" : " (as default)"),
         std::to_string(x.sessions) + " of " + count_text(most.sessions),
         std::to_string(x.waiting),
         std::to_string(x.gpus) + " of " + count_text(most.gpus),
         show_size(x.memory) + " of " + size_text(most.memory),
         decimal(x.share) + " of " + share_text(most.share),
         most.priority == control::largest_priority
             ? no_limit
             : std::to_string(most.priority)});
  }
  print_rows(rows, rows[0].size());
}

/// Limits that are none are left out.
void print_json(const control::tenants& all) {
  auto out = json::array();
  for (const auto& x : all.list)
    out.push_back({{"name", x.name},
                   {"added", x.added},
                   {"limits", to_json(x.limits)},
                   {"used",
                    {{"sessions", x.sessions},
                     {"waiting", x.waiting},
                     {"gpus", x.gpus},
                     {"memory", x.memory},
                     {"share", x.share}}}});
  std::cout << to_line({{"tenants", std::move(out)}}) << "\n";
}

int list(const tenant_options& x) {
  constexpr const char* me = "tenant list";
  auto manager = command_client::connect(x.where.endpoint(), patience);
  if (!manager)
    return complain(me, manager.why());
  auto got = (*manager)->ask(control::tenants_request{}, patience);
  if (!got)
    return complain(me, got.why());
  auto* all = std::get_if<control::tenants>(&*got);
  if (all == nullptr)
    return complain(me, "the manager gives another answer; install the same "
                        "release everywhere");
  if (x.as_json)
    print_json(*all);
  else
    print_tenants(*all);
  std::cout.flush();
  return succeeded;
}

// -- options ------------------------------------------------------------------

void add_limits(CLI::App& app, const tenant_options_ptr& x) {
  app.add_option("NAME", x->name, "name of the tenant")->required();
  app.add_option("--gpus", x->gpus, "most GPUs of all its vGPUs, or none");
  app.add_option("--memory", x->memory,
                 "most memory on these GPUs, such as 64GiB, or none");
  app.add_option("--share", x->share,
                 "most of these GPUs' compute: the sum of the shares, such as "
                 "2.5, or none");
  app.add_option("--sessions", x->sessions, "most sessions, or none");
  app.add_option("--priority", x->priority,
                 "largest priority of a session, -1000 to 1000");
}

CLI::App* add(CLI::App& app, job& todo, const char* name, const char* what,
              const tenant_options_ptr& x,
              std::function<int(const tenant_options&)> run) {
  auto* sub = app.add_subcommand(name, what);
  x->where.add_to(*sub);
  sub->callback([x, run = std::move(run), &todo] {
    todo = [x, run] { return run(*x); };
  });
  return sub;
}

} // namespace

void add_tenant_command(CLI::App& app, job& todo) {
  auto* tenant = app.add_subcommand(
      "tenant", "Limits what each tenant's sessions have together.");
  tenant->require_subcommand(1);
  tenant->footer("Sessions that wait count. Limits that are not given are "
                 "none. Examples:\n"
                 "  vgpu tenant add physics --gpus 8 --memory 64GiB\n"
                 "  vgpu tenant set default --sessions 4 --priority 0\n"
                 "  vgpu tenant list");
  auto x = std::make_shared<tenant_options>();
  auto* sub = add(*tenant, todo, "add", "Adds a tenant.", x,
                  [](auto& o) { return change("tenant add", o, true); });
  add_limits(*sub, x);
  sub->footer("Example:\n  vgpu tenant add physics --gpus 8 --memory 64GiB "
              "--share 4 --sessions 32 --priority 10");

  x = std::make_shared<tenant_options>();
  sub = add(*tenant, todo, "set",
            "Changes limits of a tenant. Sessions that exceed them go on.", x,
            [](auto& o) { return change("tenant set", o, false); });
  add_limits(*sub, x);
  sub->footer("Examples:\n"
              "  vgpu tenant set physics --gpus 16 --memory none\n"
              "  vgpu tenant set default --sessions 0");

  x = std::make_shared<tenant_options>();
  sub =
      add(*tenant, todo, "list",
          "Shows the tenants: what they have of what they may have.", x, list);
  sub->add_flag("--json", x->as_json, "print JSON");
  sub->footer("Examples:\n  vgpu tenant list\n"
              "  vgpu tenant list --json | jq '.tenants[].used'");

  x = std::make_shared<tenant_options>();
  sub = add(*tenant, todo, "remove",
            "Removes a tenant. The limits of `default` hold for it then.", x,
            [](auto& o) {
              return order("tenant remove", o.where,
                           control::remove_tenant{o.name, o.force});
            });
  sub->add_option("NAME", x->name, "name of the tenant")->required();
  sub->add_flag("--force", x->force, "also while it has sessions, which go on");
  sub->footer("Examples:\n  vgpu tenant remove physics\n"
              "  vgpu tenant remove physics --force");
}

} // namespace vgpu::command
