#include "ping_pong.hpp"

#include "measure.hpp"

#include <zmq.hpp>

#include <csignal>
#include <filesystem>
#include <stdexcept>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace vgpu::bench {

void echo(const std::string& endpoint) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  zmq::context_t zmq;
  zmq::socket_t socket{zmq, zmq::socket_type::pair};
  socket.connect(endpoint);
  for (;;) {
    zmq::message_t message;
    (void)socket.recv(message);
    (void)socket.send(message, zmq::send_flags::none);
  }
}

namespace {

constexpr std::size_t message_bytes = 200;

/// Owns the other process, which ends with this object.
class partner {
public:
  explicit partner(const std::string& endpoint) : pid_(::fork()) {
    if (pid_ < 0)
      throw std::runtime_error{"cannot fork"};
    if (pid_ > 0)
      return;
    auto self = std::filesystem::read_symlink("/proc/self/exe").string();
    ::execl(self.c_str(), self.c_str(), "--echo", endpoint.c_str(),
            static_cast<char*>(nullptr));
    ::_exit(127);
  }
  partner(const partner&) = delete;
  partner& operator=(const partner&) = delete;
  ~partner() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

private:
  pid_t pid_;
};

void zmq_ipc_ping_pong(benchmark::State& state) {
  auto place = std::filesystem::temp_directory_path() /
               ("vgpu-bench-" + std::to_string(::getpid()));
  auto endpoint = "ipc://" + place.string();
  zmq::context_t zmq;
  zmq::socket_t socket{zmq, zmq::socket_type::pair};
  socket.bind(endpoint);
  partner other{endpoint};
  auto round_trip = [&] {
    zmq::message_t message{message_bytes};
    (void)socket.send(message, zmq::send_flags::none);
    (void)socket.recv(message);
  };
  for (int i = 0; i < 100; ++i)
    round_trip();
  measure(state, round_trip);
  std::filesystem::remove(place);
}
BENCHMARK(zmq_ipc_ping_pong)->UseManualTime()->Unit(benchmark::kMicrosecond);

} // namespace

} // namespace vgpu::bench
