#include "nodes/cli/trace_events.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

using nlohmann::json;
using vgpu::command::trace_events;

// KIND CORRELATION DEVICE CONTEXT STREAM THREAD CALLED RECEIVED SUBMITTED
// REACHED BEGAN ENDED RESULT WAITS FROM TO BYTES GRID BLOCK SHARED REGISTERS
// NAME
const std::string example_trace =
    "vgpu-trace\t1\t42\t/usr/bin/saxpy\n"
    "call\t7\t0\t1\t0\t43\t1000000\t0\t0\t0\t1000000\t1002000\t0\t4\t2\t2\t0\t"
    "0,0,0\t0,0,0\t0\t0\tcuLaunchKernel\n"
    "kernel\t7\t0\t1\t3\t43\t1000000\t1010000\t1030000\t1060000\t1100000\t"
    "1200000\t0\t4\t2\t2\t0\t4,1,1\t256,1,1\t64\t32\t_Z5scalePfi\n"
    "copy\t8\t0\t1\t3\t43\t1200000\t1200010\t1200020\t1200030\t1200040\t"
    "1300000\t0\t4\t0\t2\t4096\t0,0,0\t0,0,0\t0\t0\t\n"
    "wait\t9\t0\t1\t3\t43\t1300000\t0\t0\t0\t1300000\t1400000\t0\t3\t2\t2\t0\t"
    "0,0,0\t0,0,0\t0\t0\tcuStreamSynchronize\n"
    "dropped\t5\n";

struct read_trace {
  json read(const std::string& text) {
    std::istringstream from{text};
    trace_events events;
    auto ok = events.add(from);
    BOOST_REQUIRE(ok.ok());
    std::ostringstream to;
    summary = events.write(to);
    return json::parse(to.str());
  }
  static std::vector<json> of(const json& all, const char* category,
                              const char* phase = "X") {
    std::vector<json> out;
    for (const auto& x : all.at("traceEvents"))
      if (x.value("cat", "") == category && x.at("ph") == phase)
        out.push_back(x);
    return out;
  }
  vgpu::command::trace_summary summary;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(trace_events_suite, read_trace)

BOOST_AUTO_TEST_CASE(work_has_its_times_from_the_first_call_on) {
  auto all = read(example_trace);
  auto kernels = of(all, "kernel");
  BOOST_REQUIRE(kernels.size() == 1u);
  const auto& k = kernels.front();
  BOOST_TEST(k.at("name") == "scale(float*, int)");
  BOOST_TEST(k.at("ts") == 100.0);
  BOOST_TEST(k.at("dur") == 100.0);
  BOOST_TEST(k.at("tid") == 3);
  BOOST_TEST(k.at("args").at("grid") == "4,1,1");
  auto copies = of(all, "copy");
  BOOST_REQUIRE(copies.size() == 1u);
  BOOST_TEST(copies.front().at("name") == "memcpy pageable to device");
  BOOST_TEST(copies.front().at("args").at("bytes") == 4096);
  auto calls = of(all, "call");
  BOOST_REQUIRE(calls.size() == 1u);
  BOOST_TEST(calls.front().at("pid") == 42);
  BOOST_TEST(calls.front().at("tid") == 43);
  auto waits = of(all, "wait");
  BOOST_REQUIRE(waits.size() == 1u);
  BOOST_TEST(waits.front().at("name") == "wait for stream");
}

BOOST_AUTO_TEST_CASE(waiting_shows_apart_by_its_reason) {
  auto all = read(example_trace);
  std::map<std::string, double> lengths;
  auto begins = of(all, "waiting", "b");
  auto ends = of(all, "waiting", "e");
  BOOST_REQUIRE(begins.size() == ends.size());
  for (std::size_t i = 0; i < begins.size(); ++i) {
    BOOST_TEST(begins[i].at("id") == ends[i].at("id"));
    lengths[begins[i].at("name")] +=
        ends[i].at("ts").get<double>() - begins[i].at("ts").get<double>();
  }
  BOOST_TEST(lengths.size() == 3u);
  BOOST_TEST(lengths["transfer"] == 10.0, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(lengths["waiting for share"] == 60.0,
             boost::test_tools::tolerance(1e-9));
  BOOST_TEST(lengths["queueing"] == 30.0, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(a_call_and_its_work_are_joined) {
  auto all = read(example_trace);
  auto from = of(all, "work", "s");
  auto to = of(all, "work", "f");
  BOOST_REQUIRE(from.size() == 2u);
  BOOST_REQUIRE(to.size() == 2u);
  BOOST_TEST(from.front().at("id") == to.front().at("id"));
  BOOST_TEST(from.front().at("pid") == 42);
}

BOOST_AUTO_TEST_CASE(the_summary_counts) {
  (void)read(example_trace);
  BOOST_TEST(summary.processes == 1u);
  BOOST_TEST(summary.kernels == 1u);
  BOOST_TEST(summary.copies == 1u);
  BOOST_TEST(summary.waits == 1u);
  BOOST_TEST(summary.calls == 1u);
  BOOST_TEST(summary.dropped == 5u);
}

BOOST_AUTO_TEST_CASE(a_killed_programs_last_line_is_ignored) {
  auto all = read(example_trace.substr(0, example_trace.size() - 4));
  BOOST_TEST(summary.dropped == 0u);
  BOOST_TEST(summary.kernels == 1u);
}

BOOST_AUTO_TEST_CASE(what_is_no_trace_is_refused) {
  for (auto text : {"hello\n", "vgpu-trace\t99\t1\tx\n", "vgpu-trace\n"}) {
    std::istringstream from{text};
    trace_events events;
    BOOST_TEST(!events.add(from).ok());
  }
}

BOOST_AUTO_TEST_CASE(nothing_is_an_empty_trace) {
  std::ostringstream to;
  BOOST_TEST(trace_events{}.write(to).processes == 0u);
  BOOST_TEST(json::parse(to.str()).at("traceEvents").empty());
}

BOOST_AUTO_TEST_SUITE_END()
