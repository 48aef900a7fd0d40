// A worker whose device cannot have what the program has: it ends, and another
// one tries.
#include "tests/unit/actors/data_plane_fixture.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>

using namespace vgpu;
using namespace vgpu::test;
using namespace std::chrono_literals;

namespace {

/// A sample says where the second worker is. In one process only one worker can
/// map the program's log, so the others are forwarded where it maps the log.
struct placed_world : world {
  placed_world() { variable = std::make_shared<std::uint32_t>(0); }

  /// Lets the modules of later workers have their variable at another address.
  std::shared_ptr<std::uint32_t> moves_variable() {
    return std::exchange(variable, std::make_shared<std::uint32_t>(0));
  }

  bool is_unnoticed() {
    return area.header().sticky_error.load() == 0 &&
           !told("replay-differs", 0ms) && !told("session-lost", 0ms);
  }
};

} // namespace

BOOST_AUTO_TEST_SUITE(unlike_workers)

BOOST_DATA_TEST_CASE_F(placed_world, variables_elsewhere_end_the_worker,
                       boost::unit_test::data::make(both)) {
  auto first = begin(transport::automatic, !sample.same_host);
  add(4);
  BOOST_TEST(read_counter() == 4u);
  kill(first);
  // Nobody has executed these yet.
  add(1);
  begin_read(2);
  auto former = moves_variable();
  auto second = start_worker(2, sample.same_host);
  lease(2, second);
  auto why = end_of_a_worker();
  BOOST_TEST(why.find("cannot be like the worker before it") !=
                 std::string::npos,
             why);
  BOOST_TEST(why.find("the variables of module 7 lie elsewhere") !=
                 std::string::npos,
             why);
  BOOST_TEST(is_unnoticed());
  kill(second);
  variable = former;
  lease(3, start_worker(3, false));
  BOOST_TEST((answer_of(2) == CUDA_SUCCESS));
  BOOST_TEST(read_counter() == 5u);
  BOOST_TEST(told("session-replayed"));
  BOOST_TEST(is_unnoticed());
}

/// Modules that nobody has seen may lie anywhere.
BOOST_DATA_TEST_CASE_F(placed_world, an_unseen_module_may_lie_anywhere,
                       boost::unit_test::data::make(both)) {
  connect(transport::automatic);
  auto first = start_worker(1, !sample.same_host);
  lease(1, first);
  BOOST_TEST((ask(call::device_sync{}) == CUDA_SUCCESS));
  kill(first);
  load();
  moves_variable();
  lease(2, start_worker(2, sample.same_host));
  BOOST_TEST((answer_of(1) == CUDA_SUCCESS));
  BOOST_TEST(is_unnoticed());
}

BOOST_AUTO_TEST_SUITE_END()
