#include "actors/state/state_transfer.hpp"

#include "actors/state/state_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <unistd.h>

namespace vgpu {

result<state_inflow> state_inflow::begin(std::uint64_t bytes) {
  if (bytes == 0 || bytes > largest_state)
    return fault{fault_kind::corrupt,
                 "a state of " + std::to_string(bytes) + " bytes"};
  auto file = make_state_memory();
  if (!file)
    return file.why();
  state_inflow out;
  out.file_ = std::move(*file);
  out.bytes_ = bytes;
  return out;
}

std::optional<data::state_wanted> state_inflow::want() {
  if (asked_ == bytes_ || asked_ - got_ >= state_bytes_under_way)
    return std::nullopt;
  auto from = asked_;
  asked_ = std::min(bytes_, asked_ + state_part_bytes);
  return data::state_wanted{from, asked_};
}

status state_inflow::take(std::uint64_t from,
                          std::span<const std::byte> bytes) {
  if (from != got_ || bytes.size() > bytes_ - got_)
    return {};
  while (!bytes.empty()) {
    auto n = ::pwrite(file_.get(), bytes.data(), bytes.size(),
                      static_cast<off_t>(got_));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return fault{fault_kind::exhausted,
                   std::string{"a state finds no room: "} +
                       std::strerror(errno)};
    got_ += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

std::shared_ptr<const std::vector<std::byte>>
part_of_state(int file, std::uint64_t size, const data::state_wanted& what) {
  if (what.from >= what.to || what.to > size ||
      what.to - what.from > state_part_bytes)
    return nullptr;
  auto out = std::make_shared<std::vector<std::byte>>(what.to - what.from);
  auto n =
      ::pread(file, out->data(), out->size(), static_cast<off_t>(what.from));
  if (n != static_cast<ssize_t>(out->size()))
    return nullptr;
  return out;
}

} // namespace vgpu
