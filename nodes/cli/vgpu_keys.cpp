// `vgpu keys`, `vgpu token`, `vgpu node join` and `vgpu login`.
#include "actors/manager/manager.hpp"
#include "nodes/cli/vgpu_commands.hpp"
#include "nodes/keys/joined_keys.hpp"
#include "nodes/keys/manager_keys.hpp"
#include "nodes/support/paths.hpp"

#include <nlohmann/json.hpp>

#include <charconv>
#include <ctime>
#include <iomanip>
#include <iostream>
#include <memory>

#include <pwd.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace vgpu::command {

namespace {

using nlohmann::json;

struct key_options {
  std::string folder = default_key_folder();
  std::string endpoint;
  std::string name;
  bool as_json = false;
  std::string kind;
  std::string tenant = "default";
  unsigned uses = 1;
  std::string ttl = "1h";
  std::string token;
  std::string overlap = "1d";
  bool end = false;

  key_folder where() const { return key_folder{folder}; }
};

using options_ptr = std::shared_ptr<key_options>;

/// Who was refused connects again after 5 s. A manager that runs may need a
/// moment to learn of a token, and then admits it the second time.
constexpr std::chrono::seconds join_patience{20};

void add_folder(CLI::App& app, const options_ptr& x) {
  app.add_option("--keys", x->folder,
                 "folder of the keys (default: $VGPU_KEYS; /etc/vgpu for root, "
                 "otherwise $XDG_CONFIG_HOME/vgpu or ~/.config/vgpu)");
}

/// Parses a time such as 90s, 30m, 1h or 7d, and returns seconds.
result<double> read_time(const std::string& text) {
  double value = 0;
  const auto* last = text.data() + text.size();
  auto [end, error] = std::from_chars(text.data(), last, value);
  auto unit = end < last ? *end : '?';
  auto seconds = unit == 's'   ? 1.0
                 : unit == 'm' ? 60.0
                 : unit == 'h' ? 3600.0
                 : unit == 'd' ? 86400.0
                               : 0.0;
  constexpr auto longest = 3650 * 86400.0;
  if (error != std::errc{} || last - end != 1 || seconds == 0 ||
      !(value > 0 && value * seconds <= longest))
    return fault{fault_kind::usage,
                 "time '" + text + "': give a time such as 90s, 30m, 1h or 7d"};
  return value * seconds;
}

// -- keys ---------------------------------------------------------------------

int init(const key_options& x) {
  auto good = check_endpoints(x.endpoint);
  if (good)
    for (const auto& each : split_endpoints(x.endpoint))
      if (!each.starts_with("tcp://"))
        good =
            fault{fault_kind::usage,
                  "endpoint '" + each + "': only tcp://HOST:PORT needs keys"};
  if (!good)
    return complain("keys init", good.why().what, wrong_usage);
  if (auto done = init_manager_keys(x.where(), x.endpoint); !done)
    return complain("keys init", done.why());
  std::cout << "The manager's key is in " << x.where().path_of(manager_key_file)
            << ".\nStart it with `vgpu-manager --listen "
            << split_endpoints(x.endpoint).front()
            << "`, and let others join with `vgpu token`.\n";
  return succeeded;
}

/// Returns what is shown of a key, with every field.
json shown_key(const permitted_key& x) {
  json out{{"tenant", ""}, {"ends", nullptr}};
  out.update(to_json(x));
  return out;
}

std::string time_text(double when) {
  auto seconds = static_cast<std::time_t>(when);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char out[32] = {};
  std::strftime(out, sizeof(out), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return out;
}

/// Returns what is shown of the last rotation; null: there was none.
json shown_rotation(const manager_keys& keys) {
  if (keys.rotation == 0)
    return nullptr;
  auto waiting = json::array();
  for (const auto& each : keys.permitted)
    if (keys.is_old(each))
      waiting.push_back(each.who.name);
  return {{"number", keys.rotation},
          {"ends", keys.rotation_ends},
          {"over", !keys.rotates(wall_time())},
          {"waiting", std::move(waiting)}};
}

/// Returns what is to be said of a key because of the last rotation.
std::string rotation_text(const manager_keys& keys, const permitted_key& x) {
  if (!keys.is_old(x))
    return {};
  return keys.rotates(wall_time())
             ? "  not renewed, ends " + time_text(keys.rotation_ends)
             : "  ended: it was not renewed";
}

int rotate_keys(const key_options& x) {
  auto overlap = read_time(x.overlap);
  if (!overlap)
    return complain("keys rotate", overlap.why().what, wrong_usage);
  manager_keys now;
  auto done = change_manager_keys(x.where(), [&](manager_keys& keys) {
    auto changed = x.end ? end_rotation(keys, wall_time())
                         : rotate(keys, *overlap, wall_time());
    now = keys;
    return changed;
  });
  if (!done)
    return complain("keys rotate", done.why());
  auto shown = shown_rotation(now);
  shown["manager"] = now.own.open;
  if (x.as_json) {
    std::cout << shown.dump(2) << "\n";
    return succeeded;
  }
  std::cout << "Rotation " << now.rotation
            << (x.end ? " is over." : ": the manager has another key.");
  auto waiting = shown["waiting"].size();
  if (x.end)
    std::cout << " Keys that were not renewed, and ended: " << waiting << ".\n";
  else
    std::cout << " Keys to renew: " << waiting << ". The former ones end "
              << time_text(now.rotation_ends)
              << ".\nWhoever is connected renews its key now, others when they "
                 "connect. `vgpu keys list` shows who has not yet.\n";
  return succeeded;
}

int list(const key_options& x) {
  auto keys = read_manager_keys(x.where());
  if (!keys)
    return complain("keys list", keys.why());
  if (!*keys)
    return complain("keys list", "no keys of a manager are in " + x.folder +
                                     "; `vgpu keys init` makes them");
  if (x.as_json) {
    auto all = json::array();
    for (const auto& each : (*keys)->permitted)
      all.push_back(shown_key(each));
    std::cout << json{{"manager", (*keys)->own.open},
                      {"endpoint", (*keys)->endpoint},
                      {"rotation", shown_rotation(**keys)},
                      {"keys", std::move(all)}}
                     .dump(2)
              << "\n";
    return succeeded;
  }
  for (const auto& each : (*keys)->permitted) {
    std::cout << std::left << std::setw(8)
              << text_in(principal_names, each.who.is) << each.who.name;
    if (!each.who.tenant.empty())
      std::cout << "  tenant " << each.who.tenant;
    if (each.who.is == principal::kind::newcomer)
      std::cout << "  to join as " << text_in(principal_names, each.joins_as)
                << ", uses left " << each.uses;
    if (each.ends != 0)
      std::cout << "  until " << time_text(each.ends);
    std::cout << rotation_text(**keys, each) << "\n";
  }
  return succeeded;
}

int revoke_key(const key_options& x) {
  auto done = change_manager_keys(
      x.where(), [&](manager_keys& keys) { return revoke(keys, x.name); });
  return done ? succeeded : complain("keys revoke", done.why());
}

void add_keys(CLI::App& app, job& todo, const options_ptr& x) {
  auto* keys = app.add_subcommand(
      "keys",
      "Make, show, rotate and revoke the keys of a manager that listens on "
      "TCP");
  keys->require_subcommand(1);
  keys->footer("Examples, as the manager's user on its host:\n"
               "  vgpu keys init tcp://10.0.0.1:7070\n"
               "  vgpu keys list --json\n"
               "  vgpu keys rotate --overlap 7d\n"
               "  vgpu keys revoke node-7");
  auto* make = keys->add_subcommand("init", "Make the manager's key");
  make->add_option("ENDPOINT", x->endpoint,
                   "where nodes and users will find the manager, "
                   "tcp://HOST:PORT, or several separated by commas")
      ->required();
  make->footer("Example:\n  vgpu keys init tcp://10.0.0.1:7070");
  auto* show = keys->add_subcommand("list", "Show who may connect");
  show->add_flag("--json", x->as_json, "print JSON");
  show->footer("Example:\n  vgpu keys list --json");
  auto* end = keys->add_subcommand(
      "revoke", "Revoke a key or a token: its connections end within 1 s");
  end->add_option("NAME", x->name, "name in `vgpu keys list`")->required();
  end->footer("Examples:\n  vgpu keys revoke node-7\n"
              "  vgpu keys revoke token-1");
  auto* turn = keys->add_subcommand(
      "rotate", "Give the manager and all who joined other keys, while "
                "programs run");
  auto* overlap =
      turn->add_option("--overlap", x->overlap,
                       "how long the former keys stay good, such as 30m, 1d or "
                       "7d; who does not connect within it must join again")
          ->capture_default_str();
  turn->add_flag("--end", x->end, "end the former keys now")->excludes(overlap);
  turn->add_flag("--json", x->as_json, "print JSON");
  turn->footer("Examples:\n  vgpu keys rotate\n"
               "  vgpu keys rotate --overlap 7d --json\n"
               "  vgpu keys rotate --end");
  turn->callback([&todo, x] { todo = [x] { return rotate_keys(*x); }; });
  for (auto* each : {make, show, turn, end})
    add_folder(*each, x);
  make->callback([&todo, x] { todo = [x] { return init(*x); }; });
  show->callback([&todo, x] { todo = [x] { return list(*x); }; });
  end->callback([&todo, x] { todo = [x] { return revoke_key(*x); }; });
}

// -- tokens -------------------------------------------------------------------

int make_token(const key_options& x) {
  auto ttl = read_time(x.ttl);
  if (!ttl)
    return complain("token", ttl.why().what, wrong_usage);
  if (!is_principal_name(x.tenant))
    return complain("token",
                    "tenant '" + x.tenant +
                        "': give 1 to 64 letters, digits, and - _ . @",
                    wrong_usage);
  auto kind = *value_in(principal_names, x.kind);
  auto tenant = kind == principal::kind::tenant ? x.tenant : std::string{};
  std::string text;
  auto done = change_manager_keys(x.where(), [&](manager_keys& keys) {
    auto made = add_token(keys, kind, tenant, x.uses, wall_time() + *ttl);
    if (made)
      text = text_of(*made);
    return made ? status{} : status{made.why()};
  });
  if (!done)
    return complain("token", done.why());
  std::cout << text << "\n";
  return succeeded;
}

void add_token_command(CLI::App& app, job& todo, const options_ptr& x) {
  auto* make = app.add_subcommand(
      "token", "Print a secret word by which a node or a user joins");
  make->add_option("KIND", x->kind,
                   "who joins: a node, a tenant who runs programs, or an admin "
                   "who also commands")
      ->required()
      ->check(CLI::IsMember({"node", "tenant", "admin"}));
  make->add_option("--uses", x->uses, "how many may join with it")
      ->check(CLI::Range(1u, 10'000u))
      ->capture_default_str();
  make->add_option("--ttl", x->ttl,
                   "how long it is valid, such as 90s, 30m, 1h or 7d")
      ->capture_default_str();
  make->add_option("--tenant", x->tenant, "name of the tenant")
      ->capture_default_str();
  add_folder(*make, x);
  make->footer("Examples, as the manager's user on its host:\n"
               "  vgpu token node --uses 8 --ttl 1d\n"
               "  vgpu token tenant --tenant physics");
  make->callback([&todo, x] { todo = [x] { return make_token(*x); }; });
}

// -- joining ------------------------------------------------------------------

/// Joins with the token, if it is of a kind that may.
int join(const std::string& me, const key_options& x, const std::string& name,
         const char* file, bool as_node) {
  auto by = parse_token(x.token);
  if (!by)
    return complain(me, by.why().what, wrong_usage);
  if ((by->joins_as == principal::kind::node) != as_node)
    return complain(me,
                    as_node ? "this token is for users; use `vgpu login`"
                            : "this token is for nodes; use `vgpu node join`",
                    wrong_usage);
  if (auto done = join_with(*by, name, x.where(), file, join_patience); !done)
    return complain(me, done.why());
  std::cout << "Joined " << by->endpoints << " as '" << name
            << "'. The key is in " << x.where().path_of(file) << ".\n";
  return succeeded;
}

std::string host_name() {
  utsname host{};
  ::uname(&host);
  return host.nodename;
}

std::string user_at_host() {
  const auto* user = ::getpwuid(::geteuid());
  return (user != nullptr ? std::string{user->pw_name}
                          : std::to_string(::geteuid())) +
         "@" + host_name();
}

void add_joins(CLI::App& app, job& todo, const options_ptr& x) {
  auto* node = app.add_subcommand("node", "Join a cluster as a node");
  node->require_subcommand(1);
  auto* joins = node->add_subcommand(
      "join",
      "Get this host's node a key, with a token of the manager's owner");
  auto* login = app.add_subcommand(
      "login", "Get this user a key, with a token of the manager's owner");
  for (auto* each : {joins, login}) {
    each->add_option("TOKEN", x->token, "what `vgpu token` printed")
        ->required();
    add_folder(*each, x);
  }
  joins->add_option("--name", x->name,
                    "the node's name, as for vgpu-node (default: the host's)");
  login->add_option("--name", x->name, "name of the key (default: USER@HOST)");
  joins->footer("Example:\n"
                "  vgpu node join vgpu1-node-... --name node-7\n"
                "  vgpu-node --name node-7 --manager tcp://10.0.0.1:7070");
  node->footer("Example:\n  vgpu node join vgpu1-node-... --name node-7");
  login->footer("Example:\n"
                "  vgpu login vgpu1-tenant-...\n"
                "  vgpu run ./program");
  joins->callback([&todo, x] {
    todo = [x] {
      return join("node join", *x, x->name.empty() ? host_name() : x->name,
                  node_key_file, true);
    };
  });
  login->callback([&todo, x] {
    todo = [x] {
      return join("login", *x, x->name.empty() ? user_at_host() : x->name,
                  login_key_file, false);
    };
  });
}

} // namespace

void add_key_commands(CLI::App& app, job& todo) {
  auto x = std::make_shared<key_options>();
  add_keys(app, todo, x);
  add_token_command(app, todo, x);
  add_joins(app, todo, x);
}

} // namespace vgpu::command
