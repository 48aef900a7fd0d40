#include "devices/nvidia/driver/modules.hpp"

#include "devices/interface/fatbin.hpp"
#include "devices/nvidia/driver/image_names.hpp"
#include "schema/base/cuda_fault.hpp"

#include <cstring>
#include <string>
#include <vector>

namespace vgpu::device::nvidia {

/// Holds the options of a call to the driver's compiler or linker: those of the
/// program, and logs for its messages.
class jit_options {
public:
  explicit jit_options(const jit_settings& how) {
    add(CU_JIT_ERROR_LOG_BUFFER, errors_.data());
    add(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, number(errors_.size() - 1));
    add(CU_JIT_INFO_LOG_BUFFER, infos_.data());
    add(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, number(infos_.size() - 1));
    for (auto [key, value] : how.options)
      add(static_cast<CUjit_option>(key), number(value));
    for (const auto& x : how.symbols) {
      names_.push_back(x.name.c_str());
      addresses_.push_back(number(x.address));
    }
    if (names_.empty())
      return;
    add(CU_JIT_GLOBAL_SYMBOL_NAMES, names_.data());
    add(CU_JIT_GLOBAL_SYMBOL_ADDRESSES, addresses_.data());
    add(CU_JIT_GLOBAL_SYMBOL_COUNT, number(names_.size()));
  }
  jit_options(const jit_options&) = delete;
  jit_options& operator=(const jit_options&) = delete;

  unsigned count() const noexcept {
    return static_cast<unsigned>(keys_.size());
  }
  CUjit_option* keys() noexcept { return keys_.data(); }
  void** values() noexcept { return values_.data(); }

  std::string info() const { return infos_.data(); }
  /// Returns a fault whose text is the error log, or the sentence where the
  /// driver said nothing.
  fault failed(const driver& api, CUresult why, const char* sentence) const {
    auto out = api.failed(why, sentence);
    return errors_.front() == '\0' ? out : out.reworded(errors_.data());
  }

private:
  static void* number(std::uint64_t x) noexcept {
    return reinterpret_cast<void*>(x); // NOLINT: as the driver's API has it
  }
  void add(CUjit_option key, void* value) {
    keys_.push_back(key);
    values_.push_back(value);
  }

  static constexpr std::size_t log_bytes = 16384;
  std::vector<char> errors_ = std::vector<char>(log_bytes);
  std::vector<char> infos_ = std::vector<char>(log_bytes);
  std::vector<CUjit_option> keys_;
  std::vector<void*> values_;
  std::vector<const char*> names_;
  std::vector<void*> addresses_;
};

namespace {

constexpr unsigned char elf_magic[] = {0x7f, 'E', 'L', 'F'};
constexpr unsigned char container_magic[] = {0x50, 0xed, 0x55, 0xba};

bool begins_with(std::span<const std::byte> image,
                 std::span<const unsigned char> what) {
  return image.size() >= what.size() &&
         std::memcmp(image.data(), what.data(), what.size()) == 0;
}

/// Holds an image in a form that the driver accepts.
class driver_image {
public:
  explicit driver_image(std::span<const std::byte> image)
      : data_(image.data()) {
    if (begins_with(image, container_magic)) {
      take_parts(image);
    } else if (!begins_with(image, elf_magic)) {
      // PTX text must end with a NUL, which may be missing here.
      text_.assign(reinterpret_cast<const char*>(image.data()), image.size());
      data_ = text_.c_str();
    }
  }
  driver_image(const driver_image&) = delete;
  driver_image& operator=(const driver_image&) = delete;

  const void* data() const noexcept { return data_; }
  bool of_parts() const noexcept { return !parts_.empty(); }

private:
  /// Reproduces the wrapper that nvcc puts around a container
  /// (__fatBinC_Wrapper_t in fatbinary.h).
  struct wrapper {
    std::uint32_t magic = 0x466243b1;
    std::uint32_t version = 2; // with a list of parts
    const void* whole = nullptr;
    const void* const* parts = nullptr;
  };

  void take_parts(std::span<const std::byte> image) {
    auto all = containers_of(image);
    if (all.size() < 2)
      return;
    for (auto& part : std::span{all}.subspan(1))
      parts_.push_back(part.data());
    parts_.push_back(nullptr);
    wrapper_.whole = all.front().data();
    wrapper_.parts = parts_.data();
    data_ = &wrapper_;
  }

