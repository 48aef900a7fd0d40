#include "interposer/session/handle_table.hpp"

#include <boost/test/unit_test.hpp>

#include <thread>
#include <vector>

using namespace vgpu::interposer;

BOOST_AUTO_TEST_SUITE(handles)

BOOST_AUTO_TEST_CASE(a_handle_finds_its_object_until_it_is_removed) {
  handle_table<int> table{handle_kind::stream};
  auto h = table.add(std::make_unique<int>(7));
  BOOST_TEST(*table.find(h) == 7);
  BOOST_TEST(*table.remove(h) == 7);
  BOOST_TEST((table.find(h) == nullptr));
  BOOST_TEST((table.remove(h) == nullptr));
}

BOOST_AUTO_TEST_CASE(a_reused_slot_has_another_handle) {
  handle_table<int> table{handle_kind::stream};
  std::vector<std::uint64_t> old;
  for (int i = 0; i < 200; ++i) {
    old.push_back(table.add(std::make_unique<int>(i)));
    table.remove(old.back());
  }
  table.add(std::make_unique<int>(0));
  for (auto h : old)
    BOOST_TEST((table.find(h) == nullptr));
}

BOOST_AUTO_TEST_CASE(other_values_are_refused_as_handles) {
  handle_table<int> streams{handle_kind::stream};
  handle_table<int> events{handle_kind::event};
  auto h = streams.add(std::make_unique<int>(1));
  BOOST_TEST((events.find(h) == nullptr));
  int on_the_stack = 0;
  BOOST_TEST((streams.find(&on_the_stack) == nullptr));
  for (std::uint64_t bad : {std::uint64_t{0}, std::uint64_t{1}, h + 1, h + 16,
                            ~std::uint64_t{0}, h | (std::uint64_t{1} << 60)})
    BOOST_TEST((streams.find(bad) == nullptr));
}

BOOST_AUTO_TEST_CASE(handles_look_like_user_space_pointers) {
  handle_table<int> table{handle_kind::pool};
  auto h = table.add(std::make_unique<int>(1));
  BOOST_TEST(h % 16 == 0U);
  BOOST_TEST((h >> 47) == 0U);
}

BOOST_AUTO_TEST_CASE(many_threads_add_find_and_remove) {
  handle_table<int> table{handle_kind::event};
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5000; ++i) {
        auto h = table.add(std::make_unique<int>(t));
        auto* x = table.find(h);
        if (x == nullptr || *x != t)
          wrong.fetch_add(1);
        if (i % 3 != 0)
          table.remove(h);
      }
    });
  for (auto& t : threads)
    t.join();
  BOOST_TEST(wrong.load() == 0);
  int left = 0;
  table.each([&](std::uint64_t, int&) { ++left; });
  BOOST_TEST(left == 4 * 1667);
}

BOOST_AUTO_TEST_SUITE_END()
