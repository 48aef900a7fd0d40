// What commands do with the answers of a manager that lies.
#include "actors/link/codec.hpp"
#include "actors/link/link_socket.hpp"

#include <boost/test/unit_test.hpp>

#include <sys/wait.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

using namespace vgpu;

namespace {

/// Welcomes every command, and answers each question with one text.
class lying_manager {
public:
  lying_manager() {
    std::string path = std::filesystem::temp_directory_path() / "lyingXXXXXX";
    dir_ = ::mkdtemp(path.data());
    thread_ = std::thread{[this] { run(); }};
    while (!std::filesystem::exists(dir_ + "/m"))
      std::this_thread::yield();
  }
  ~lying_manager() {
    over_ = true;
    thread_.join();
    std::filesystem::remove_all(dir_);
  }

  /// Runs a command, and returns its exit status, or 128 + its signal.
  int run_command(const std::string& line, const std::string& answer) {
    answer_ = answer;
    auto full = "VGPU_MANAGER=ipc://" + dir_ + "/m " VGPU_BIN "/vgpu " + line +
                " >/dev/null 2>&1";
    auto status = std::system(full.c_str());
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

private:
  void run() {
    link_options options;
    options.as = link_options::form::bind;
    options.endpoint = "ipc://" + dir_ + "/m";
    options.name = "manager";
    link_socket socket{zmq_, options};
    while (!over_) {
      (void)socket.connection_changes();
      auto in = socket.receive();
      if (!in) {
        std::vector<pollfd> items;
        socket.add_to(items);
        if (!socket.overlooked())
          ::poll(items.data(), items.size(), 10);
        continue;
      }
      auto got = control::decode(*in);
      auto* what = std::get_if<control::envelope>(&got);
      if (what == nullptr)
        continue;
      control::body answer = control::status_text{answer_};
      if (std::holds_alternative<control::hello>(what->body))
        answer = control::welcome{};
      dispatch out{
          in->peer(), control::encode({"manager", what->request, answer}), {}};
      (void)socket.send(out);
    }
  }

  std::string dir_;
  std::string answer_; // set while no command runs
  std::atomic<bool> over_{false};
  zmq::context_t zmq_;
  std::thread thread_;
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(lying_managers, lying_manager)

BOOST_AUTO_TEST_CASE(answers_without_members_are_errors) {
  const std::string some_node = R"({"manager":{"endpoint":"e","pid":1,)"
                                R"("uptime":1},"vgpus":[],"nodes":[{}]})";
  const std::string some_vgpu = R"({"manager":{"endpoint":"e","pid":1,)"
                                R"("uptime":1},"nodes":[],"vgpus":[{}]})";
  for (std::string answer : {"{}", "[]", "null", "7", "{\"vgpus\":7}", "{"})
    for (std::string line : {"status", "status --detail", "usage",
                             "kill-worker 1", "kill-node a", "run -- true"})
      BOOST_TEST(run_command(line, answer) == 1, line + " " + answer);
  BOOST_TEST(run_command("status", some_node) == 1);
  BOOST_TEST(run_command("status", some_vgpu) == 1);
  BOOST_TEST(run_command("kill-worker 1", some_vgpu) == 1);
  BOOST_TEST(run_command("kill-node a", some_node) == 1);
}

BOOST_AUTO_TEST_CASE(values_deep_in_values_do_not_use_up_the_stack) {
  constexpr std::size_t deep = 1'000'000;
  auto nested = std::string(deep, '[') + std::string(deep, ']');
  BOOST_TEST(run_command("status", R"({"manager":{"endpoint":)" + nested +
                                       R"(,"pid":1,"uptime":1},)"
                                       R"("nodes":[],"vgpus":[]})") == 0);
  BOOST_TEST(run_command("usage --csv",
                         R"({"entries":[{"vgpu":)" + nested + "}]}") == 1);
}

BOOST_AUTO_TEST_SUITE_END()
