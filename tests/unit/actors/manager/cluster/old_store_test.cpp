// Stores of earlier versions can be read, as docs/compatibility.md promises.
#include "actors/manager/cluster/store.hpp"

#include "actors/records/directory.hpp"

#include <boost/test/unit_test.hpp>
#include <xxhash.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

using namespace vgpu;

namespace {

/// The store that a killed manager of 0.1.0 left: a session runs, and its node
/// is drained.
constexpr auto store_of_0_1 = R"store(9a53205d552da4dd {"last":[0,0]}
9d0420ac6da81dc3 {"until":[0,0],"usage":0}
7eec40ae5876ac67 {"event":{"epoch":0,"kind":"node-joined","node":"a","number":1,"session":0,"text":"a joined with 1 pGPU(s)","time":1795729299.0250614,"vgpu":0}}
f90b08536a0362ba {"session":{"aside":false,"client":"client/vm-10681","endpoint":"ipc:///tmp/user-0/vgpu/worker-a-1-1.sock","epoch":1,"guest_socket":"vgpu-worker-1-11491967964230222316","had_lease":true,"held":false,"host":"a3c2ce0e-24ad-43fc-9e27-5202230a89a4/4026531833","id":1,"largest_quota":67108864,"node":"a","pgpus":[0],"pid":10694,"preempted":false,"program":{"host":"a3c2ce0e-24ad-43fc-9e27-5202230a89a4/4026531833","name":"vector_add","pid":10658,"user":"0"},"quota":67108864,"reason":"first","spec":{"apart":0,"backend":"","beside":0,"capability":0,"gpus":1,"group":6404239846,"idle_after_ms":4294967295,"limit":1.0,"memory":67108864,"priority":0,"protection":1,"share":1.0,"snapshot_ms":10000,"wait_ms":4294967295,"wanted_node":"","wanted_pgpu":-1,"where":0},"stage":"running","tokens":[[1,640139044326415873]],"vgpu":1}}
f8d049712bc11c5e {"account":{"closed":false,"owner":[1,"vm","0","vector_add"],"settled":0,"told":[[1,{"device_ns":88889428,"from_device":4194304,"memory_kib_ms":5723051,"replay_bytes":0,"replay_ns":0,"to_device":8388608}]],"total":{"device_ns":88889428,"from_device":4194304,"memory_kib_ms":5723051,"replay_bytes":0,"replay_ns":0,"to_device":8388608}},"rows":[[1795729260,[1,"vm","0","vector_add"],{"device_ns":88889428,"from_device":4194304,"memory_kib_ms":5723051,"replay_bytes":0,"replay_ns":0,"to_device":8388608}]],"usage":1}
a7d66fc13a5d71a7 {"drained":["a",true]}
)store";

/// A folder with a store.
struct old_folder {
  std::filesystem::path dir;

  old_folder() {
    std::string name = std::filesystem::temp_directory_path() / "oldXXXXXX";
    dir = ::mkdtemp(name.data());
  }
  ~old_folder() { std::filesystem::remove_all(dir); }

  std::unique_ptr<store> open(const std::string& lines) const {
    std::ofstream{dir / "store"} << lines;
    auto out = store::open(dir / "store");
    BOOST_REQUIRE(out.ok());
    return std::move(*out);
  }
};

std::string signed_line(const std::string& line) {
  char sum[17];
  std::snprintf(
      sum, sizeof(sum), "%016llx",
      static_cast<unsigned long long>(XXH3_64bits(line.data(), line.size())));
  return std::string{sum} + " " + line + "\n";
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(old_stores, old_folder)

BOOST_AUTO_TEST_CASE(a_store_of_0_1_is_read_whole) {
  auto x = open(store_of_0_1);
  const auto& got = x->state();
  BOOST_TEST(got.damaged == 0u);
  BOOST_TEST(got.last_session == 1u);
  BOOST_TEST(got.last_vgpu == 1u);
  BOOST_REQUIRE(got.sessions.size() == 1u);
  const auto& session = got.sessions.at({1});
  BOOST_TEST(session.vgpu.value == 1u);
  BOOST_TEST(session.epoch.value == 1u);
  BOOST_TEST(session.token() == 640139044326415873u);
  BOOST_CHECK(session.stage == session_stage::running);
  BOOST_TEST(session.where.node == "a");
  BOOST_TEST(session.quota == 64u << 20);
  BOOST_TEST(session.program.name == "vector_add");
  BOOST_TEST(session.had_lease);
  BOOST_REQUIRE(got.events.size() == 1u);
  BOOST_TEST(got.events[0].node == "a");
  BOOST_CHECK(got.drained == std::set<std::string>{"a"});
}

BOOST_AUTO_TEST_CASE(lines_of_a_later_version_are_ignored) {
  auto x = open(signed_line(R"({"made_up_later":[1,2,3]})") + store_of_0_1);
  BOOST_TEST(x->state().damaged == 0u);
  BOOST_TEST(x->state().sessions.size() == 1u);
}

BOOST_AUTO_TEST_CASE(values_deep_in_values_do_not_use_up_the_stack) {
  std::string line = store_of_0_1;
  line = line.substr(line.find("{\"session\""));
  line = line.substr(0, line.find('\n'));
  const std::string stage = "\"running\"";
  constexpr std::size_t deep = 1'000'000;
  line.replace(line.find(stage), stage.size(),
               std::string(deep, '[') + std::string(deep, ']'));
  auto x = open(signed_line(line));
  BOOST_TEST(x->state().sessions.size() == 1u);
}

BOOST_AUTO_TEST_CASE(impossible_places_and_times_count_as_none) {
  std::string line = store_of_0_1;
  line = line.substr(line.find("{\"session\""));
  line = line.substr(0, line.find('\n'));
  line.replace(line.find("\"where\":0"), 9, "\"where\":77");
  auto late = std::to_string(std::numeric_limits<std::int64_t>::max());
  auto use = R"({"usage":1,"rows":[[)" + late +
             R"(,[1,"vm","0","p"],{"device_ns":5,"from_device":0,)"
             R"("memory_kib_ms":0,"replay_bytes":0,"replay_ns":0,)"
             R"("to_device":0}]]})";
  auto until = R"({"usage":0,"until":[)" + late + "," + late + "]}";
  auto x = open(signed_line(line) + signed_line(use) + signed_line(until));
  const auto& got = x->state();
  BOOST_TEST(got.damaged == 0u);
  BOOST_CHECK(got.sessions.at({1}).spec.where ==
              control::locality::local_first);
  // The use counts, at a time that can be reckoned with.
  auto bill = got.usage.summary(0, "user", 1e9);
  BOOST_TEST(bill.dump().find("device_seconds") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
