#include "interposer/api/entry.hpp"

#include "interposer/exports/proc_address.hpp"
#include "interposer/exports/symbols.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace vgpu::interposer {

namespace {

/// Returns indices of the catalogue, sorted by base name.
const auto& by_name() {
  static const auto sorted = [] {
    std::array<std::uint16_t, catalogue.size()> order{};
    for (std::size_t i = 0; i < order.size(); ++i)
      order[i] = static_cast<std::uint16_t>(i);
    std::stable_sort(order.begin(), order.end(), [](auto a, auto b) {
      return catalogue[a].name < catalogue[b].name;
    });
    return order;
  }();
  return sorted;
}

CUresult resolve(const char* symbol, void** out, int version, cuuint64_t flags,
                 CUdriverProcAddressQueryResult* status) {
  constexpr cuuint64_t known = CU_GET_PROC_ADDRESS_LEGACY_STREAM |
                               CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (symbol == nullptr || out == nullptr || (flags & ~known) != 0 ||
      flags == known || version > process::driver_version)
    return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  auto got = look_up(symbol, version,
                     flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
  if (got.status == lookup::found)
    *out =
        symbol_address(static_cast<std::size_t>(got.entry - catalogue.data()));
  else if (logs(log_level::debug))
    log_line(log_level::debug,
             std::string{"the program asked for the unknown function "} +
                 symbol);
  if (status == nullptr)
    return CUDA_SUCCESS;
  switch (got.status) {
  case lookup::found:
    *status = CU_GET_PROC_ADDRESS_SUCCESS;
    break;
  case lookup::unknown_name:
    *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    break;
  case lookup::version_too_old:
    *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    break;
  }
  return CUDA_SUCCESS;
}

} // namespace

lookup_result look_up(std::string_view name, int version,
                      bool per_thread) noexcept {
  const auto& order = by_name();
  auto first = std::lower_bound(order.begin(), order.end(), name,
                                [](std::uint16_t i, std::string_view x) {
                                  return catalogue[i].name < x;
                                });
  auto last = first;
  while (last != order.end() && catalogue[*last].name == name)
    ++last;
  if (first == last)
    return {};
  auto is_flavoured = [](std::uint16_t i) {
    return catalogue[i].flavour != stream_flavour::none;
  };
  auto wanted = per_thread && std::any_of(first, last, is_flavoured);
  lookup_result best{lookup::version_too_old, nullptr};
  for (auto i = first; i != last; ++i) {
    const auto& x = catalogue[*i];
    if (is_flavoured(*i) != wanted || x.version > version ||
        (best.entry != nullptr && best.entry->version >= x.version))
      continue;
    best = {lookup::found, &x};
  }
  return best;
}

} // namespace vgpu::interposer

using namespace vgpu::interposer;

CUresult CUDAAPI cuGetProcAddress_v2(const char* symbol, void** pfn,
                                     int cudaVersion, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult* status) {
  return resolve(symbol, pfn, cudaVersion, flags, status);
}

extern "C" CUresult get_proc_address_v1(const char* symbol, void** pfn,
                                        int cudaVersion, cuuint64_t flags)
    VGPU_EXPORT_AS("cuGetProcAddress");
CUresult get_proc_address_v1(const char* symbol, void** pfn, int cudaVersion,
                             cuuint64_t flags) {
  return resolve(symbol, pfn, cudaVersion, flags, nullptr);
}
