// The part of CUPTI's binary interface that this library uses: types, numbers
// and records of CUPTI 13 (CUPTI API reference). A record of CUPTI 12 is the
// beginning of the one here.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace vgpu::cupti {

/// Mirrors CUptiResult, as far as this library returns it.
enum class code : int {
  success = 0,
  invalid_parameter = 1,
  invalid_device = 2,
  invalid_context = 3,
  invalid_operation = 7,
  out_of_memory = 8,
  parameter_size_not_sufficient = 10,
  max_limit_reached = 12,
  not_ready = 13,
  not_initialized = 15,
  queue_empty = 18,
  invalid_stream = 20,
  invalid_kind = 21,
  not_supported = 27,
  multiple_subscribers_not_supported = 39,
  unknown = 999,
};

/// Mirrors CUpti_ActivityKind, as far as this library makes such records.
enum class kind : std::uint32_t {
  invalid = 0,
  memcpy = 1,
  memset = 2,
  kernel = 3,
  driver = 4,
  runtime = 5,
  device = 8,
  context = 9,
  concurrent_kernel = 10,
  memcpy_between_devices = 22,
  synchronization = 38,
  external_correlation = 39,
};
inline constexpr std::uint32_t kind_count = 56;

/// Mirrors CUpti_CallbackDomain.
enum class domain : std::uint32_t {
  invalid = 0,
  driver = 1,
  runtime = 2,
  resource = 3,
  synchronize = 4,
  nvtx = 5,
  state = 6,
};
inline constexpr std::uint32_t domain_count = 7;

enum class site : std::uint32_t { enter = 0, exit = 1 };

enum class copy_kind : std::uint8_t {
  host_to_device = 1,
  device_to_host = 2,
  device_to_device = 8,
  host_to_host = 9,
  peer_to_peer = 10,
};
enum class memory_kind : std::uint8_t { pageable = 1, pinned = 2, device = 3 };
enum class channel : std::uint32_t { none = 0, compute = 1, copies = 2 };

inline constexpr std::uint8_t asynchronous = 1; // a flag of copies and memsets
inline constexpr auto no_id = ~std::uint32_t{0};
inline constexpr std::uint32_t correlation_kinds = 6;

// -- records ------------------------------------------------------------------

/// Each record begins with its kind. Records are packed, at multiples of 8.
struct record_head {
  kind what;
};

#pragma pack(push, 8)

/// Mirrors CUpti_ActivityKernel10.
struct kernel_record {
  kind what = kind::concurrent_kernel;
  std::uint8_t cache_config = 0, shared_config = 0;
  std::uint16_t registers = 0;
  std::uint32_t global_cache_requested = 0, global_cache_executed = 0;
  std::uint64_t start = 0, end = 0, completed = 0;
  std::uint32_t device = 0, context = 0, stream = 0;
  std::int32_t grid[3] = {}, block[3] = {};
  std::int32_t static_shared = 0, dynamic_shared = 0;
  std::uint32_t local_per_thread = 0, local_total = 0;
  std::uint32_t correlation = 0;
  std::int64_t grid_id = 0;
  const char* name = nullptr;
  void* reserved = nullptr;
  std::uint64_t queued = 0, submitted = 0;
  std::uint8_t launch_type = 0;
  std::uint8_t carveout_requested = 0, carveout = 0, padding = 0;
  std::uint32_t shared_executed = 0;
  std::uint64_t graph_node = 0;
  std::uint32_t shared_limit = 0, graph = 0;
  void* access_policy = nullptr;
  std::uint32_t channel_id = 0;
  channel channel_type = channel::compute;
  std::uint32_t cluster[3] = {}, cluster_policy = 0;
  std::uint64_t local_total_wide = 0;
  std::uint32_t most_cluster_size = 0, most_clusters = 0;
  std::uint8_t is_device_launched = 0, more_padding[7] = {};
};
static_assert(sizeof(kernel_record) == 216);
static_assert(offsetof(kernel_record, start) == 16);
static_assert(offsetof(kernel_record, grid) == 52);
static_assert(offsetof(kernel_record, correlation) == 92);
static_assert(offsetof(kernel_record, name) == 104);
static_assert(offsetof(kernel_record, queued) == 120);
static_assert(offsetof(kernel_record, graph_node) == 144);
static_assert(offsetof(kernel_record, channel_id) == 168);
static_assert(offsetof(kernel_record, cluster) == 176);
static_assert(offsetof(kernel_record, local_total_wide) == 192);

