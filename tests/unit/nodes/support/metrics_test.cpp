#include "nodes/support/metrics.hpp"

#include "actors/link/system.hpp"

#include <boost/test/unit_test.hpp>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <set>

using namespace vgpu;

namespace {

constexpr const char* status_text = R"({
  "manager": {"uptime": 12.5},
  "nodes": [{"name": "a", "state": "alive", "pgpus": [
    {"ordinal": 0, "backend": "cpu", "name": "soft", "memory": 4096,
     "used": 1024, "load": 1.5, "state": "healthy", "sessions": [7]},
    {"ordinal": 1, "backend": "cpu", "name": "soft", "memory": 4096,
     "used": 0, "state": "lost", "sessions": []}]}],
  "vgpus": [{"id": 3, "share": 0.25, "sessions": [
    {"id": 7, "epoch": 2, "state": "running", "node": "a",
     "program": "say \"hi\"\n", "user": "u", "memory": 1024, "quota": 2048,
     "beside": {"variables": 512, "code": null, "context": 0},
     "calls": 99, "usage": {"device_seconds": 1.5, "replay_seconds": 0.5,
       "bytes_to_device": 10, "bytes_from_device": 20, "bytes_replayed": 5,
       "memory_mib_seconds": 2}},
    {"id": 8, "epoch": 0, "state": "waiting", "node": "", "program": "b",
     "user": "u", "memory": 0, "quota": 0, "calls": 0}]}]})";

metrics_snapshot example() {
  metrics_snapshot out;
  out.status = status_text;
  out.usage = R"({"entries": [{"user": "u", "device_seconds": 7.5,
    "replay_seconds": 0, "bytes_to_device": 30, "bytes_from_device": 40,
    "bytes_replayed": 0, "memory_mib_seconds": 0.5}]})";
  for (auto took : {0.5, 40.0, 60'000.0}) {
    control::event x;
    x.kind = "session-replaced";
    x.milliseconds = took;
    out.events.add(x);
  }
  control::event joined;
  joined.kind = "node-joined";
  out.events.add(joined);
  return out;
}

const prometheus::MetricFamily&
family(const std::vector<prometheus::MetricFamily>& all,
       const std::string& name) {
  for (const auto& x : all)
    if (x.name == name)
      return x;
  throw std::runtime_error{"no family " + name};
}

std::string label(const prometheus::ClientMetric& of, const std::string& name) {
  for (const auto& x : of.label)
    if (x.name == name)
      return x.value;
  return {};
}

metrics_source::behavior_type answers(metrics_source::pointer) {
  return {[](const metrics_ask&) -> metrics_ptr {
    return std::make_shared<const metrics_snapshot>(example());
  }};
}

/// Returns the answer to a GET of the path, with its head.
std::string get(const std::string& url) {
  auto host = url.substr(7, url.rfind('/') - 7);
  auto port = std::stoi(host.substr(host.rfind(':') + 1));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto fd = ::socket(AF_INET, SOCK_STREAM, 0);
  BOOST_REQUIRE(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) ==
                0);
  std::string ask = "GET /metrics HTTP/1.0\r\n\r\n";
  BOOST_REQUIRE(::write(fd, ask.data(), ask.size()) ==
                static_cast<ssize_t>(ask.size()));
  std::string out;
  char some[4096];
  for (ssize_t n; (n = ::read(fd, some, sizeof(some))) > 0;)
    out.append(some, static_cast<std::size_t>(n));
  ::close(fd);
  return out;
}

} // namespace

BOOST_AUTO_TEST_SUITE(what_is_measured)

BOOST_AUTO_TEST_CASE(a_status_becomes_gauges_with_labels) {
  auto all = families_of(example());
  auto& used = family(all, "vgpu_pgpu_used_bytes");
  BOOST_REQUIRE(used.metric.size() == 2u);
  BOOST_TEST(used.metric[0].gauge.value == 1024);
  BOOST_TEST(label(used.metric[1], "pgpu") == "1");
  auto& load = family(all, "vgpu_pgpu_load");
  BOOST_REQUIRE(load.metric.size() == 1u);
  BOOST_TEST(load.metric[0].gauge.value == 1.5);
  auto& healthy = family(all, "vgpu_pgpu_healthy");
  BOOST_TEST(healthy.metric[0].gauge.value == 1);
  BOOST_TEST(healthy.metric[1].gauge.value == 0);
  // Values that no worker can measure are left out.
  auto& beside = family(all, "vgpu_session_beside_bytes");
  BOOST_REQUIRE(beside.metric.size() == 2u);
  BOOST_TEST(label(beside.metric[1], "kind") == "variables");
  BOOST_TEST(beside.metric[1].gauge.value == 512);
  auto& calls = family(all, "vgpu_session_calls_total");
  BOOST_TEST(calls.metric[0].counter.value == 99);
  BOOST_TEST(label(calls.metric[0], "vgpu") == "3");
  BOOST_TEST(family(all, "vgpu_session_device_seconds_total")
                 .metric[0]
                 .counter.value == 1.5);
  auto& copied = family(all, "vgpu_user_copied_bytes_total");
  BOOST_REQUIRE(copied.metric.size() == 2u);
  BOOST_TEST(copied.metric[1].counter.value == 40);
  BOOST_TEST(label(copied.metric[1], "user") == "u");
  BOOST_TEST(label(copied.metric[1], "direction") == "from_device");
  BOOST_TEST(family(all, "vgpu_user_memory_byte_seconds_total")
                 .metric[0]
                 .counter.value == 1 << 19);
  auto& sessions = family(all, "vgpu_sessions");
  BOOST_REQUIRE(sessions.metric.size() == 2u);
  BOOST_TEST(label(sessions.metric[1], "state") == "waiting");
}

