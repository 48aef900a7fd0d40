#include "nodes/cluster/embedded_cluster.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace vgpu {

namespace {

/// Returns whether VGPU_LOG asks for logs.
bool logs_wanted() {
  auto* level = std::getenv("VGPU_LOG");
  return level != nullptr && *level != '\0';
}

} // namespace

result<std::unique_ptr<embedded_cluster>>
embedded_cluster::start(cluster_options options) {
  auto fail = [](const std::string& what) {
    return fault{fault_kind::system, what + ": " + std::strerror(errno)};
  };
  auto* chosen = std::getenv("TMPDIR");
  std::string dir = chosen != nullptr && *chosen != '\0' ? chosen : "/tmp";
  dir += "/vgpu-run-XXXXXX";
  if (::mkdtemp(dir.data()) == nullptr)
    return fail("cannot create the directory " + dir);
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) {
    ::rmdir(dir.c_str());
    return fail("pipe");
  }
  options.run_dir = dir;
  launch_ties ties;
  ties.owner_fd = pipe[0];
  ties.inherit_stderr = logs_wanted();
  ties.remove_run_dir = true;
  ties.all_devices = true;
  auto up = launch_cluster(options, ties);
  ::close(pipe[0]);
  if (!up) {
    ::close(pipe[1]);
    std::error_code ignored;
    std::filesystem::remove_all(dir, ignored);
    return up.why();
  }
  return std::unique_ptr<embedded_cluster>{
      new embedded_cluster{std::move(*up), pipe[1]}};
}

embedded_cluster::~embedded_cluster() {
  ::close(owner_);
  end_processes(record_);
  std::error_code ignored;
  std::filesystem::remove_all(record_.run_dir, ignored);
}

} // namespace vgpu
