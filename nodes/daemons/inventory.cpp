#include "nodes/daemons/inventory.hpp"

#include "actors/link/log.hpp"
#include "devices/cpu/cpu_device.hpp"
#include "devices/nvidia/nvidia_device.hpp"
#include "nodes/support/paths.hpp"
#include "schema/wire/specification.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>

namespace vgpu {

namespace {

control::device_facts facts_of(const device::properties& x) {
  control::device_facts out;
  out.name = x.name;
  out.uuid = x.uuid;
  out.total_memory = x.total_memory;
  out.attributes = {x.attributes.begin(), x.attributes.end()};
  return out;
}

/// Mixes the node's name into a UUID, because nodes number their devices alike
/// but UUIDs must differ.
void mark_with(control::device_facts& facts, const std::string& node) {
  auto mark = std::hash<std::string>{}(node);
  for (auto& x : facts.uuid) {
    x ^= static_cast<std::byte>(mark);
    mark = mark >> 8 | mark << 56;
  }
}

/// Returns what the program writes to stdout. When it fails, the fault has
/// everything it wrote.
result<std::string> output_of(const std::string& program,
                              const std::string& argument) {
  auto fail = [&](const std::string& why) {
    return fault{fault_kind::system, program + ": " + why};
  };
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return fail(std::strerror(errno));
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  for (auto to : {STDOUT_FILENO, STDERR_FILENO})
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], to);
  char* const argv[] = {const_cast<char*>(program.c_str()),
                        const_cast<char*>(argument.c_str()), nullptr};
  pid_t child = 0;
  auto error =
      ::posix_spawn(&child, program.c_str(), &actions, nullptr, argv, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string out;
  char part[4096];
  for (ssize_t n = 0;
       error == 0 && (n = ::read(ends[0], part, sizeof part)) > 0;)
    out.append(part, static_cast<std::size_t>(n));
  ::close(ends[0]);
  if (error != 0)
    return fail(std::strerror(error));
  auto status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR)
    continue;
  if (status == 0)
    return out;
  while (!out.empty() && out.back() == '\n')
    out.pop_back();
  return fault{fault_kind::no_device, out};
}

std::vector<control::pgpu> cpu_pgpus(const inventory_options& x) {
  std::vector<control::pgpu> out;
  for (auto i = 0u; i < x.gpus; ++i) {
    device::cpu_options shape;
    shape.ordinal = static_cast<int>(i);
    shape.memory = x.memory;
    shape.capability =
        control::read_capability(x.capability).value_or(shape.capability);
    auto facts = facts_of(device::cpu_properties(shape));
    mark_with(facts, x.node);
    out.push_back({i, "cpu", std::move(facts)});
  }
  return out;
}

result<std::vector<control::pgpu>> nvidia_pgpus() {
  auto text = output_of(sibling("vgpu-worker"), "--list-nvidia");
  if (!text)
    return text.why();
  auto all = device::read_properties(*text);
  if (!all)
    return all.why();
  if (all->empty())
    return fault{fault_kind::no_device, "the NVIDIA driver reports no GPU"};
  // A worker's context and modules take some of a device's memory, and the
  // memory that is promised to programs must exist.
  constexpr auto of_context = std::uint64_t{1} << 30;
  std::vector<control::pgpu> out;
  for (auto& x : *all) {
    x.total_memory -= std::min(x.total_memory / 2, of_context);
    out.push_back(
        {static_cast<std::uint32_t>(out.size()), "nvidia", facts_of(x)});
  }
  return out;
}

} // namespace

result<std::vector<control::pgpu>> take_inventory(const inventory_options& x) {
  if (x.device == "cpu")
    return cpu_pgpus(x);
  if (x.device == "nvidia")
    return nvidia_pgpus();
  if (x.device != "auto")
    return fault{fault_kind::usage,
                 "device '" + x.device + "': give cpu, nvidia or auto"};
  if (!device::nvidia_driver_present())
    return cpu_pgpus(x);
  auto real = nvidia_pgpus();
  if (real)
    return real;
  spdlog::warn("Falling back to the software GPU: {}", real.why().what);
  return cpu_pgpus(x);
}

} // namespace vgpu