BOOST_AUTO_TEST_CASE(durations_become_a_cumulative_histogram) {
  auto all = families_of(example());
  auto& took = family(all, "vgpu_event_duration_seconds").metric.at(0);
  BOOST_TEST(took.histogram.sample_count == 3u);
  BOOST_TEST(took.histogram.sample_sum == 60.0405);
  BOOST_TEST(took.histogram.bucket.front().cumulative_count == 1u);
  BOOST_TEST(took.histogram.bucket.back().cumulative_count == 2u);
  BOOST_TEST(family(all, "vgpu_events_total").metric.size() == 2u);
}

BOOST_AUTO_TEST_CASE(kinds_of_events_cannot_grow_without_bound) {
  event_tally x;
  for (int i = 0; i < 10'000; ++i) {
    control::event what;
    what.kind = std::to_string(i);
    x.add(what);
  }
  BOOST_TEST(x.kinds().size() <= event_tally::most_kinds + 1);
  BOOST_TEST(x.kinds().at("other").count == 10'000 - event_tally::most_kinds);
}

BOOST_AUTO_TEST_CASE(a_server_answers_with_its_sources_metrics) {
  system_config config;
  caf::actor_system system{config};
  auto source = system.spawn(answers);
  auto server = metrics_server::start(system, source, "127.0.0.1:0");
  BOOST_REQUIRE_MESSAGE(server, (server ? "" : server.why().what));
  auto page = get((*server)->url());
  BOOST_TEST(page.starts_with("HTTP/1.1 200"));
  BOOST_TEST(page.find("vgpu_pgpu_used_bytes{node=\"a\",pgpu=\"0\","
                       "backend=\"cpu\",model=\"soft\"} 1024") != page.npos);
  // A program chooses its labels, and must not be able to break the page.
  BOOST_TEST(page.find("program=\"say \\\"hi\\\"\\n\"") != page.npos);
  server->reset();
  caf::anon_send_exit(source, caf::exit_reason::user_shutdown);
}

BOOST_AUTO_TEST_CASE(a_bad_address_is_named) {
  system_config config;
  caf::actor_system system{config};
  auto source = system.spawn(answers);
  for (auto bad : {"9400", ":9400", "127.0.0.1:", "127.0.0.1:http",
                   "127.0.0.1:99999", "127.0.0.1:1 "}) {
    auto server = metrics_server::start(system, source, bad);
    BOOST_REQUIRE(!server);
    BOOST_TEST(server.why().what.find(bad) != std::string::npos);
  }
  auto none = metrics_server::start(system, source, "");
  BOOST_TEST((none && *none == nullptr));
  caf::anon_send_exit(source, caf::exit_reason::user_shutdown);
}

BOOST_AUTO_TEST_CASE(the_dashboard_uses_existing_metrics) {
  std::ifstream file{DASHBOARD};
  std::string text{std::istreambuf_iterator<char>{file}, {}};
  std::set<std::string> known;
  for (const auto& x : families_of(example()))
    known.insert(x.name);
  auto asked = 0;
  auto end = std::string::size_type{0};
  for (auto at = text.find("vgpu_"); at != text.npos;
       at = text.find("vgpu_", end)) {
    end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", at);
    auto name = text.substr(at, end - at);
    for (std::string_view suffix : {"_bucket", "_sum", "_count"})
      if (name.ends_with(suffix))
        name.resize(name.size() - suffix.size());
    BOOST_TEST(known.contains(name), name);
    ++asked;
  }
  BOOST_TEST(asked >= 8);
}

BOOST_AUTO_TEST_SUITE_END()
