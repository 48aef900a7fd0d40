#include "schema/wire/specification.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

using namespace vgpu;
using namespace vgpu::control;

namespace {

struct values {
  std::vector<std::string> good;
  std::vector<std::string> bad;
};

const std::string longest(32, 'n');

/// Values of every field: the edges of its range, and values outside it.
const std::map<std::string, values> examples{
    {"share", {{"1", "0.001", "0.5"}, {"0", "-0.1", "1.01", "nan", "x", "1x"}}},
    {"limit", {{"1", "0.25"}, {"0", "-1", "2", "inf", "half"}}},
    {"memory",
     {{"by-share", "1", "512MiB", "1.5G"}, {"0", "-1", "much", "9999999999T"}}},
    {"gpus", {{"1", "64"}, {"0", "65", "-1", "two", "1.5"}}},
    {"priority", {{"-1000", "0", "1000"}, {"-1001", "1001", "high", "0.5"}}},
    {"protect", {{"none", "journal", "snapshot"}, {"", "always", "Journal"}}},
    {"node",
     {{"a", "gpu-host_7", longest}, {"", "a b", "../x", longest + "n"}}},
    {"pgpu", {{"0", "1023"}, {"-1", "1024", "first"}}},
    {"backend", {{"cpu", "nvidia"}, {"", "amd", "CPU"}}},
    {"capability",
     {{"1.0", "8.0", "8.9", "12.0", "99.9"},
      {"", "0.9", "100.0", "8", "8.", ".5", "8.10", "-8.0", "8.+", "x"}}},
    {"where", {{"local-first", "local-only", "any"}, {"", "here"}}},
    {"beside", {{"1", "18446744073709551615"}, {"0", "-1", "x"}}},
    {"apart", {{"1", "77"}, {"0", "-3", ""}}},
    {"snapshot-every",
     {{"0.05", "50ms", "10", "2.5s", "86400s"},
      {"", "0", "49ms", "86401", "-1", "10min", "nan", "s"}}},
    {"recover-within",
     {{"0.05", "50ms", "2", "2.5s", "86400s"},
      {"", "0", "49ms", "86401", "-1", "10min", "nan", "s"}}},
    {"protect-cost",
     {{"0", "0.5", "2", "100"}, {"", "-1", "101", "nan", "2%", "little"}}},
    {"on-divergence",
     {{"continue", "error", "snapshot"},
      {"", "fail", "Error", "continue,error", "snapshots"}}},
    {"wait",
     {{"0", "no", "1.5", "1000000", "forever"}, {"-1", "1000001", "never"}}},
    {"idle-after",
     {{"keep", "0.1", "1000000", "2.5"}, {"0", "0.09", "1000001", "never"}}},
    {"group", {{"1", "9223372036854775808"}, {"0", "-1", "x"}}},
};

} // namespace

BOOST_AUTO_TEST_SUITE(specifications)

BOOST_AUTO_TEST_CASE(every_field_has_a_range_that_holds) {
  BOOST_TEST(specification_fields().size() == examples.size());
  for (const auto& field : specification_fields())
    BOOST_TEST_CONTEXT(field.name) {
      BOOST_REQUIRE(examples.contains(field.name));
      const auto& [good, bad] = examples.at(field.name);
      for (const auto& x : good) {
        specification to;
        BOOST_TEST(set_field(to, field.name, x).ok(), x);
        // A field reads its own text.
        specification again;
        BOOST_TEST(set_field(again, field.name, field.get(to)).ok());
        BOOST_CHECK(again == to);
      }
      for (const auto& x : bad) {
        specification to;
        auto got = set_field(to, field.name, x);
        BOOST_REQUIRE(!got.ok());
        BOOST_CHECK(to == specification{});
        const auto& why = got.why().what;
        BOOST_TEST(why.find(field.name) == 0u, why);
        BOOST_TEST(why.find(field.range) != std::string::npos, why);
      }
    }
}

BOOST_AUTO_TEST_CASE(a_wrong_value_is_quoted_in_one_short_line) {
  std::string noise = "x\n\x1b[2J";
  for (const auto& field : specification_fields())
    for (const auto& value : {noise, noise + std::string(100'000, 'y')}) {
      specification to;
      auto got = set_field(to, field.name, value);
      BOOST_REQUIRE(!got.ok());
      const auto& why = got.why().what;
      BOOST_TEST(why.size() < 250u);
      BOOST_TEST(why.find('\n') == std::string::npos);
      BOOST_TEST(why.find('\x1b') == std::string::npos);
      BOOST_TEST(why.find("'x??[2J") != std::string::npos, why);
    }
  specification to;
  BOOST_TEST(set_field(to, std::string(100'000, 'f'), "1").why().what.size() <
             400u);
}

BOOST_AUTO_TEST_CASE(an_unknown_field_is_refused_with_a_list_of_fields) {
  specification to;
  auto got = set_field(to, "shares", "1");
  BOOST_REQUIRE(!got.ok());
  BOOST_TEST(got.why().what.find("'shares'") != std::string::npos);
  for (const auto& field : specification_fields())
    BOOST_TEST(got.why().what.find(field.name) != std::string::npos);
}

BOOST_AUTO_TEST_CASE(variables_are_read_and_named_when_they_are_wrong) {
  for (const auto& field : specification_fields())
    BOOST_TEST_CONTEXT(field.variable) {
      const auto& [good, bad] = examples.at(field.name);
      specification expected;
      BOOST_REQUIRE(set_field(expected, field.name, good.back()).ok());
      ::setenv(field.variable, good.back().c_str(), 1);
      specification got;
      BOOST_TEST(set_from_environment(got).ok());
      BOOST_CHECK(got == expected);
      ::setenv(field.variable, bad.front().empty() ? "?" : bad.front().c_str(),
               1);
      auto wrong = set_from_environment(got);
      ::unsetenv(field.variable);
      BOOST_REQUIRE(!wrong.ok());
      BOOST_TEST(wrong.why().what.find(field.variable) == 0u);
      BOOST_TEST(wrong.why().what.find(field.range) != std::string::npos);
    }
}

BOOST_AUTO_TEST_SUITE_END()
