// Reads a damaged log in both ways in which readers read it.
#include "fuzz_target.hpp"

#include "schema/log/call_log.hpp"
#include "schema/wire/call_codec.hpp"

#include <cstdlib>

#include <sys/eventfd.h>

using namespace vgpu;

namespace {

struct log_memory {
  session_area area{
      std::move(*session_area::create(minimum_log, granule_bytes))};
  unique_fd doorbell{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
};

/// Reads all memory to which a record refers, and checks that it lies within
/// `all`.
void look_at(const record& x, std::span<const std::byte> all) {
  if (x.end <= x.call.value || x.slot >= slot_count ||
      x.payload.data() < all.data() ||
      x.payload.data() + x.payload.size() > all.data() + all.size())
    std::abort();
  (void)call::decode(x.message, [&]<class Call>(const Call& call, int) {
    if constexpr (call::detail::has_bytes<Call>) {
      std::vector<std::byte> copy(call.bytes.begin(), call.bytes.end());
      if (copy.size() > x.message.size_bytes())
        std::abort();
    }
  });
}

/// Reads the bytes as a worker on another host reads forwarded ranges.
void read_range(std::span<const std::byte> bytes) {
  std::vector<std::uint64_t> scratch;
  for (std::uint64_t position = 0; position < bytes.size();) {
    auto got = parse_record(bytes.subspan(position), position, scratch);
    if (!got || !*got)
      return;
    look_at(**got, bytes);
    position = (*got)->end;
  }
}

/// Reads the bytes as a process that maps the log, from a position where
/// records cross the end of the mapping.
void read_log(std::span<const std::byte> bytes) {
  static log_memory memory;
  auto& area = memory.area;
  auto from = area.log_capacity() - bytes.size() / 16 * 8;
  auto* at = area.log_data() + from;
  std::memcpy(at, bytes.data(), bytes.size());
  std::span whole{at, area.log_capacity()};
  log_reader reader{area, memory.doorbell.get(), from};
  for (auto got = reader.next(); got && *got; got = reader.next())
    look_at(**got, {area.log_data(), area.log_capacity() + mirror_bytes});
  reader.rewind(from);
  for (auto got = reader.next_range(4096); got && !got->empty();
       got = reader.next_range(4096))
    if (got->size() > max_record)
      std::abort();
  std::memset(at, 0, bytes.size());
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < sizeof(std::uint64_t) || size > (1 << 20))
    return 0;
  auto words = test::as_words(data, size);
  auto bytes = std::as_bytes(std::span{words});
  read_range(bytes);
  read_log(bytes);
  return 0;
}
