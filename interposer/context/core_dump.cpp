#include "interposer/context/core_dump.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>

#include <unistd.h>

#include "schema/base/own_environment.hpp"

namespace vgpu::interposer {

namespace {

/// A name has at most this many bytes, with the zero at its end.
constexpr std::size_t longest_name = 1024;

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// Fills in the host (%h), the process (%p) and the time (%t). The driver tells
/// names filled in.
std::string filled_in(std::string_view pattern) {
  std::string out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    auto next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (pattern[i] != '%' ||
        std::string_view{"hpt"}.find(next) == std::string_view::npos) {
      out += pattern[i];
      continue;
    }
    ++i;
    out += next == 'h'   ? host_name()
           : next == 'p' ? std::to_string(::getpid())
                         : std::to_string(std::time(nullptr));
  }
  return out.substr(0, longest_name - 1);
}

bool is_name(CUcoredumpSettings which) {
  return which == CU_COREDUMP_FILE || which == CU_COREDUMP_PIPE;
}

bool is_known(CUcoredumpSettings which) {
  return which >= CU_COREDUMP_ENABLE_ON_EXCEPTION && which < CU_COREDUMP_MAX;
}

std::size_t size_of(CUcoredumpSettings which) {
  if (is_name(which))
    return longest_name;
  return which == CU_COREDUMP_GENERATION_FLAGS ? sizeof(unsigned)
                                               : sizeof(bool);
}

constexpr unsigned known_flags =
    CU_COREDUMP_LIGHTWEIGHT_FLAGS | CU_COREDUMP_SKIP_ABORT;

/// Reads the flags of CUDA_COREDUMP_GENERATION_FLAGS, names with any mark
/// between them. Unknown names count for nothing.
unsigned flags_of(std::string_view text) {
  constexpr std::pair<std::string_view, unsigned> names[] = {
      {"skip_nonrelocated_elf_images",
       CU_COREDUMP_SKIP_NONRELOCATED_ELF_IMAGES},
      {"skip_global_memory", CU_COREDUMP_SKIP_GLOBAL_MEMORY},
      {"skip_shared_memory", CU_COREDUMP_SKIP_SHARED_MEMORY},
      {"skip_local_memory", CU_COREDUMP_SKIP_LOCAL_MEMORY},
      {"skip_abort", CU_COREDUMP_SKIP_ABORT},
      {"skip_constbank_memory", CU_COREDUMP_SKIP_CONSTBANK_MEMORY}};
  unsigned out = 0;
  for (auto [name, flag] : names)
    if (text.find(name) != std::string_view::npos)
      out |= flag;
  return out;
}

} // namespace

// -- values
// -----------------------------------------------------------------------

bool core_dump_settings::values::flag(CUcoredumpSettings which) const noexcept {
  switch (which) {
  case CU_COREDUMP_ENABLE_ON_EXCEPTION:
    return on_exception;
  case CU_COREDUMP_ENABLE_USER_TRIGGER:
    return user_trigger;
  case CU_COREDUMP_TRIGGER_HOST:
    return (flags & CU_COREDUMP_SKIP_ABORT) == 0;
  default:
    return (flags & CU_COREDUMP_LIGHTWEIGHT_FLAGS) ==
           CU_COREDUMP_LIGHTWEIGHT_FLAGS;
  }
}

void core_dump_settings::values::set_flag(CUcoredumpSettings which,
                                          bool to) noexcept {
  auto choose = [&](unsigned bits, bool on) {
    flags = on ? flags | bits : flags & ~bits;
  };
  switch (which) {
  case CU_COREDUMP_ENABLE_ON_EXCEPTION:
    on_exception = to;
    break;
  case CU_COREDUMP_ENABLE_USER_TRIGGER:
    user_trigger = to;
    break;
  case CU_COREDUMP_TRIGGER_HOST:
    choose(CU_COREDUMP_SKIP_ABORT, !to);
    break;
  default:
    choose(CU_COREDUMP_LIGHTWEIGHT_FLAGS, to);
    break;
  }
}

