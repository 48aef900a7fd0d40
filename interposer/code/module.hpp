// Modules and libraries that a worker has loaded, and the program's queries of
// them.
#pragma once

#include "interposer/code/image.hpp"
#include "interposer/context/context.hpp"
#include "interposer/session/handle_table.hpp"
#include "schema/base/fault.hpp"
#include "schema/base/ids.hpp"
#include "schema/base/jit_settings.hpp"

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

/// Says where a kernel's parameter lies in the parameter block, in bytes.
struct parameter {
  std::uint32_t offset = 0;
  std::uint32_t size = 0;
};

/// Holds what a function keeps for launches of CUDA 3 (cuFuncSetBlockShape,
/// cuParamSetv and the like).
struct packed_launch {
  std::mutex mutex;
  std::array<std::uint32_t, 3> block{};
  std::uint32_t shared_bytes = 0;
  std::uint32_t parameter_bytes = 0;
  std::vector<std::byte> parameters;
};

/// Describes a kernel of a loaded module. Its strings and lists do not change.
struct function {
  static constexpr int attribute_limit = 32;

  module* in = nullptr;
  std::uint32_t index = 0;
  std::string name;
  std::vector<parameter> parameters;
  std::uint32_t parameter_bytes = 0;
  /// Holds the attributes by CUfunction_attribute. An entry is 0 where the
  /// device reports no value.
  std::array<std::atomic<int>, attribute_limit> attributes{};
  CUfunction handle = nullptr;
  /// Tells whether the function was launched, after which the device has its
  /// code.
  mutable std::atomic<bool> launched{false};
  packed_launch packed;

  int attribute(int key) const noexcept {
    return attributes[static_cast<std::size_t>(key)].load(
        std::memory_order_relaxed);
  }
};

/// Describes a variable of a module.
struct global_variable {
  std::string name;
  CUdeviceptr address = 0;
  std::uint64_t bytes = 0;
  bool managed = false;
  /// Tells, for a managed variable, whether the program can access it at its
  /// address.
  bool reachable = false;
};

/// Describes a module in a context. `functions` has the order of the worker's
/// list.
struct module {
  explicit module(context& in) : owner(in) {}

  context& owner;
  module_id wire;
  library* of = nullptr; ///< null for cuModuleLoad and related calls
  CUmodule handle = nullptr;
  std::vector<std::unique_ptr<function>> functions;
  std::map<std::string, function*, std::less<>> by_name;
  std::map<std::string, global_variable, std::less<>> globals;
};

/// Describes a kernel of a library. It has one function in each context that
/// uses it.
struct kernel {
  library* of = nullptr;
  std::uint32_t index = 0;
  std::string name;
  CUkernel handle = nullptr;
  /// Holds the function in each device's primary context, so that launches
  /// there need no look-up.
  std::array<std::atomic<function*>, 64> on_device{};
};

/// Holds an image that is loaded into a context on its first use there.
struct library {
  std::vector<std::byte> image;
  /// Holds the compiler's options for each load of the image.
  jit_settings settings;
  /// Holds an error where the bytes are no image.
  CUresult broken = CUDA_SUCCESS;
  std::mutex mutex;
  std::map<const context*, module*> instances;
  std::vector<std::unique_ptr<kernel>> kernels;
  std::map<std::string, kernel*, std::less<>> by_name;
  /// Holds, by device, the module of a primary context that has ended, where it
  /// has managed variables. These outlive the context.
  std::map<int, std::unique_ptr<module>> parked;
  CUlibrary handle = nullptr;
};

/// Refers to a function in the table of handles. The function belongs to its
/// module.
struct function_reference {
  function* to = nullptr;
};
/// Refers to a kernel in the table of handles. The kernel belongs to its
/// library.
struct kernel_reference {
  kernel* to = nullptr;
};

/// Returns the process's modules by handle. Precondition: the driver's state is
/// made.
handle_table<module>& modules() noexcept;
/// Returns the process's libraries by handle. Precondition: the driver's state
/// is made.
handle_table<library>& libraries() noexcept;
/// Returns the process's functions by handle. Precondition: the driver's state
/// is made.
handle_table<function_reference>& functions() noexcept;
/// Returns the process's kernels by handle. Precondition: the driver's state is
/// made.
handle_table<kernel_reference>& kernels() noexcept;

/// Loads an image into a context, and waits for the worker's answer. The text
/// of a fault is the compiler's error log; `log` receives its information.
result<module*> load_module(context& in, std::span<const std::byte> image,
                            library* of, const jit_settings& how,
                            std::string* log = nullptr);
/// Compiles a part that is linked later, and waits for the worker's answer: the
/// compiler's information, or a fault whose text is its error log.
result<std::string> check_part(context& in, std::span<const std::byte> image,
                               const jit_settings& how);
/// Returns the options with which to load an image: those of the call, and
/// those with which the image was linked.
result<jit_settings> settings_of(const image_view& image,
                                 const jit_settings& of_call);
CUresult unload_module(CUmodule handle);
CUresult unload_library(CUlibrary handle);
/// Unloads everything that is loaded in the context.
void unload_all(context& of);

/// Returns the library's module in this context. Loads it first where it is not
/// loaded.
result<module*> instance(library& of, context& in);
/// Returns the library's module in any context that has one. Where there is
/// none, loads it in the current context, or else in the first device's primary
/// one.
result<module*> any_instance(library& of);
/// Fills in the library's list of kernels, through any context.
CUresult know_kernels(library& of);

/// Finds the function in this context that a CUfunction argument names; it may
/// be a CUkernel too. Returns null where there is none, and sets `why` to
/// CUDA_ERROR_INVALID_HANDLE or to the error of loading it.
function* find_function(CUfunction handle, context& in, CUresult& why);
/// Finds a kernel, or null when the handle names none.
kernel* find_kernel(CUkernel handle) noexcept;

/// Sets a CU_FUNC_ATTRIBUTE_* of a function, after checking it.
CUresult set_attribute(function& x, int attribute, int value);
/// Gets an attribute. Returns CUDA_ERROR_INVALID_VALUE for one that does not
/// exist.
CUresult get_attribute(const function& x, int attribute, int& value);

} // namespace vgpu::interposer
