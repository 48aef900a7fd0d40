#include "interposer/memory/stream_value.hpp"

#include "interposer/memory/copies.hpp"
#include "interposer/memory/managed.hpp"
#include "interposer/memory/memory.hpp"
#include "interposer/memory/registered_memory.hpp"
#include "interposer/memory/virtual_memory.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"
#include "interposer/stream/host_call.hpp"

#include <algorithm>

namespace vgpu::interposer {

namespace {

constexpr unsigned wait_tests = 0x3;

bool promises(const context& in, CUdevice_attribute what) {
  return process::the_session()
             .devices()[static_cast<std::size_t>(in.device)]
             .value_of(what) != 0;
}

/// Says who handles a word: the device or the interposer.
enum class owner : std::uint8_t { nobody, device, program };

owner owner_of(device_address at, std::uint64_t bytes, bool planned = false) {
  auto found = planned ? locate_planned(at) : locate(at);
  switch (found.where) {
  case place::pinned: {
    if (!found.in || !found.in->holds(at, bytes))
      return owner::nobody;
    auto open = found.in->kind != memory_kind::mapped ||
                virtual_memories().usable(at, bytes);
    return open ? owner::program : owner::nobody;
  }
  case place::device: {
    if (!found.in || found.in->kind == memory_kind::array)
      return owner::nobody;
    auto whole = found.in->kind == memory_kind::mapped
                     ? virtual_memories().usable(at, bytes)
                     : found.in->holds(at, bytes);
    return whole ? owner::device : owner::nobody;
  }
  case place::pageable:
    break;
  }
  auto* word = reinterpret_cast<const std::byte*>(at);
  return registered().find(word) && registered().find(word + bytes - 1)
             ? owner::program
             : owner::nobody;
}

bool is_wait(CUstreamBatchMemOpType x) {
  return x == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
         x == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

/// Returns the word of an operation that waits or writes.
awaited_value word_of(const CUstreamBatchMemOpParams& x) {
  awaited_value out;
  // Both kinds of operation begin alike.
  const auto& w = x.waitValue;
  auto wide = x.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
              x.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
  out.address = w.address;
  out.bytes = wide ? 8 : 4;
  out.value = wide ? w.value64 : w.value;
  if (is_wait(x.operation))
    out.test = static_cast<value_test>(w.flags & wait_tests);
  return out;
}

CUresult check_word(const context& in, const CUstreamBatchMemOpParams& x,
                    bool planned) {
  auto word = word_of(x);
  if (!word.is_sound() ||
      owner_of(word.address, word.bytes, planned) == owner::nobody)
    return CUDA_ERROR_INVALID_VALUE;
  if (word.bytes == 8 &&
      !promises(in, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS))
    return CUDA_ERROR_NOT_SUPPORTED;
  return CUDA_SUCCESS;
}

CUresult check_flush(const context& in) {
  return promises(in, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES)
             ? CUDA_SUCCESS
             : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult check_wait(const context& in, const CUstreamBatchMemOpParams& x,
                    bool planned) {
  auto flags = x.waitValue.flags;
  auto flush = static_cast<unsigned>(CU_STREAM_WAIT_VALUE_FLUSH);
  if ((flags & ~(wait_tests | flush)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (auto code = check_word(in, x, planned); code != CUDA_SUCCESS)
    return code;
  if ((flags & wait_tests) == CU_STREAM_WAIT_VALUE_NOR &&
      !promises(in, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR))
    return CUDA_ERROR_NOT_SUPPORTED;
  return (flags & flush) != 0 ? check_flush(in) : CUDA_SUCCESS;
}

CUresult check_operation(const context& in, const CUstreamBatchMemOpParams& x,
                         bool planned) {
  switch (x.operation) {
  case CU_STREAM_MEM_OP_WAIT_VALUE_32:
  case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    return check_wait(in, x, planned);
  case CU_STREAM_MEM_OP_WRITE_VALUE_32:
  case CU_STREAM_MEM_OP_WRITE_VALUE_64:
    // The calls since CUDA 11.7 have no writes without a barrier.
    return x.writeValue.flags != CU_STREAM_WRITE_VALUE_DEFAULT
               ? CUDA_ERROR_INVALID_VALUE
               : check_word(in, x, planned);
  case CU_STREAM_MEM_OP_BARRIER:
    return x.memoryBarrier.flags > CU_STREAM_MEMORY_BARRIER_TYPE_GPU
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
  case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
    return x.flushRemoteWrites.flags != 0 ? CUDA_ERROR_INVALID_VALUE
                                          : check_flush(in);
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

/// Returns the word where the program can always read and write it: memory of
/// the host that is mapped lies in the host window as well.
awaited_value word_in_window(awaited_value word) {
  if (auto found = locate(word.address); found.in && found.in->host != 0)
    word.address = found.in->host + (word.address - found.in->address);
  return word;
}

CUresult issue_wait(stream& in, const awaited_value& word) {
  if (owner_of(word.address, word.bytes) == owner::program)
    return host_calls().add_host_wait(in, word_in_window(word));
  // A wait does not notice the program's own later writes to managed memory.
  if (managed_memory::host_has_some() && is_managed(word.address, word.bytes))
    managed().hand_over(word.address, word.bytes);
  return host_calls().add_device_wait(in, word);
}

/// Writes a word in one piece, so that no reader sees half of it. The write
/// comes after earlier work of the stream, although some flags would allow it
/// before.
CUresult issue_write(stream& in, const awaited_value& word) {
  if (owner_of(word.address, word.bytes) == owner::program)
    return host_calls().add_store(in, word_in_window(word));
  if (word.bytes == 4)
    return fill_bytes(in, flat(word.address),
                      static_cast<std::uint32_t>(word.value), 4, {1, 1, 1});
  transfer what;
  what.to = flat(word.address);
  what.from = flat(reinterpret_cast<std::uintptr_t>(&word.value));
  what.size = {sizeof word.value, 1, 1};
  what.async = true;
  what.to_side = transfer::side::device;
  return transfer_bytes(in, what);
}

} // namespace

CUresult check_operations(const context& in, value_operations what,
                          bool planned) {
  for (const auto& x : what)
    if (auto code = check_operation(in, x, planned); code != CUDA_SUCCESS)
      return code;
  return CUDA_SUCCESS;
}

CUresult issue_operations(stream& in, value_operations what) {
  for (const auto& x : what) {
    // Barriers and flushes need nothing: later work in a stream sees all
    // earlier work.
    if (x.operation == CU_STREAM_MEM_OP_BARRIER ||
        x.operation == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES)
      continue;
    auto word = word_of(x);
    auto code =
        is_wait(x.operation) ? issue_wait(in, word) : issue_write(in, word);
    if (code != CUDA_SUCCESS)
      return code;
  }
  return CUDA_SUCCESS;
}

bool any_waits(value_operations what) noexcept {
  return std::any_of(what.begin(), what.end(),
                     [](auto& x) { return is_wait(x.operation); });
}

} // namespace vgpu::interposer