  const void* data_;
  std::string text_;
  std::vector<const void*> parts_;
  wrapper wrapper_;
};

/// Tells whether the containers are parts to be linked. Parts that the program
/// links at run time come after an empty container.
bool is_to_link(std::span<const std::span<const std::byte>> containers) {
  constexpr std::size_t header = 16;
  return containers.size() > 1 && containers.front().size() == header;
}

/// Adds a part to the linker. A container with several forms of the same code
/// is added whole, because the driver knows the best form. A container with one
/// form is unpacked, because driver 580 crashes on a container that holds only
/// PTX.
CUresult add_part(const driver& api, CUlinkState state,
                  std::span<const std::byte> part) {
  auto add = [&](CUjitInputType type, const void* data, std::size_t size,
                 const char* name = nullptr) {
    return api.cuLinkAddData(state, type, const_cast<void*>(data), size, name,
                             0, nullptr, nullptr);
  };
  auto forms = parts_of(part);
  if (!forms || forms->size() != 1)
    return add(CU_JIT_INPUT_FATBINARY, part.data(), part.size());
  auto& only = forms->front();
  const auto* name = only.name.empty() ? nullptr : only.name.c_str();
  if (only.kind == image_part::form::elf)
    return add(CU_JIT_INPUT_CUBIN, only.code.data(), only.code.size(), name);
  // The size of PTX text includes its NUL.
  auto end = std::strlen(only.code.c_str());
  return add(CU_JIT_INPUT_PTX, only.code.c_str(), end + 1, name);
}

} // namespace

status modules::link(loaded& to,
                     std::span<const std::span<const std::byte>> parts,
                     jit_options& how) const {
  constexpr auto* refused = "parts cannot be linked";
  CUlinkState state = nullptr;
  auto code = api_->cuLinkCreate(how.count(), how.keys(), how.values(), &state);
  if (code != CUDA_SUCCESS)
    return how.failed(*api_, code, refused);
  for (auto i = parts.begin(); code == CUDA_SUCCESS && i != parts.end(); ++i)
    code = add_part(*api_, state, *i);
  void* linked = nullptr;
  std::size_t bytes = 0;
  if (code == CUDA_SUCCESS)
    code = api_->cuLinkComplete(state, &linked, &bytes);
  if (code == CUDA_SUCCESS)
    code = api_->cuModuleLoadDataEx(&to.handle, linked, 0, nullptr, nullptr);
  (void)api_->cuLinkDestroy(state);
  if (code == CUDA_SUCCESS)
    return {};
  return how.failed(*api_, code, refused);
}

status modules::load(loaded& to, std::span<const std::byte> image,
                     jit_options& how) const {
  if (auto all = containers_of(image); is_to_link(all))
    return link(to, std::span{all}.subspan(1), how);
  driver_image form{image};
  auto code = CUDA_SUCCESS;
  if (form.of_parts()) {
    // The driver links parts only through this call.
    code =
        api_->cuLibraryLoadData(&to.library, form.data(), how.keys(),
                                how.values(), how.count(), nullptr, nullptr, 0);
    if (code == CUDA_SUCCESS)
      code = api_->cuLibraryGetModule(&to.handle, to.library);
  } else {
    code = api_->cuModuleLoadDataEx(&to.handle, form.data(), how.count(),
                                    how.keys(), how.values());
  }
  if (code == CUDA_SUCCESS)
    return {};
  unload(to);
  return how.failed(*api_, code, "a module cannot be loaded");
}

result<std::string> modules::check(std::span<const std::byte> image,
                                   const jit_settings& how) const {
  jit_options options{how};
  CUlinkState state = nullptr;
  auto code = api_->cuLinkCreate(options.count(), options.keys(),
                                 options.values(), &state);
  if (code == CUDA_SUCCESS) {
    // The text's size includes its NUL, which may be missing here.
    std::string text{reinterpret_cast<const char*>(image.data()), image.size()};
    text.resize(std::strlen(text.c_str()));
    code = api_->cuLinkAddData(state, CU_JIT_INPUT_PTX, text.data(),
                               text.size() + 1, nullptr, 0, nullptr, nullptr);
    (void)api_->cuLinkDestroy(state);
  }
  if (code != CUDA_SUCCESS)
    return options.failed(*api_, code, "a part cannot be compiled");
  return options.info();
}

void modules::unload(const loaded& x) const {
  if (x.library != nullptr)
    (void)api_->cuLibraryUnload(x.library);
  else if (x.handle != nullptr)
    (void)api_->cuModuleUnload(x.handle);
}

result<module_info> modules::load(module_id id,
                                  std::span<const std::byte> image,
                                  const jit_settings& how) {
  jit_options options{how};
  loaded fresh;
  if (auto ok = load(fresh, image, options); !ok)
    return ok.why();
  module_info out;
  out.log = options.info();
  if (auto ok = list_kernels(fresh, out); !ok) {
    unload(fresh);
    return ok.why();
  }
  list_globals(fresh.handle, image, out);
  for (const auto& x : out.globals)
    fresh.variable_bytes += x.bytes;
  modules_.insert_or_assign(id, std::move(fresh));
  return out;
}

status modules::list_kernels(loaded& from, module_info& to) const {
  unsigned count = 0;
  if (auto ok = api_->check(api_->cuModuleGetFunctionCount(&count, from.handle),
                            "cuModuleGetFunctionCount");
      !ok)
    return ok;
  from.kernels.resize(count);
  if (count != 0)
    if (auto ok = api_->check(api_->cuModuleEnumerateFunctions(
                                  from.kernels.data(), count, from.handle),
                              "cuModuleEnumerateFunctions");
        !ok)
      return ok;
  for (auto f : from.kernels)
    to.kernels.push_back(describe(f));
  return {};
}

kernel_info modules::describe(CUfunction f) const {
  kernel_info out;
  // The driver loads a kernel when it is first used, and reports 0 for some
  // attributes before that.
  (void)api_->cuFuncLoad(f);
  const char* name = nullptr;
  if (api_->cuFuncGetName(&name, f) == CUDA_SUCCESS && name != nullptr)
    out.name = name;
  for (std::size_t i = 0;; ++i) {
    std::size_t offset = 0;
    std::size_t size = 0;
    if (api_->cuFuncGetParamInfo(f, i, &offset, &size) != CUDA_SUCCESS)
      break;
    out.parameters.push_back(
        {static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(size)});
  }
  for (int key = 0; key < CU_FUNC_ATTRIBUTE_MAX; ++key) {
    auto value = 0;
    if (api_->cuFuncGetAttribute(&value, static_cast<CUfunction_attribute>(key),
                                 f) == CUDA_SUCCESS)
      out.attributes[key] = value;
  }
  return out;
}

void modules::list_globals(CUmodule from, std::span<const std::byte> image,
                           module_info& to) {
  auto names = names_of(image, arch_);
  if (names.prints)
    prints_ = true;
  to.hidden_heap = names.allocates;
  for (auto& name : names.variables) {
    CUdeviceptr at = 0;
    std::size_t bytes = 0;
    if (api_->cuModuleGetGlobal(&at, &bytes, from, name.c_str()) !=
            CUDA_SUCCESS ||
        at == 0)
      continue;
    unsigned managed = 0;
    (void)api_->cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                      at);
    to.globals.push_back({name, at, bytes, managed != 0});
  }
}

result<std::function<void()>> modules::take(module_id id) {
  auto i = modules_.find(id);
  if (i == modules_.end())
    return cuda_fault(CUDA_ERROR_INVALID_HANDLE,
                      "module " + std::to_string(id.value) + " is not loaded");
  auto gone = std::move(i->second);
  modules_.erase(i);
  return std::function<void()>{[this, gone] { unload(gone); }};
}

std::uint64_t modules::variable_bytes() const {
  std::uint64_t out = 0;
  for (const auto& [id, x] : modules_)
    out += x.variable_bytes;
  return out;
}

CUfunction modules::find(module_id id, std::uint32_t kernel) const noexcept {
  auto i = modules_.find(id);
  if (i == modules_.end() || kernel >= i->second.kernels.size())
    return nullptr;
  return i->second.kernels[kernel];
}

} // namespace vgpu::device::nvidia
