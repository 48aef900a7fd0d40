#include "interposer/code/jit_options.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

namespace vgpu::interposer {

namespace {

std::uint32_t number_in(const void* value) noexcept {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(value));
}

bool is_target(std::uint32_t x) noexcept {
  constexpr unsigned plain[] = {30, 32, 35,  37,  50,  52,  53, 60,
                                61, 62, 70,  72,  75,  80,  86, 87,
                                89, 90, 100, 103, 110, 120, 121};
  auto is_any = [&](const auto& list, unsigned base) {
    return std::any_of(std::begin(list), std::end(list),
                       [&](unsigned each) { return x == base + each; });
  };
  constexpr unsigned accelerated[] = {90, 100, 103, 110, 120, 121};
  constexpr unsigned families[] = {100, 103, 110, 120, 121};
  return is_any(plain, 0) ||
         is_any(accelerated, CU_COMPUTE_ACCELERATED_TARGET_BASE) ||
         is_any(families, CU_COMPUTE_FAMILY_TARGET_BASE);
}

/// Checks the value of an option that changes code. The driver takes any level
/// of optimisation, of which its compiler refuses negative ones, and any
/// strategy.
bool is_in_range(int option, std::uint32_t value) noexcept {
  switch (option) {
  case CU_JIT_MAX_REGISTERS:
    return value != 0;
  case CU_JIT_TARGET:
    return is_target(value);
  case CU_JIT_CACHE_MODE:
    return value <= CU_JIT_CACHE_OPTION_CA;
  default:
    return true;
  }
}

} // namespace

void jit_log::add(std::string_view text) noexcept {
  if (text_ == nullptr || room_ == 0)
    return;
  used_ += text.copy(text_ + used_, room_ - 1 - used_);
  text_[used_] = '\0';
  // As in the driver API, the value stands in the pointer's place.
  if (written_ != nullptr)
    *written_ = reinterpret_cast<void*>(used_); // NOLINT: a number
}

CUresult jit_request::take(jit_use use, unsigned count,
                           const CUjit_option* options, void** values) {
  resume();
  if (count != 0 && options == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    // The program may pass any number.
    int option = 0;
    std::memcpy(&option, options + i, sizeof(option));
    if (option < 0 || option >= CU_JIT_NUM_OPTIONS)
      return CUDA_ERROR_INVALID_VALUE;
    if (values == nullptr)
      continue;
    if (auto code = take(use, option, values[i]); code != CUDA_SUCCESS)
      return code;
  }
  if (settings_.option(CU_JIT_TARGET) &&
      settings_.option(CU_JIT_THREADS_PER_BLOCK))
    return CUDA_ERROR_INVALID_VALUE;
  if (auto code = take_symbols(); code != CUDA_SUCCESS)
    return code;
  // Only now is it certain that the call looks at the values.
  info_.add({});
  error_.add({});
  return CUDA_SUCCESS;
}

CUresult jit_request::take(jit_use use, int option, void*& value) {
  // The program passes the size of the buffer, and receives the number of
  // bytes written.
  auto size = [&](jit_log& of) {
    of.room_ = number_in(value);
    of.written_ = &value;
  };
  auto of_list = [&] {
    return value == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  };
  switch (option) {
  case CU_JIT_INFO_LOG_BUFFER:
    info_.text_ = static_cast<char*>(value);
    return CUDA_SUCCESS;
  case CU_JIT_ERROR_LOG_BUFFER:
    error_.text_ = static_cast<char*>(value);
    return CUDA_SUCCESS;
  case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
    size(info_);
    return CUDA_SUCCESS;
  case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
    size(error_);
    return CUDA_SUCCESS;
  case CU_JIT_WALL_TIME:
    time_ = &value;
    return CUDA_SUCCESS;
  case CU_JIT_GLOBAL_SYMBOL_NAMES:
    names_ = static_cast<const char* const*>(value);
    return of_list();
  case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
    addresses_ = static_cast<void* const*>(value);
    return of_list();
  case CU_JIT_GLOBAL_SYMBOL_COUNT:
    symbols_ = number_in(value);
    counted_ = true;
    return CUDA_SUCCESS;
  case CU_JIT_REFERENCED_KERNEL_NAMES:
  case CU_JIT_REFERENCED_VARIABLE_NAMES:
    return of_list();
  // The target is that of the context anyhow.
  case CU_JIT_TARGET_FROM_CUCONTEXT:
  case CU_JIT_FAST_COMPILE:
  // These concern only code of compilers before CUDA 12.0 that is optimised
  // when it is linked, which no call takes here.
  case CU_JIT_LTO:
  case CU_JIT_FTZ:
  case CU_JIT_PREC_DIV:
  case CU_JIT_PREC_SQRT:
  case CU_JIT_FMA:
  case CU_JIT_REFERENCED_KERNEL_COUNT:
  case CU_JIT_REFERENCED_VARIABLE_COUNT:
  case CU_JIT_OPTIMIZE_UNUSED_DEVICE_VARIABLES:
    return CUDA_SUCCESS;
  case CU_JIT_NEW_SM3X_OPT:
    // The compiler of a module refuses it, as it is for devices of long ago.
    if (use == jit_use::link)
      return CUDA_SUCCESS;
    break;
  default:
    break;
  }
  if ((option == CU_JIT_FALLBACK_STRATEGY && use == jit_use::link) ||
      !is_in_range(option, number_in(value)))
    return CUDA_ERROR_INVALID_VALUE;
  settings_.options.insert_or_assign(static_cast<std::uint32_t>(option),
                                     number_in(value));
  return CUDA_SUCCESS;
}

CUresult jit_request::take_symbols() {
  if (!counted_)
    return CUDA_SUCCESS;
  if (names_ == nullptr || addresses_ == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < symbols_; ++i) {
    if (names_[i] == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    std::string name{names_[i]};
    auto is_same = [&](auto& known) { return known.name == name; };
    if (std::any_of(settings_.symbols.begin(), settings_.symbols.end(),
                    is_same))
      return CUDA_ERROR_INVALID_VALUE;
    settings_.symbols.push_back(
        {std::move(name), reinterpret_cast<std::uintptr_t>(addresses_[i])});
  }
  return CUDA_SUCCESS;
}

void jit_request::fail(std::string_view text) {
  // A device's own words say which kind they are.
  auto is_log = text.find("error") != text.npos ||
                text.find("fatal") != text.npos ||
                text.find("ptxas") != text.npos;
  std::string line{is_log ? "" : "error   : "};
  line += text;
  // Lines are separated, and the last one has no end of its own.
  line.resize(line.find_last_not_of('\n') + 1);
  if (!error_.is_empty())
    line.insert(line.begin(), '\n');
  error_.add(line);
}

void jit_request::finish() noexcept {
  pause();
  if (time_ == nullptr)
    return;
  auto time = std::chrono::duration<float, std::milli>{spent_}.count();
  *time_ = nullptr;
  std::memcpy(static_cast<void*>(time_), &time, sizeof(time));
}

} // namespace vgpu::interposer
