#include "schema/base/endpoints.hpp"

#include "schema/base/own_environment.hpp"

#include <xxhash.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include <unistd.h>

namespace vgpu {

namespace {

std::string environment(const char* name) {
  const auto* text = setting(name);
  return text == nullptr ? std::string{} : std::string{text};
}

} // namespace

std::string default_run_dir() {
  auto folder = environment("XDG_RUNTIME_DIR");
  return folder.empty() ? "/tmp/vgpu-" + std::to_string(::geteuid())
                        : folder + "/vgpu";
}

std::string endpoint_in(const std::string& run_dir) {
  return "ipc://" + run_dir + "/manager.sock";
}

std::string chosen_manager() {
  return environment("VGPU_MANAGER");
}

std::string default_endpoint(const std::string& run_dir) {
  auto chosen = chosen_manager();
  return chosen.empty() ? endpoint_in(run_dir) : chosen;
}

std::string chosen_transport() {
  auto chosen = environment("VGPU_TRANSPORT");
  return chosen.empty() ? "auto" : chosen;
}

std::string client_socket_name(const std::string& manager,
                               const std::string& transport) {
  auto both = transport + " " + manager;
  std::array<char, 17> digits{};
  std::snprintf(
      digits.data(), digits.size(), "%016llx",
      static_cast<unsigned long long>(XXH64(both.data(), both.size(), 0)));
  return "vgpu-client-" + std::to_string(::geteuid()) + "-" + digits.data();
}

} // namespace vgpu
