#include "policies/simulator/trace.hpp"
#include "policies/simulator/workload.hpp"

#include <boost/test/unit_test.hpp>

#include <sstream>

using namespace vgpu;
using namespace vgpu::simulator;

namespace {

result<std::vector<arrival>> read(const std::string& text) {
  std::istringstream from{text};
  return read_trace(from, "t");
}

std::string why_not(const std::string& text) {
  auto got = read(text);
  return got ? "it was read" : got.why().what;
}

} // namespace

BOOST_AUTO_TEST_SUITE(traces)

BOOST_AUTO_TEST_CASE(a_line_describes_a_vgpu) {
  auto got = read("# a comment\n\n"
                  "{\"at\": 7, \"runs\": 60}\r\n"
                  "{\"at\": 0.5, \"runs\": 300, \"share\": 0.25, \"memory\": "
                  "\"8GiB\", \"load\": 0.4, \"host\": \"node3\", "
                  "\"idle-after\": 30, \"idle\": [[20, 600], [0, 5]], "
                  "\"priority\": -5, \"where\": \"any\"}");
  BOOST_REQUIRE(got.ok());
  BOOST_REQUIRE_EQUAL(got->size(), 2u);
  const auto& x = got->front(); // sorted by time
  BOOST_TEST(x.at == 0.5);
  BOOST_TEST(x.runs == 300);
  BOOST_TEST(x.load == 0.4);
  BOOST_TEST(x.host == "node3");
  BOOST_TEST(x.constraints.share == 0.25);
  BOOST_TEST(x.constraints.memory == std::uint64_t{8} << 30);
  BOOST_TEST(x.constraints.priority == -5);
  BOOST_TEST(x.constraints.idle_after_ms == 30'000u);
  BOOST_TEST((x.constraints.where == control::locality::any));
  BOOST_REQUIRE_EQUAL(x.idle.size(), 2u);
  BOOST_TEST(x.idle[0].after == 20);
  BOOST_TEST(x.idle[0].lasts == 600);
  BOOST_TEST((got->back().constraints == control::specification{}));
}

BOOST_AUTO_TEST_CASE(a_wrong_line_is_named_with_its_number) {
  const std::string good = "{\"at\": 0, \"runs\": 1}\n";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"nonsense", "not a JSON object"},
      {"[1, 2]", "not a JSON object"},
      {"{\"at\": 0, \"runs\": 1", "not a JSON object"},
      {"{\"runs\": 1}", "has no \"at\""},
      {"{\"at\": 0}", "has no \"runs\""},
      {"{\"at\": -1, \"runs\": 1}", "at -1"},
      {"{\"at\": 1e300, \"runs\": 1}", "at 1e+300"},
      {"{\"at\": \"soon\", \"runs\": 1}", "at \"soon\""},
      {"{\"at\": 0, \"runs\": 0}", "runs 0"},
      {"{\"at\": 0, \"runs\": null}", "runs null"},
      {"{\"at\": 0, \"runs\": 1, \"share\": 2}", "share '2': give more than 0"},
      {"{\"at\": 0, \"runs\": 1, \"memory\": \"much\"}", "memory 'much'"},
      {"{\"at\": 0, \"runs\": 1, \"gpus\": 65}", "gpus '65': give 1 to 64"},
      {"{\"at\": 0, \"runs\": 1, \"load\": 0}", "load 0"},
      {"{\"at\": 0, \"runs\": 1, \"host\": 5}", "host 5"},
      {"{\"at\": 0, \"runs\": 1, \"idle\": [[1]]}", "idle [[1]]"},
      {"{\"at\": 0, \"runs\": 1, \"idle\": 7}", "idle 7"},
      {"{\"at\": 0, \"runs\": 1, \"idle\": [[0, -1]]}", "idle [[0,-1]]"},
      {"{\"at\": 0, \"runs\": 1, \"idle\": [[2, 1]]}", "the phases begin"},
      {"{\"at\": 0, \"runs\": 1, \"shares\": 1}", "no field 'shares'"},
      {"{\"at\": 0, \"runs\": 1, \"node\": \"\xff\xfe\"}", "not a JSON object"},
      {std::string(100'000, ' '), "longer than 65536 bytes"},
      {std::string(60'000, '['), "not a JSON object"},
      {std::string("{\0}", 3), "not a JSON object"},
  };
  for (const auto& [line, why] : cases) {
    auto got = why_not(good + "# second\n" + line + "\n" + good);
    BOOST_TEST(got.starts_with("t, line 3: "), got);
    BOOST_TEST(got.find(why) != std::string::npos, got);
    BOOST_TEST(got.size() < 500u);
  }
  BOOST_TEST(why_not("") == "t: it contains no vGPU");
  BOOST_TEST(why_not("# nobody\n") == "t: it contains no vGPU");
}

BOOST_AUTO_TEST_CASE(a_written_trace_is_read_back) {
  workload_options options;
  options.vgpus = 500;
  auto made = generate(options, {});
  BOOST_TEST(made.size() == 500u);
  std::ostringstream to;
  write_trace(to, made);
  auto got = read(to.str());
  BOOST_REQUIRE(got.ok());
  BOOST_REQUIRE_EQUAL(got->size(), made.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    const auto& a = made[i];
    const auto& b = (*got)[i];
    BOOST_TEST(a.at == b.at);
    BOOST_TEST(a.runs == b.runs);
    BOOST_TEST(a.load == b.load);
    BOOST_TEST(a.host == b.host);
    BOOST_TEST((a.constraints == b.constraints));
    BOOST_REQUIRE_EQUAL(a.idle.size(), b.idle.size());
    for (std::size_t k = 0; k < a.idle.size(); ++k)
      BOOST_TEST((a.idle[k].after == b.idle[k].after &&
                  a.idle[k].lasts == b.idle[k].lasts));
  }
}

BOOST_AUTO_TEST_CASE(a_seed_determines_the_trace) {
  workload_options options;
  options.vgpus = 2'000;
  options.rate = 4;
  options.run_time = 100;
  auto text = [&] {
    std::ostringstream to;
    write_trace(to, generate(options, {}));
    return to.str();
  };
  auto first = text();
  BOOST_TEST((text() == first));
  options.seed = 2;
  BOOST_TEST((text() != first));
  // Arrivals and run times have the requested means.
  auto made = generate(options, {});
  auto sum = 0.0;
  for (const auto& x : made)
    sum += x.runs;
  BOOST_TEST(std::abs(sum / 2'000 - 100) < 10);
  BOOST_TEST(std::abs(made.back().at - 500) < 50);
}

BOOST_AUTO_TEST_CASE(sizes_are_read_as_shares_with_weights) {
  auto got = read_sizes("0.125:3,0.5,1:0.5");
  BOOST_REQUIRE(got.ok());
  BOOST_REQUIRE_EQUAL(got->size(), 3u);
  BOOST_TEST((*got)[0].weight == 3);
  BOOST_TEST((*got)[1].share == 0.5);
  BOOST_TEST((*got)[1].weight == 1);
  for (const auto* wrong : {"", "0", "2", "0.5,", ",1", "1:", "1:0", "x", "1;1",
                            "nan", "1:inf", "-1", "1::2"})
    BOOST_TEST(!read_sizes(wrong).ok(), wrong);
  std::string many = "1";
  for (auto i = 0; i < 100; ++i)
    many += ",1";
  BOOST_TEST(!read_sizes(many).ok());
}

BOOST_AUTO_TEST_SUITE_END()