/// Mirrors CUpti_ActivityMemcpy6.
struct copy_record {
  kind what = kind::memcpy;
  copy_kind direction = copy_kind::device_to_device;
  memory_kind from = memory_kind::device, to = memory_kind::device;
  std::uint8_t flags = 0;
  std::uint64_t bytes = 0, start = 0, end = 0;
  std::uint32_t device = 0, context = 0, stream = 0;
  std::uint32_t correlation = 0, runtime_correlation = 0, padding = 0;
  void* reserved = nullptr;
  std::uint64_t graph_node = 0;
  std::uint32_t graph = 0, channel_id = 0;
  channel channel_type = channel::copies;
  std::uint8_t is_device_launched = 0, more_padding[3] = {};
  std::uint64_t copies = 1;
};
static_assert(sizeof(copy_record) == 96);
static_assert(offsetof(copy_record, bytes) == 8);
static_assert(offsetof(copy_record, correlation) == 44);
static_assert(offsetof(copy_record, graph_node) == 64);
static_assert(offsetof(copy_record, copies) == 88);

/// Mirrors CUpti_ActivityMemcpyPtoP4.
struct peer_copy_record {
  kind what = kind::memcpy_between_devices;
  copy_kind direction = copy_kind::peer_to_peer;
  memory_kind from = memory_kind::device, to = memory_kind::device;
  std::uint8_t flags = 0;
  std::uint64_t bytes = 0, start = 0, end = 0;
  std::uint32_t device = 0, context = 0, stream = 0;
  std::uint32_t from_device = 0, from_context = 0;
  std::uint32_t to_device = 0, to_context = 0;
  std::uint32_t correlation = 0;
  void* reserved = nullptr;
  std::uint64_t graph_node = 0;
  std::uint32_t graph = 0, channel_id = 0;
  channel channel_type = channel::copies;
  std::uint32_t padding = 0;
};
static_assert(sizeof(peer_copy_record) == 96);
static_assert(offsetof(peer_copy_record, correlation) == 60);
static_assert(offsetof(peer_copy_record, graph_node) == 72);

/// Mirrors CUpti_ActivityMemset4.
struct fill_record {
  kind what = kind::memset;
  std::uint32_t value = 0;
  std::uint64_t bytes = 0, start = 0, end = 0;
  std::uint32_t device = 0, context = 0, stream = 0, correlation = 0;
  std::uint16_t flags = 0;
  std::uint16_t memory = static_cast<std::uint16_t>(memory_kind::device);
  std::uint32_t padding = 0;
  void* reserved = nullptr;
  std::uint64_t graph_node = 0;
  std::uint32_t graph = 0, channel_id = 0;
  channel channel_type = channel::copies;
  std::uint8_t is_device_launched = 0, more_padding[3] = {};
};
static_assert(sizeof(fill_record) == 88);
static_assert(offsetof(fill_record, correlation) == 44);
static_assert(offsetof(fill_record, flags) == 48);
static_assert(offsetof(fill_record, graph_node) == 64);

/// Mirrors CUpti_ActivityAPI.
struct call_record {
  kind what = kind::driver;
  std::uint32_t function = 0; // a CUpti_CallbackId
  std::uint64_t start = 0, end = 0;
  std::uint32_t process = 0, thread = 0, correlation = 0, result = 0;
};
static_assert(sizeof(call_record) == 40);

/// Mirrors CUpti_ActivitySynchronization2.
struct wait_record {
  kind what = kind::synchronization;
  std::uint32_t type = 0;
  std::uint64_t start = 0, end = 0;
  std::uint32_t correlation = 0, context = 0, stream = 0, event = no_id;
  std::uint64_t event_record = 0;
  std::uint32_t result = 0, padding = 0;
};
static_assert(sizeof(wait_record) == 56);
static_assert(offsetof(wait_record, event) == 36);

/// Mirrors CUpti_ActivityExternalCorrelation.
struct correlation_record {
  kind what = kind::external_correlation;
  std::uint32_t of = 0; // a CUpti_ExternalCorrelationKind
  std::uint64_t external = 0;
  std::uint32_t correlation = 0, padding = 0;
};
static_assert(sizeof(correlation_record) == 24);

#pragma pack(pop)

// -- callbacks ----------------------------------------------------------------

/// Mirrors CUpti_CallbackData.
struct callback_data {
  site where;
  const char* function;
  const void* arguments;
  void* result;
  const char* symbol;
  CUcontext context;
  std::uint32_t context_id;
  std::uint64_t* own_word; // for the subscriber, from enter to exit
  std::uint32_t correlation;
};
static_assert(sizeof(callback_data) == 72);
static_assert(offsetof(callback_data, context_id) == 48);
static_assert(offsetof(callback_data, correlation) == 64);

using callback = void (*)(void* user, domain in, std::uint32_t function,
                          const void* data);
using request_buffer = void (*)(std::uint8_t** buffer, std::size_t* size,
                                std::size_t* most_records);
using complete_buffer = void (*)(CUcontext context, std::uint32_t stream,
                                 std::uint8_t* buffer, std::size_t size,
                                 std::size_t valid);
using read_clock = std::uint64_t (*)();

} // namespace vgpu::cupti

/// Declares a function of CUPTI, which is called from C.
#define VGPU_CUPTI(name)                                                       \
  extern "C" __attribute__((visibility("default"))) vgpu::cupti::code name
