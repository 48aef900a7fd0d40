// Modules and libraries: what a worker has loaded, and what the program may
// ask of it.
#pragma once

#include "interposer/context/context.hpp"
#include "interposer/session/handle_table.hpp"
#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vgpu::interposer {

struct module;
struct library;

struct parameter {
  std::uint32_t offset = 0;
  std::uint32_t size = 0;
};

/// A kernel of a loaded module. Its strings and lists do not change.
struct function {
  static constexpr int attribute_limit = 32;

  module* in = nullptr;
  std::uint32_t index = 0;
  std::string name;
  std::vector<parameter> parameters;
  std::uint32_t parameter_bytes = 0;
  /// By CUfunction_attribute; 0 where the device told nothing.
  std::array<std::atomic<int>, attribute_limit> attributes{};
  CUfunction handle = nullptr;
  /// It was launched, so that the device has its code.
  mutable std::atomic<bool> launched{false};

  int attribute(int key) const noexcept {
    return attributes[static_cast<std::size_t>(key)].load(
        std::memory_order_relaxed);
  }
};

struct global_variable {
  std::string name;
  CUdeviceptr address = 0;
  std::uint64_t bytes = 0;
  bool managed = false;
  /// Of a managed one: the program can reach it at its address.
  bool reachable = false;
};

/// A module in a context. `functions` are in the order of the worker's list.
struct module {
  explicit module(context& in) : owner(in) {}

  context& owner;
  module_id wire;
  library* of = nullptr; ///< null for cuModuleLoad*
  CUmodule handle = nullptr;
  std::vector<std::unique_ptr<function>> functions;
  std::map<std::string, function*, std::less<>> by_name;
  std::map<std::string, global_variable, std::less<>> globals;
};

/// A kernel of a library: one function in each context that uses it.
struct kernel {
  library* of = nullptr;
  std::uint32_t index = 0;
  std::string name;
  CUkernel handle = nullptr;
  /// By device; what a launch in the primary context finds at once.
  std::array<std::atomic<function*>, 64> on_device{};
};

/// An image that is loaded into a context when something of it is first asked
/// for there.
struct library {
  std::vector<std::byte> image;
  CUresult broken = CUDA_SUCCESS; ///< the image was no image at all
  std::mutex mutex;
  std::map<const context*, module*> instances;
  std::vector<std::unique_ptr<kernel>> kernels;
  std::map<std::string, kernel*, std::less<>> by_name;
  CUlibrary handle = nullptr;
};

/// The functions and kernels lie in their module and library; the tables hold
/// references.
struct function_reference {
  function* to = nullptr;
};
struct kernel_reference {
  kernel* to = nullptr;
};

/// These hold all of the process. Precondition: the driver's state is made.
handle_table<module>& modules() noexcept;
handle_table<library>& libraries() noexcept;
handle_table<function_reference>& functions() noexcept;
handle_table<kernel_reference>& kernels() noexcept;

/// Loads an image into a context; waits for the worker's answer.
result<module*> load_module(context& in, std::span<const std::byte> image,
                            library* of);
CUresult unload_module(CUmodule handle);
CUresult unload_library(CUlibrary handle);
/// Unloads what is loaded in the context.
void unload_all(context& of);

/// The library's module in this context.
result<module*> instance(library& of, context& in);
/// Its module in any context that has one; where there is none, in the current
/// context, or else the first device's primary one.
result<module*> any_instance(library& of);
/// Makes the library's list of kernels known, through any context.
CUresult know_kernels(library& of);

/// What a CUfunction argument names, which may be a CUkernel too: its function
/// in this context. Null with CUDA_ERROR_INVALID_HANDLE, or why it could not
/// be loaded.
function* find_function(CUfunction handle, context& in, CUresult& why);
kernel* find_kernel(CUkernel handle) noexcept;

/// Sets a CU_FUNC_ATTRIBUTE_* of a function, after checking it.
CUresult set_attribute(function& x, int attribute, int value);
/// CUDA_ERROR_INVALID_VALUE for an attribute that does not exist.
CUresult get_attribute(const function& x, int attribute, int& value);

} // namespace vgpu::interposer
