// A process that is checkpointed and restored, with a driver that fails at each
// step.
#include "devices/nvidia/checkpoint.hpp"
#include "schema/base/cuda_fault.hpp"
#include "tests/unit/devices/nvidia/nvidia_fixture.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>

using namespace vgpu;
using namespace vgpu::test;
namespace data_of = boost::unit_test::data;

namespace {

constexpr int pid = 4711;

struct processes : test::fake {
  static void is(int state, const char* failing = "") {
    call<void(int, int, const char*)>("fake_process")(pid, state, failing);
  }
  static int state() { return call<int(int)>("fake_process_state")(pid); }
};

const int states[] = {CU_PROCESS_STATE_RUNNING, CU_PROCESS_STATE_LOCKED,
                      CU_PROCESS_STATE_CHECKPOINTED};

} // namespace

BOOST_AUTO_TEST_SUITE(process_checkpoints)

/// An earlier attempt may have ended at any step.
BOOST_DATA_TEST_CASE_F(processes, a_checkpoint_works_from_any_state,
                       data_of::make(states), from) {
  is(from);
  BOOST_TEST(nvidia::checkpoint_process(*api, pid).ok());
  BOOST_TEST(state() == CU_PROCESS_STATE_CHECKPOINTED);
  is(from);
  BOOST_TEST(nvidia::restore_process(*api, pid).ok());
  BOOST_TEST(state() == CU_PROCESS_STATE_RUNNING);
}

BOOST_FIXTURE_TEST_CASE(a_failed_checkpoint_leaves_the_process_running,
                        processes) {
  for (const auto* step : {"state", "lock", "checkpoint"}) {
    is(CU_PROCESS_STATE_RUNNING, step);
    auto ok = nvidia::checkpoint_process(*api, pid);
    BOOST_TEST((cuda_code(ok) == CUDA_ERROR_NOT_SUPPORTED));
    BOOST_TEST(state() == CU_PROCESS_STATE_RUNNING);
  }
}

BOOST_FIXTURE_TEST_CASE(a_failed_restore_is_reported, processes) {
  is(CU_PROCESS_STATE_FAILED);
  BOOST_TEST(!nvidia::restore_process(*api, pid).ok());
  is(CU_PROCESS_STATE_CHECKPOINTED, "restore");
  BOOST_TEST(!nvidia::restore_process(*api, pid).ok());
  is(CU_PROCESS_STATE_LOCKED, "unlock");
  BOOST_TEST(!nvidia::restore_process(*api, pid).ok());
}

BOOST_FIXTURE_TEST_CASE(an_old_driver_does_not_change_the_process, processes) {
  auto old = *api;
  old.cuCheckpointProcessRestore = nullptr;
  is(CU_PROCESS_STATE_RUNNING);
  BOOST_TEST(!nvidia::can_checkpoint(old));
  BOOST_TEST((cuda_code(nvidia::checkpoint_process(old, pid)) ==
              CUDA_ERROR_NOT_SUPPORTED));
  BOOST_TEST(state() == CU_PROCESS_STATE_RUNNING);
}

BOOST_AUTO_TEST_SUITE_END()
