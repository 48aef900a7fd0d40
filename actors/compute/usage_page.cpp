#include "actors/compute/usage_page.hpp"

#include "actors/records/usage.hpp"
#include "schema/base/own_addresses.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <new>

namespace vgpu {

result<std::shared_ptr<usage_page>> usage_page::map(unique_fd memory) {
  auto* at = ::mmap(own_address(sizeof(layout)), sizeof(layout),
                    PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (at == MAP_FAILED)
    return fault{fault_kind::system,
                 std::string{"a worker's account cannot be mapped: "} +
                     std::strerror(errno)};
  return std::shared_ptr<usage_page>{
      new usage_page{std::move(memory), mapping{at, sizeof(layout)}}};
}

result<std::shared_ptr<usage_page>> usage_page::create() {
  static_assert(std::tuple_size_v<decltype(layout::values)> ==
                usage_members.size());
  auto memory = make_sealed_memory("vgpu-usage", sizeof(layout));
  if (!memory)
    return memory.why();
  auto out = map(std::move(*memory));
  if (out)
    (new ((*out)->map_.data()) layout{})->magic = layout::the_magic;
  return out;
}

result<std::shared_ptr<usage_page>> usage_page::open(unique_fd memory) {
  auto size = sealed_size(memory.get());
  if (!size)
    return size.why();
  fault other{fault_kind::corrupt,
              "a worker's account is of another release than this worker: "
              "install the same on all of the node"};
  if (*size < sizeof(layout))
    return other;
  auto out = map(std::move(memory));
  if (out && (*out)->at()->magic != layout::the_magic)
    return other;
  return out;
}

void usage_page::store(const control::usage& x, bool traffic) noexcept {
  for (auto i = 0u; i < usage_members.size(); ++i)
    if (usage_members[i].traffic == traffic)
      at()->values[i].store(x.*usage_members[i].value,
                            std::memory_order_relaxed);
}

void usage_page::write(const control::usage& x) noexcept {
  store(x, false);
}

void usage_page::write_traffic(const control::usage& x) noexcept {
  store(x, true);
}

control::usage usage_page::read() const noexcept {
  control::usage out;
  for (auto i = 0u; i < usage_members.size(); ++i)
    out.*usage_members[i].value =
        at()->values[i].load(std::memory_order_relaxed);
  return out;
}

} // namespace vgpu
