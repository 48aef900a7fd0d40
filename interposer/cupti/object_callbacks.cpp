#include "interposer/cupti/object_callbacks.hpp"

#include "interposer/cupti/tool.hpp"

#include <cstring>
#include <string_view>

namespace vgpu::cupti {

namespace {

using interposer::activity;

/// Mirrors CUpti_ResourceData.
struct resource_data {
  CUcontext context;
  CUstream stream;
  void* descriptor;
};

/// Mirrors CUpti_SynchronizeData.
struct synchronize_data {
  CUcontext context;
  CUstream stream;
};

/// Says where the first argument has the stream.
enum class holder : std::uint8_t { none, handle, result };

/// Is a moment of a driver's call at which something is told: a
/// CUpti_CallbackIdResource or a CUpti_CallbackIdSync.
struct moment {
  std::string_view symbol;
  site where;
  domain in;
  std::uint32_t number;
  holder stream;
};

constexpr moment moments[] = {
    {"cuStreamCreate", site::exit, domain::resource, 3, holder::result},
    {"cuStreamCreateWithPriority", site::exit, domain::resource, 3,
     holder::result},
    {"cuStreamDestroy", site::enter, domain::resource, 4, holder::handle},
    {"cuStreamDestroy_v2", site::enter, domain::resource, 4, holder::handle},
    {"cuStreamSynchronize", site::exit, domain::synchronize, 1, holder::handle},
    {"cuStreamSynchronize_ptsz", site::exit, domain::synchronize, 1,
     holder::handle},
    {"cuCtxSynchronize", site::exit, domain::synchronize, 2, holder::none},
    {"cuCtxSynchronize_v2", site::exit, domain::synchronize, 2, holder::none},
};

CUstream stream_of(const activity& x, holder how) noexcept {
  CUstream out = nullptr;
  if (how == holder::handle)
    std::memcpy(&out, x.arguments, sizeof out);
  if (how == holder::result) {
    const CUstream* place = nullptr;
    std::memcpy(&place, x.arguments, sizeof place);
    out = *place;
  }
  return out;
}

/// Tells whether the program may destroy this stream.
bool is_stream(const activity& x, CUstream handle) noexcept {
  std::uint32_t id = 0;
  return handle != nullptr &&
         driver()->stream(static_cast<CUcontext>(x.context_handle), handle, 0,
                          &id) == CUDA_SUCCESS;
}

void tell(const activity& x, const moment& now) {
  auto to = subscriber_of(now.in, now.number);
  if (!to)
    return;
  auto context = static_cast<CUcontext>(x.context_handle);
  auto stream = stream_of(x, now.stream);
  if (now.in == domain::synchronize) {
    const synchronize_data data{context, stream};
    to->call(to->user, now.in, now.number, &data);
  } else if (now.where == site::exit || is_stream(x, stream)) {
    const resource_data data{context, stream, nullptr};
    to->call(to->user, now.in, now.number, &data);
  }
}

} // namespace

void tell_of_object(const activity& x, site where) {
  if (where == site::exit && x.result != CUDA_SUCCESS)
    return;
  for (const auto& now : moments)
    if (now.where == where && now.symbol == x.name)
      return tell(x, now);
}

} // namespace vgpu::cupti
