// Custom placement policies, loaded from files.
#include "nodes/support/placement_option.hpp"
#include "policies/placement/placement_index.hpp"

#include <boost/test/unit_test.hpp>

using namespace vgpu;
using namespace vgpu::policy;

namespace {

constexpr auto one_gib = std::uint64_t{1} << 30;

std::string why_not(const std::string& text) {
  auto got = read_placement(text);
  return got ? "it was taken" : got.why().what;
}

std::string wrong_object(int which) {
  return std::string{WRONG_POLICIES} + "/libwrong_policy_" +
         std::to_string(which) + ".so";
}

std::string where(const placement_index& index, const demand& what) {
  auto got = index.choose(what);
  if (auto* none = std::get_if<no_place>(&got))
    return none->why;
  return std::get<place>(got).node + "/" +
         std::to_string(std::get<place>(got).pgpus.front());
}

} // namespace

BOOST_AUTO_TEST_SUITE(placement_options)

BOOST_AUTO_TEST_CASE(built_in_policies_have_names) {
  for (auto name : placement_strategy_names) {
    auto got = read_placement(std::string{name});
    BOOST_REQUIRE(got.ok());
    BOOST_TEST(placement_strategy_names[static_cast<std::size_t>(got->how)] ==
               name);
    BOOST_TEST(!got->own);
    BOOST_TEST(placement_range().find(name) != std::string::npos);
  }
  BOOST_TEST(why_not("best") ==
             "placement policy 'best': give " + placement_range());
  BOOST_TEST(why_not("").find("give least-loaded") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_example_policy_decides) {
  auto got = read_placement(FIRST_FIT);
  BOOST_TEST(why_not(FIRST_FIT) == "it was taken");
  BOOST_REQUIRE(got.ok());
  cluster_view cluster{
      {{"b", "h", true, {{0, 8 * one_gib}}},
       {"a", "h", true, {{0, 8 * one_gib}, {1, 8 * one_gib}}}}};
  placement_index index{cluster, got->how, got->own};
  got->own.reset(); // the index holds it now
  demand half;
  half.share = 0.5;
  half.memory = one_gib;
  std::vector<std::string> all;
  for (auto i = 0; i < 6; ++i) {
    all.push_back(where(index, half));
    index.take({all.back().substr(0, 1),
                {static_cast<std::uint32_t>(all.back().back() - '0')}},
               half);
  }
  // The least loaded pGPU would have been another one each time.
  BOOST_TEST((all == std::vector<std::string>{"a/0", "a/0", "a/1", "a/1", "b/0",
                                              "b/0"}));
  BOOST_TEST(where(index, half).starts_with("no node has 1 healthy GPU"));
}

BOOST_AUTO_TEST_CASE(a_file_without_a_policy_is_refused_by_name) {
  const std::pair<std::string, std::string> cases[] = {
      {"./no/such.so", "No such file"},
      {"such.so", "No such file"},
      {"/etc/passwd", ""},
      {"/tmp/", ""},
      {wrong_object(0), "it has no symbol vgpu_placement_interface"},
      {wrong_object(1), "version 3 of the interface, and this program has 2"},
      {wrong_object(2), "it has no symbol vgpu_make_placement_policy"},
      {wrong_object(3), "its constructor failed: no licence"}};
  for (const auto& [path, why] : cases) {
    auto got = why_not(path);
    BOOST_TEST(got.starts_with("placement policy '" + path + "': "), got);
    BOOST_TEST(got.find(why) != std::string::npos, got);
  }
}

BOOST_AUTO_TEST_SUITE_END()