core_dump_settings::values core_dump_settings::values::of_environment() {
  values out;
  auto given = [&](const char* name, CUcoredumpSettings which) {
    const auto* text = setting(name);
    out.decided[which] = text != nullptr;
    return text;
  };
  for (auto [name, which] :
       {std::pair{"CUDA_ENABLE_COREDUMP_ON_EXCEPTION",
                  CU_COREDUMP_ENABLE_ON_EXCEPTION},
        {"CUDA_ENABLE_USER_TRIGGERED_COREDUMP",
         CU_COREDUMP_ENABLE_USER_TRIGGER},
        {"CUDA_ENABLE_CPU_COREDUMP_ON_EXCEPTION", CU_COREDUMP_TRIGGER_HOST},
        {"CUDA_ENABLE_LIGHTWEIGHT_COREDUMP", CU_COREDUMP_LIGHTWEIGHT}})
    if (const auto* text = given(name, which); text != nullptr)
      out.set_flag(which, std::atoi(text) != 0);
  if (const auto* text =
          given("CUDA_COREDUMP_GENERATION_FLAGS", CU_COREDUMP_GENERATION_FLAGS);
      text != nullptr)
    out.flags |= flags_of(text);
  const auto* file = given("CUDA_COREDUMP_FILE", CU_COREDUMP_FILE);
  out.file = filled_in(file != nullptr ? file : "core.cuda.%h.%p");
  const auto* pipe = given("CUDA_COREDUMP_PIPE", CU_COREDUMP_PIPE);
  out.pipe = filled_in(pipe != nullptr ? pipe : "corepipe.cuda.%h.%p");
  return out;
}

// -- settings
// -----------------------------------------------------------------------

core_dump_settings core_dump_settings::of_environment() {
  return core_dump_settings{values::of_environment()};
}

void core_dump_settings::begin_as(const core_dump_settings& process,
                                  unsigned context_flags) {
  std::scoped_lock guard{mutex_, process.mutex_};
  is_ = process.is_;
  is_.on_exception |= (context_flags & CU_CTX_COREDUMP_ENABLE) != 0;
  is_.user_trigger |= (context_flags & CU_CTX_USER_COREDUMP_ENABLE) != 0;
}

CUresult core_dump_settings::get(CUcoredumpSettings which, void* value,
                                 std::size_t* size) const {
  if (!is_known(which) || size == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (value == nullptr) {
    *size = size_of(which);
    return CUDA_SUCCESS;
  }
  auto give = [&](const void* from, std::size_t bytes) {
    if (*size < bytes)
      return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(value, from, bytes);
    *size = bytes;
    return CUDA_SUCCESS;
  };
  std::lock_guard guard{mutex_};
  if (is_name(which)) {
    const auto& name = which == CU_COREDUMP_FILE ? is_.file : is_.pipe;
    return give(name.c_str(), name.size() + 1);
  }
  if (which == CU_COREDUMP_GENERATION_FLAGS)
    return give(&is_.flags, sizeof(is_.flags));
  auto on = is_.flag(which);
  return give(&on, sizeof(on));
}

CUresult core_dump_settings::set(CUcoredumpSettings which, const void* value,
                                 std::size_t* size) {
  if (!is_known(which) || size == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (value == nullptr) {
    *size = size_of(which);
    return CUDA_SUCCESS;
  }
  std::lock_guard guard{mutex_};
  if (is_.decided[which])
    return CUDA_ERROR_NOT_PERMITTED;
  if (is_name(which)) {
    const auto* text = static_cast<const char*>(value);
    auto length = ::strnlen(text, *size);
    if (length == 0 || length >= longest_name)
      return CUDA_ERROR_INVALID_VALUE;
    (which == CU_COREDUMP_FILE ? is_.file : is_.pipe) =
        filled_in({text, length});
    return CUDA_SUCCESS;
  }
  if (*size < size_of(which))
    return CUDA_ERROR_INVALID_VALUE;
  if (which == CU_COREDUMP_GENERATION_FLAGS) {
    unsigned flags = 0;
    std::memcpy(&flags, value, sizeof(flags));
    if ((flags & ~known_flags) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    is_.flags = flags;
    return CUDA_SUCCESS;
  }
  is_.set_flag(which, *static_cast<const unsigned char*>(value) != 0);
  return CUDA_SUCCESS;
}

CUresult core_dump_settings::set_in_context(CUcoredumpSettings which,
                                            const void* value,
                                            std::size_t* size) {
  if (value != nullptr &&
      (which == CU_COREDUMP_PIPE || which == CU_COREDUMP_ENABLE_USER_TRIGGER))
    return CUDA_ERROR_NOT_PERMITTED;
  return set(which, value, size);
}

} // namespace vgpu::interposer
