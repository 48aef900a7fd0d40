// `vgpu audit`: shows and proves who ordered what.
#include "actors/link/printable.hpp"
#include "actors/manager/cluster/audit_log.hpp"
#include "actors/records/records_json.hpp"
#include "nodes/cli/command_client.hpp"
#include "nodes/cli/past_time.hpp"
#include "nodes/cli/text_table.hpp"
#include "nodes/cli/vgpu_commands.hpp"

#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <vector>

namespace vgpu::command {

using nlohmann::json;

namespace {

constexpr const char* audit_name = "audit";
/// Limits the breaks of the chain that are shown.
constexpr std::size_t most_breaks = 20;

struct audit_options {
  target where;
  std::string file;
  std::string since;
  std::string principal;
  std::string head;
  bool as_json = false;
  bool verify = false;
};

using line_taker = std::function<void(std::string_view)>;

/// Hands all lines of the manager's log to `take`, and returns its last record.
result<audit_head> ask_for_lines(const audit_options& x,
                                 const line_taker& take) {
  auto manager = command_client::connect(x.where.endpoint(), patience);
  if (!manager)
    return manager.why();
  for (std::uint64_t after = 0;;) {
    auto got = (*manager)->ask(control::audit_request{after}, patience);
    if (!got)
      return got.why();
    auto* page = std::get_if<control::audit>(&*got);
    if (page == nullptr)
      return fault{fault_kind::other_version,
                   "the manager gives another answer; install the same release "
                   "everywhere"};
    auto last = after;
    for (const auto& line : page->lines) {
      take(line);
      last = number_of_audit_line(line).value_or(last);
    }
    if (last <= after)
      return audit_head{page->head, page->digest};
    after = last;
  }
}

/// Hands all lines of the log's files to `take`, and returns the last record
/// that was noted beside them.
result<audit_head> read_lines(const audit_options& x, const line_taker& take) {
  auto done = each_audit_line(x.file, [&](std::string_view line) {
    take(line);
    return true;
  });
  if (!done)
    return done.why();
  return kept_audit_head(x.file).value_or(audit_head{});
}

result<audit_head> lines_of(const audit_options& x, const line_taker& take) {
  return x.file.empty() ? ask_for_lines(x, take) : read_lines(x, take);
}

// -- showing ------------------------------------------------------------------

bool is_by(const audit_record& x, const std::string& principal) {
  return principal.empty() || x.name == principal ||
         x.from.starts_with(principal + "/");
}

std::vector<std::string> row_of(const audit_record& x) {
  auto outcome = x.outcome;
  if (x.of != 0)
    outcome += " (" + std::to_string(x.of) + ")";
  auto who = x.name + (x.tenant.empty() ? "" : " of " + x.tenant);
  return {std::to_string(x.number),
          date_of(x.time),
          shown(x.role) + (x.proved || x.outcome == "noted" ? "" : "?"),
          shown(who),
          shown(x.order),
          shown(x.object),
          shown(outcome),
          shown(x.reason)};
}

int show(const audit_options& x) {
  auto since = read_since(x.since);
  if (!since)
    return complain(audit_name, since.why().what, wrong_usage);
  std::vector<std::vector<std::string>> rows{{"record", "time", "role", "name",
                                              "order", "object", "outcome",
                                              "reason"}};
  std::uint64_t unreadable = 0;
  auto done = lines_of(x, [&](std::string_view line) {
    auto record = read_audit_line(line);
    if (!record) {
      ++unreadable;
      return;
    }
    if (record->time < *since || !is_by(*record, x.principal))
      return;
    if (x.as_json)
      std::cout << to_line(to_json(*record)) << "\n";
    else
      rows.push_back(row_of(*record));
  });
  if (!done)
    return complain(audit_name, done.why());
  if (!x.as_json)
    print_rows(rows, rows[0].size());
  std::cout.flush();
  if (unreadable == 0)
    return succeeded;
  return complain(audit_name,
                  std::to_string(unreadable) +
                      " lines are no records; `vgpu audit --verify` says where",
                  chain_broken);
}

// -- proving ------------------------------------------------------------------

int verify(const audit_options& x) {
  std::optional<audit_head> known;
  if (!x.head.empty()) {
    known = parse_audit_head(x.head);
    if (!known)
      return complain(audit_name,
                      "--head '" + x.head +
                          "': give NUMBER:DIGEST, as `vgpu audit --verify` "
                          "printed it",
                      wrong_usage);
  }
  audit_check chain;
  if (known)
    chain.look_for(*known);
  std::vector<std::string> breaks;
  auto note = [&](const vgpu::status& good) {
    if (!good && breaks.size() < most_breaks)
      breaks.push_back(good.why().what);
  };
  auto head =
      lines_of(x, [&](std::string_view line) { note(chain.take(line)); });
  if (!head)
    return complain(audit_name, head.why());
  if (head->number > chain.head().number)
    note(chain.contains(*head));
  if (known)
    note(chain.contains(*known));
  auto last = text_of(chain.head());
  if (x.as_json)
    std::cout << to_line({{"whole", breaks.empty()},
                          {"first", chain.first()},
                          {"records", chain.records()},
                          {"head", last},
                          {"breaks", breaks}})
              << std::endl;
  if (breaks.empty()) {
    if (!x.as_json)
      std::cout << chain.records() << " records from " << chain.first()
                << " on are whole"
                << (chain.first() > 1 ? "; earlier ones were rotated away" : "")
                << ". The last is\n"
                << last << std::endl;
    return succeeded;
  }
  for (const auto& each : breaks)
    (void)complain(audit_name, shown(each));
  return chain_broken;
}

} // namespace

void add_audit_command(CLI::App& app, job& todo) {
  auto x = std::make_shared<audit_options>();
  auto* sub = app.add_subcommand(
      "audit", "Shows who ordered what of the manager, and what came of it.");
  x->where.add_to(*sub);
  sub->add_flag("--json", x->as_json, "print JSON, a record a line");
  auto* since = sub->add_option("--since", x->since,
                                "only records since then: how long ago (90s, "
                                "15m, 2h, 7d), or a time (2026-01-31 18:30)");
  auto* by = sub->add_option("--principal", x->principal,
                             "only orders of this key, as in `vgpu keys list`");
  auto* proves = sub->add_flag(
      "--verify", x->verify,
      "prove that no record was changed, removed, added or reordered, and say "
      "where the chain breaks");
  sub->add_option("--head", x->head,
                  "prove also that this record, which an earlier --verify "
                  "printed as the last, is still there: NUMBER:DIGEST")
      ->needs(proves);
  sub->add_option("--file", x->file,
                  "read the log's files at this path, and ask no manager");
  proves->excludes(since)->excludes(by);
  sub->footer("Exit codes: 4 where the chain is broken; otherwise as `vgpu "
              "--help` says.\n"
              "Examples:\n"
              "  vgpu audit --since 1d --principal pat@desk\n"
              "  vgpu audit --json | jq 'select(.outcome == \"refused\")'\n"
              "  vgpu audit --verify --head 57:5f70bf18a0860070...\n"
              "  vgpu audit --verify --file /var/lib/vgpu/manager.store.audit");
  sub->callback(
      [x, &todo] { todo = [x] { return x->verify ? verify(*x) : show(*x); }; });
}

} // namespace vgpu::command
