#include "nodes/support/placement_option.hpp"

#include <dlfcn.h>

#include <exception>
#include <filesystem>

namespace vgpu {

namespace {

fault no_policy(const std::string& path, const std::string& why) {
  return {fault_kind::usage, "placement policy '" + path + "': " + why};
}

std::string last_dl_error() {
  const auto* text = ::dlerror();
  return text == nullptr ? "it cannot be loaded" : text;
}

/// Owns a loaded plug-in, which is unloaded with the last object that came from
/// it.
using library = std::shared_ptr<void>;

/// Checks that the plug-in was compiled for this program's version of the
/// interface.
status check_interface(const library& from, const std::string& path) {
  const auto* version = static_cast<const unsigned*>(
      ::dlsym(from.get(), "vgpu_placement_interface"));
  if (version == nullptr)
    return no_policy(path, "it has no symbol vgpu_placement_interface; add "
                           "VGPU_PLACEMENT_POLICY(YOUR_CLASS) of "
                           "policies/placement/placement_plugin.hpp to it");
  if (*version != policy::placement_interface)
    return no_policy(
        path, "it was compiled for version " + std::to_string(*version) +
                  " of the interface, and this program has " +
                  std::to_string(policy::placement_interface) +
                  "; compile it again with "
                  "policies/placement/placement_plugin.hpp of this release");
  return {};
}

/// Loads a user's plug-in by dlopen(), because only its path is known when the
/// program runs. The dynamic linker loads what the plug-in needs. A user who
/// may start a manager may run code in it.
result<placement_choice> load(const std::string& path) {
  std::error_code error;
  auto file = std::filesystem::absolute(path, error);
  library loaded{::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL), [](void* x) {
                   if (x != nullptr)
                     ::dlclose(x);
                 }};
  if (!loaded)
    return no_policy(path, last_dl_error());
  if (auto good = check_interface(loaded, path); !good)
    return good.why();
  using maker = policy::placement_policy* (*)();
  // POSIX represents each symbol as a void pointer, including functions.
  auto make = reinterpret_cast<maker>(
      ::dlsym(loaded.get(), "vgpu_make_placement_policy"));
  if (make == nullptr)
    return no_policy(path, "it has no symbol vgpu_make_placement_policy; add "
                           "VGPU_PLACEMENT_POLICY(YOUR_CLASS) to it");
  try {
    std::unique_ptr<policy::placement_policy> made{make()};
    if (!made)
      return no_policy(path, "vgpu_make_placement_policy returned no policy");
    placement_choice out;
    out.name = file.lexically_normal();
    out.own = {made.release(), [loaded](policy::placement_policy* x) {
                 std::default_delete<policy::placement_policy>{}(x);
               }};
    return out;
  } catch (const std::exception& e) {
    return no_policy(path, std::string{"its constructor failed: "} + e.what());
  }
}

} // namespace

std::string placement_range() {
  std::string out;
  for (auto name : policy::placement_strategy_names)
    out += std::string{name} + ", ";
  out.resize(out.size() - 2);
  return out + " or a shared object such as ./libmine.so";
}

void describe_placement(CLI::App& app, std::string& to) {
  app.add_option("--placement-policy", to,
                 "policy that chooses the GPU of a vGPU: " + placement_range() +
                     " (default: least-loaded)")
      // The path becomes absolute, so that a process with another working
      // directory finds the file.
      ->transform([](std::string text) {
        auto good = read_placement(text);
        if (!good)
          throw CLI::ValidationError{good.why().what};
        return good->name;
      });
}

result<placement_choice> read_placement(const std::string& text) {
  const auto& names = policy::placement_strategy_names;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (text == names[i])
      return placement_choice{text, static_cast<policy::placement_strategy>(i),
                              nullptr};
  if (text.find('/') != std::string::npos || text.ends_with(".so"))
    return load(text);
  return no_policy(text, "give " + placement_range());
}

} // namespace vgpu
