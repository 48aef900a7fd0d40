#include "interposer/context/context_storage.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <vector>

using namespace vgpu::interposer;

namespace {

std::vector<std::pair<void*, void*>> destroyed;
void remember(CUcontext, void* key, void* value) {
  destroyed.emplace_back(key, value);
}

} // namespace

BOOST_AUTO_TEST_SUITE(storage)

BOOST_AUTO_TEST_CASE(values_are_kept_by_key) {
  context_storage s;
  std::array<char, 100> keys{};
  void* value = nullptr;
  BOOST_TEST(!s.get(&keys[0], value));
  // These are more than fit into one block.
  for (auto& k : keys)
    BOOST_TEST(s.put(&k, &k + 1, nullptr));
  for (auto& k : keys) {
    BOOST_TEST(s.get(&k, value));
    BOOST_TEST(value == &k + 1);
  }
  s.put(&keys[3], nullptr, nullptr);
  BOOST_TEST(s.get(&keys[3], value));
  BOOST_TEST((value == nullptr));
  BOOST_TEST(!s.put(nullptr, value, nullptr));
}

BOOST_AUTO_TEST_CASE(clearing_runs_destructors_and_removing_does_not) {
  destroyed.clear();
  context_storage s;
  int a = 0, b = 0;
  s.put(&a, &a, remember);
  s.put(&b, &b, remember);
  BOOST_TEST(s.remove(&a));
  BOOST_TEST(!s.remove(&a));
  BOOST_TEST(destroyed.empty());
  s.clear(nullptr);
  BOOST_REQUIRE(destroyed.size() == 1U);
  BOOST_TEST(destroyed[0].first == &b);
  void* value = nullptr;
  BOOST_TEST(!s.get(&b, value));
}

BOOST_AUTO_TEST_SUITE_END()
