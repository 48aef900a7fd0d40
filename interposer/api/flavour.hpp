// Support for files that are compiled twice: once as they are, and once with
// CUDA_API_PER_THREAD_DEFAULT_STREAM, with which cuda.h renames each call that
// takes a stream to its _ptds or _ptsz symbol. So one body serves both.
#pragma once

#include "interposer/api/entry.hpp"

#include "interposer/graph/capture.hpp"
#include "interposer/stream/stream_event.hpp"

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define VGPU_PTSZ(symbol) symbol "_ptsz"
#define VGPU_PTDS(symbol) symbol "_ptds"
/// Names a function that only one of the two compilations may define.
#define VGPU_FLAVOURED(name) name##_per_thread
#else
#define VGPU_PTSZ(symbol) symbol
#define VGPU_PTDS(symbol) symbol
#define VGPU_FLAVOURED(name) name##_legacy
#endif

namespace vgpu::interposer {

namespace {

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
constexpr bool per_thread = true;
#else
constexpr bool per_thread = false;
#endif

/// Runs a body as guarded() does, with the stream that the argument names in
/// this compilation. It requires that the stream's context is usable.
template <class Body>
CUresult in_stream(CUstream handle, const Body& body) noexcept {
  return guarded([&]() -> CUresult {
    stream* s = nullptr;
    if (auto code = find_usable_stream(handle, per_thread, s);
        code != CUDA_SUCCESS) [[unlikely]]
      return code;
    if (any_capture() && s->is_legacy()) [[unlikely]]
      if (auto code = check_legacy_work(s->owner); code != CUDA_SUCCESS)
        return code;
    return body(*s);
  });
}

} // namespace

} // namespace vgpu::interposer
