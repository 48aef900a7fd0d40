// Launches, copies and fills.
#include "actors/worker/execute/call_dispatch.hpp"

namespace vgpu {

namespace {

device::dim3 dim(const call::dim3& x) {
  return {x.x, x.y, x.z};
}

} // namespace

status call_dispatch::audit_box(const call::box& box,
                                const call::extent& size) {
  auto bytes = span_of(box, size);
  if (!bytes)
    return fault{CUDA_ERROR_INVALID_VALUE,
                 "a copy's pitch is smaller than its rows"};
  if (*bytes == 0)
    return {};
  for (auto& state : self.states_)
    if (state.holds(box.address, *bytes))
      return {};
  if (in_host(box.address, *bytes))
    return {};
  return fault{CUDA_ERROR_INVALID_VALUE,
               "a copy of " + std::to_string(*bytes) + " bytes at " +
                   std::to_string(box.address) + " leaves what was allocated"};
}

bool call_dispatch::in_host(device_address address, std::uint64_t bytes) const {
  return is_within_host_window(address, bytes, self.host_bytes_);
}

status call_dispatch::operator()(const call::active_clusters& x) {
  if (x.kernel >= state().module(x.module.id).kernels)
    return no_such_kernel(x.kernel);
  auto count = dev().active_clusters({.module = x.module.id,
                                      .kernel = x.kernel,
                                      .grid = dim(x.grid),
                                      .block = dim(x.block),
                                      .cluster = dim(x.cluster),
                                      .dynamic_shared = x.dynamic_shared,
                                      .parameters = {}});
  if (!count)
    return count.why();
  self.sink_->answer(who(), CUDA_SUCCESS, *count);
  return {};
}

status call_dispatch::operator()(const call::launch& x) {
  if (x.kernel >= state().module(x.module.id).kernels)
    return no_such_kernel(x.kernel);
  return dev().enqueue_launch(
      x.stream.id, {.module = x.module.id,
                    .kernel = x.kernel,
                    .grid = dim(x.grid),
                    .block = dim(x.block),
                    .cluster = dim(x.cluster),
                    .dynamic_shared = x.dynamic_shared,
                    .cooperative = (x.flags & call::launch::cooperative) != 0,
                    .parameters = x.bytes});
}

status call_dispatch::operator()(const call::write& x) {
  if (auto ok = audit_box(x.to, x.size); !ok)
    return ok;
  if (what.payload.size() != x.size.width * rows(x.size))
    return fault{CUDA_ERROR_INVALID_VALUE,
                 "a copy's bytes do not match its size"};
  settle(x.stream.id);
  auto pinned = payload_pins::pin(self.pins_, what.call.value, owner);
  return each_row(
      x.to, x.size,
      [&](device_address at, std::uint64_t offset, std::uint64_t bytes, bool) {
        return dev().enqueue_write(x.stream.id, at,
                                   what.payload.subspan(offset, bytes), pinned);
      });
}

status call_dispatch::operator()(const call::read& x) {
  if (auto ok = audit_box(x.from, x.size); !ok)
    return ok;
  auto bytes = x.size.width * rows(x.size);
  if (!self.sink_->wanted(who())) {
    auto ok = check_read(x, bytes);
    return ok ? host_behind_stream(x.stream.id) : ok;
  }
  auto place = self.sink_->land(x.to, bytes);
  if (!place)
    return place.why();
  if (bytes == 0) {
    dev().when_done(x.stream.id, completion());
    return {};
  }
  auto arrived = [sink = self.sink_, health = self.health_, who = who(),
                  place = *place, offset = x.to.offset,
                  keep = self.sink_->keeps_digests(),
                  idle = idle_after(x.stream.id)](
                     CUresult result, std::uint64_t at, std::uint64_t count) {
    auto here = place.part(at, count);
    if (at + count != place.bytes.size()) {
      if (health->note(*sink, result) && result == CUDA_SUCCESS)
        sink->deliver_part(who, here, offset + at);
      return;
    }
    idle();
    auto digest =
        keep && result == CUDA_SUCCESS ? fold_digest(row_hash(place.bytes)) : 0;
    if (health->note(*sink, result))
      sink->deliver(who, result, place.bytes.size(), here, offset + at, digest);
  };
  if (is_flat(x.from, x.size))
    return read_parts(x.stream.id, x.from.address, place->bytes, arrived);
  auto whole = [arrived, bytes](CUresult result) { arrived(result, 0, bytes); };
  return each_row(x.from, x.size,
                  [&](device_address at, std::uint64_t offset,
                      std::uint64_t width, bool last) {
                    return dev().enqueue_read(
                        x.stream.id, place->bytes.subspan(offset, width), at,
                        last ? device::completion{whole}
                             : device::completion{[](CUresult) {}});
                  });
}

/// What the program has had already is read again only to be compared.
status call_dispatch::check_read(const call::read& x, std::uint64_t bytes) {
  if (what.digest == 0 || bytes == 0)
    return {};
  auto room = replay_checks::take(self.checks_, bytes);
  if (!room)
    return {};
  std::span into{room.get(), bytes};
  auto arrived = [room, into, checks = self.checks_, call = what.call,
                  before = what.digest](CUresult result) {
    if (result == CUDA_SUCCESS)
      checks->compare(call, before, fold_digest(row_hash(into)));
  };
  return each_row(x.from, x.size,
                  [&](device_address at, std::uint64_t offset,
                      std::uint64_t width, bool last) {
                    return dev().enqueue_read(
                        x.stream.id, into.subspan(offset, width), at,
                        last ? device::completion{arrived}
                             : device::completion{[room](CUresult) {}});
                  });
}

status call_dispatch::operator()(const call::read_host& x) {
  if (auto ok = audit_box(x.from, x.size); !ok)
    return ok;
  auto span = span_of(x.to, x.size);
  if (!span || !in_host(x.to.address, *span))
    return fault{CUDA_ERROR_INVALID_VALUE,
                 "a copy to pinned memory leaves the host window"};
  auto wanted = self.sink_->wanted(who());
  if (!wanted)
    if (auto ok = host_behind_stream(x.stream.id); !ok)
      return ok;
  if (!wanted && what.digest == 0)
    return {};
  if (x.size.width == 0 || rows(x.size) == 0) {
    if (wanted)
      dev().when_done(x.stream.id, completion());
    return {};
  }
  auto hashes = wanted && !self.sink_->keeps_digests()
                    ? nullptr
                    : std::make_shared<std::atomic<std::uint64_t>>(0);
  // Row by row of the source; its rows are the destination's.
  std::uint64_t row = 0;
  auto flat_to = x.size.height == 1 || x.to.pitch == x.size.width;
  auto flat_from = x.size.height == 1 || x.from.pitch == x.size.width;
  if (x.size.depth == 1 && flat_to && flat_from)
    return read_host_row(x.stream.id, x.to.address, x.from.address, *span,
                         {0, true, wanted, hashes});
  for (std::uint64_t z = 0; z < x.size.depth; ++z)
    for (std::uint64_t y = 0; y < x.size.height; ++y)
      if (auto ok = read_host_row(
              x.stream.id, x.to.address + z * x.to.slice + y * x.to.pitch,
              x.from.address + z * x.from.slice + y * x.from.pitch,
              x.size.width, {row, row + 1 == rows(x.size), wanted, hashes});
          !ok)
        return ok;
      else
        ++row;
  return {};
}

status call_dispatch::read_host_row(stream_id stream, device_address to,
                                    device_address from, std::uint64_t bytes,
                                    const host_row& row) {
  if (!row.wanted)
    return check_host_row(stream, from, bytes, row);
  auto place = self.sink_->land_host(to, bytes);
  auto idle = row.last ? idle_after(stream) : work_meter::done_mark{};
  return read_parts(
      stream, from, place.bytes,
      [sink = self.sink_, health = self.health_, who = who(), place, to, row,
       idle](CUresult result, std::uint64_t at, std::uint64_t count) {
        auto ends = at + count == place.bytes.size();
        std::uint32_t digest = 0;
        if (ends) {
          idle();
          if (row.hashes && result == CUDA_SUCCESS) {
            auto all = row.add(place.bytes);
            digest = row.last ? fold_digest(all) : 0;
          }
        }
        auto slot = ends && row.last ? who.slot : slot_index{0};
        if (health->note(*sink, result) && (ends || result == CUDA_SUCCESS))
          sink->deliver_host({slot, who.call}, result, to + at,
                             place.part(at, count), digest);
      });
}

/// As check_read(): the program's memory is left alone.
status call_dispatch::check_host_row(stream_id stream, device_address from,
                                     std::uint64_t bytes, const host_row& row) {
  auto room = replay_checks::take(self.checks_, bytes);
  if (!room)
    return {};
  std::span into{room.get(), bytes};
  return dev().enqueue_read(stream, into, from,
                            [room, into, row, checks = self.checks_,
                             call = what.call,
                             before = what.digest](CUresult result) {
                              auto all = row.add(into);
                              if (row.last && result == CUDA_SUCCESS)
                                checks->compare(call, before, fold_digest(all));
                            });
}

status call_dispatch::operator()(const call::copy& x) {
  if (auto ok = audit_box(x.to, x.size); !ok)
    return ok;
  if (auto ok = audit_box(x.from, x.size); !ok)
    return ok;
  settle(x.stream.id);
  return dev().enqueue_copy(x.stream.id, pitched(x.to), pitched(x.from),
                            extent(x.size));
}

status call_dispatch::operator()(const call::fill& x) {
  if (x.element_bytes != 1 && x.element_bytes != 2 && x.element_bytes != 4)
    return fault{CUDA_ERROR_INVALID_VALUE,
                 "memset takes elements of 1, 2 or 4 bytes"};
  auto bytes = x.size;
  if (__builtin_mul_overflow(bytes.width, x.element_bytes, &bytes.width))
    return fault{CUDA_ERROR_INVALID_VALUE, "memset of an impossible size"};
  if (auto ok = audit_box(x.to, bytes); !ok)
    return ok;
  settle(x.stream.id);
  return dev().enqueue_fill(x.stream.id, pitched(x.to), x.value,
                            x.element_bytes, extent(x.size));
}

} // namespace vgpu
