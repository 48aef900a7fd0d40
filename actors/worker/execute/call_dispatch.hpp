// Executes a call whose handles were checked, on the device that it names.
#pragma once

#include "actors/worker/execute/dispatch_context.hpp"
#include "schema/catalogue/calls.hpp"

namespace vgpu {

// There is one overload for each call of the catalogue, grouped by the file
// that defines it. Each checks the addresses that the call names, enqueues the
// work, and sends the answer if the program waits for one, at once or when the
// device is done. A failed status is the program's error. An overload waits for
// the device only where CUDA does.

// -- memory: allocations, pinned memory, arrays, textures (dispatch_memory.cpp)

status execute_call(dispatch_context& on, const call::mem_alloc& x);
status execute_call(dispatch_context& on, const call::mem_free& x);
status execute_call(dispatch_context& on, const call::host_alloc& x);
status execute_call(dispatch_context& on, const call::host_free& x);
status execute_call(dispatch_context& on, const call::zero_copy& x);
status execute_call(dispatch_context& on, const call::zero_copy_write& x);
status execute_call(dispatch_context& on, const call::host_file& x);
status execute_call(dispatch_context& on, const call::array_create& x);
status execute_call(dispatch_context& on, const call::array_destroy& x);
status execute_call(dispatch_context& on, const call::texture_create& x);
status execute_call(dispatch_context& on, const call::texture_known& x);
status execute_call(dispatch_context& on, const call::texture_destroy& x);

// -- memory that the program places by itself, conditions of graphs, managed
// memory (dispatch_mappings.cpp)

status execute_call(dispatch_context& on, const call::memory_create& x);
status execute_call(dispatch_context& on, const call::memory_destroy& x);
status execute_call(dispatch_context& on, const call::memory_map& x);
status execute_call(dispatch_context& on, const call::host_map& x);
status execute_call(dispatch_context& on, const call::memory_unmap& x);
status execute_call(dispatch_context& on, const call::memory_access& x);
status execute_call(dispatch_context& on, const call::condition_place& x);
status execute_call(dispatch_context& on, const call::condition_words& x);
status execute_call(dispatch_context& on, const call::read_managed& x);
status execute_call(dispatch_context& on, const call::write_managed& x);

// -- memory and events that sessions share (dispatch_sharing.cpp)

status execute_call(dispatch_context& on, const call::memory_share& x);
status execute_call(dispatch_context& on, const call::placed_share& x);
status execute_call(dispatch_context& on, const call::shared_bytes& x);
status execute_call(dispatch_context& on, const call::placed_import& x);
status execute_call(dispatch_context& on, const call::memory_import& x);
status execute_call(dispatch_context& on, const call::event_share& x);
status execute_call(dispatch_context& on, const call::event_import& x);
status execute_call(dispatch_context& on, const call::event_query& x);

// -- images and modules (dispatch_modules.cpp)

status execute_call(dispatch_context& on, const call::image_part& x);
status execute_call(dispatch_context& on, const call::module_load& x);
status execute_call(dispatch_context& on, const call::part_check& x);
status execute_call(dispatch_context& on, const call::module_facts& x);
status execute_call(dispatch_context& on, const call::module_unload& x);
status execute_call(dispatch_context& on, const call::kernel_attribute& x);

// -- limits, hints and tracing (dispatch_tuning.cpp)

status execute_call(dispatch_context& on, const call::limit_set& x);
status execute_call(dispatch_context& on, const call::limits_reset& x);
status execute_call(dispatch_context& on, const call::stream_window& x);
status execute_call(dispatch_context& on, const call::cache_reset& x);
status execute_call(dispatch_context& on, const call::time_work& x);

// -- tensor maps (dispatch_tensor_maps.cpp)

status execute_call(dispatch_context& on, const call::tensor_map_encode& x);

// -- launches, writes, copies and fills (dispatch_work.cpp)

status execute_call(dispatch_context& on, const call::active_clusters& x);
status execute_call(dispatch_context& on, const call::launch& x);
status execute_call(dispatch_context& on, const call::write& x);
status execute_call(dispatch_context& on, const call::copy& x);
status execute_call(dispatch_context& on, const call::fill& x);

// -- writes whose bytes come late (dispatch_late_writes.cpp)

status execute_call(dispatch_context& on, const call::late_write& x);
status execute_call(dispatch_context& on, const call::late_bytes& x);

// -- reads (dispatch_reads.cpp)

status execute_call(dispatch_context& on, const call::read& x);
status execute_call(dispatch_context& on, const call::read_host& x);

// -- streams, events, host functions and waits for values
// (dispatch_streams.cpp)

status execute_call(dispatch_context& on, const call::stream_create& x);
status execute_call(dispatch_context& on, const call::stream_destroy& x);
status execute_call(dispatch_context& on, const call::event_create& x);
status execute_call(dispatch_context& on, const call::event_destroy& x);
status execute_call(dispatch_context& on, const call::event_record& x);
status execute_call(dispatch_context& on, const call::stream_wait& x);
status execute_call(dispatch_context& on, const call::peer_wait& x);
status execute_call(dispatch_context& on, const call::stream_sync& x);
status execute_call(dispatch_context& on, const call::device_sync& x);
status execute_call(dispatch_context& on, const call::event_sync& x);
status execute_call(dispatch_context& on, const call::elapsed& x);
status execute_call(dispatch_context& on, const call::host_call& x);
status execute_call(dispatch_context& on, const call::host_begun& x);
status execute_call(dispatch_context& on, const call::host_done& x);
status execute_call(dispatch_context& on, const call::host_ended& x);
status execute_call(dispatch_context& on, const call::wait_value& x);

} // namespace vgpu
