#include "nodes/sandbox/worker_groups.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>

namespace vgpu {

namespace {

constexpr std::string_view prefix = "vgpu-node-";

/// Writes to a file of the kernel. Returns 0, or the error.
int put(const std::string& file, const std::string& text) {
  auto fd = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0)
    return errno;
  auto n = ::write(fd, text.data(), text.size());
  auto code = n == static_cast<ssize_t>(text.size()) ? 0 : errno;
  ::close(fd);
  return code;
}

bool contains(std::string_view list, std::string_view word, char between) {
  std::istringstream in{std::string{list}};
  for (std::string x; std::getline(in, x, between);)
    if (x == word)
      return true;
  return false;
}

/// Returns this process's group in a hierarchy: the line of /proc/self/cgroup
/// that names the controller, or the unified one for an empty name.
std::string own_group(std::string_view controller) {
  std::ifstream in{"/proc/self/cgroup"};
  for (std::string line; std::getline(in, line);) {
    auto first = line.find(':');
    auto second = line.find(':', first + 1);
    if (second == std::string::npos)
      continue;
    auto names = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? names.empty() : contains(names, controller, ','))
      return line.substr(second + 1);
  }
  return {};
}

/// Returns the folder of this process's group, or an empty string where the
/// hierarchy is not mounted.
std::string own_folder(std::string_view controller) {
  auto group = own_group(controller);
  std::ifstream in{"/proc/self/mountinfo"};
  for (std::string line; !group.empty() && std::getline(in, line);) {
    std::istringstream words{line};
    std::string skip, root, point, word, type, source, options;
    words >> skip >> skip >> skip >> root >> point;
    while (words >> word && word != "-")
      continue;
    words >> type >> source >> options;
    if (controller.empty()
            ? type != "cgroup2"
            : type != "cgroup" || !contains(options, controller, ','))
      continue;
    // A container sees a part of the hierarchy.
    if (root != "/" && group.starts_with(root))
      group.erase(0, root.size());
    return point + (group == "/" ? "" : group);
  }
  return {};
}

std::string own_name() {
  return std::string{prefix} + std::to_string(::getpid());
}

/// Removes a folder of groups, which must be empty, and the groups in it.
void remove_groups(const std::string& folder) {
  std::error_code ignored;
  for (const auto& x : std::filesystem::directory_iterator{folder, ignored})
    if (x.is_directory(ignored))
      ::rmdir(x.path().c_str());
  ::rmdir(folder.c_str());
}

/// Removes what processes left that were killed.
void remove_former(const std::string& beside) {
  std::error_code ignored;
  for (const auto& x : std::filesystem::directory_iterator{beside, ignored}) {
    auto name = x.path().filename().string();
    if (!name.starts_with(prefix))
      continue;
    auto pid = std::atoi(name.c_str() + prefix.size());
    if (pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH)
      remove_groups(x.path());
  }
}

/// Makes the node's folder in its group. Returns 0, or the error.
int make_folder(const std::string& in, std::string& out) {
  remove_former(in);
  out = in + "/" + own_name();
  return ::mkdir(out.c_str(), 0755) == 0 ? 0 : errno;
}

} // namespace

worker_groups::worker_groups(sandbox_report& report) {
  if (open_unified(report) || open_separate(report))
    return;
}

/// Uses the unified hierarchy (version 2), if it has the controllers. Returns
/// whether it reported.
bool worker_groups::open_unified(sandbox_report& report) {
  auto here = own_folder("");
  std::string controllers;
  std::getline(std::ifstream{here + "/cgroup.controllers"}, controllers);
  if (here.empty() || !contains(controllers, "memory", ' ') ||
      !contains(controllers, "pids", ' '))
    return false;
  std::string folder;
  auto code = make_folder(here, folder);
  // The kernel permits this only where no process is in the group itself, as
  // in a group that a service manager delegates.
  if (code == 0)
    code = put(here + "/cgroup.subtree_control", "+memory +pids");
  if (code == 0)
    code = put(folder + "/cgroup.subtree_control", "+memory +pids");
  if (code == 0) {
    all_.push_back({folder, "memory.max", "memory.swap.max", "pids.max"});
    report.has("cgroup");
    return true;
  }
  ::rmdir(folder.c_str());
  report.lacks("cgroup", code == EBUSY ? "processes are in the node's own group"
                                       : std::strerror(code));
  return true;
}

/// Uses a hierarchy for each controller (version 1).
bool worker_groups::open_separate(sandbox_report& report) {
  auto code = ENOENT;
  for (const auto* controller : {"memory", "pids"}) {
    auto here = own_folder(controller);
    std::string folder;
    if (here.empty() || (code = make_folder(here, folder)) != 0)
      continue;
    auto memory = controller == std::string_view{"memory"};
    all_.push_back({folder, memory ? "memory.limit_in_bytes" : nullptr, nullptr,
                    memory ? nullptr : "pids.max"});
  }
  if (all_.size() == 2)
    report.has("cgroup");
  else
    report.lacks("cgroup", std::strerror(code));
  return true;
}

worker_groups::~worker_groups() {
  for (const auto& x : all_)
    remove_groups(x.folder);
}

std::vector<std::string>
worker_groups::make(std::uint64_t worker, std::uint64_t bytes, unsigned tasks) {
  std::vector<std::string> out;
  for (const auto& x : all_) {
    auto folder = x.folder + "/" + std::to_string(worker);
    if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST)
      continue;
    if (x.tasks != nullptr)
      (void)put(folder + "/" + x.tasks, std::to_string(tasks));
    out.push_back(folder + "/cgroup.procs");
  }
  workers_.insert(worker);
  limit(worker, bytes);
  return out;
}

void worker_groups::limit(std::uint64_t worker, std::uint64_t bytes) {
  if (!workers_.contains(worker))
    return;
  for (const auto& x : all_) {
    auto folder = x.folder + "/" + std::to_string(worker) + "/";
    if (x.memory != nullptr)
      (void)put(folder + x.memory, std::to_string(bytes));
    // Hosts without an account of swap have no such file.
    if (x.swap != nullptr)
      (void)put(folder + x.swap, "0");
  }
}

void worker_groups::remove(std::uint64_t worker) {
  if (workers_.erase(worker) == 0)
    return;
  for (const auto& x : all_)
    ::rmdir((x.folder + "/" + std::to_string(worker)).c_str());
}

std::uint64_t memory_of_worker(std::uint64_t quota) {
  constexpr auto least = std::uint64_t{4} << 30;
  struct sysinfo host {};
  if (::sysinfo(&host) != 0)
    return std::numeric_limits<std::int64_t>::max();
  auto half = std::uint64_t{host.totalram} * host.mem_unit / 2;
  constexpr auto most =
      std::uint64_t{std::numeric_limits<std::int64_t>::max()} / 4;
  return 2 * std::min(quota, most) + std::max(least, half);
}

} // namespace vgpu
