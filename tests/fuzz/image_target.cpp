// Where an image ends that a program hands over by a bare pointer.
#include "fuzz_target.hpp"
#include "interposer/code/image.hpp"

#include <cstdlib>

using namespace vgpu;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint32_t wrapper_magic = 0x466243B1;
  std::vector<std::uint8_t> memory(data, data + size);
  std::uint32_t magic = 0;
  if (memory.size() >= sizeof(magic))
    std::memcpy(&magic, memory.data(), sizeof(magic));
  // A wrapper's pointer leads to wherever its program says, which is its own
  // memory: that is the program's to get right.
  if (magic == wrapper_magic)
    return 0;
  auto got = interposer::view_image(memory.data(), memory.size());
  if (!got)
    return 0;
  // What was linked has a header of our own before it.
  auto* begin = reinterpret_cast<const std::uint8_t*>(got->bytes.data());
  if (begin < memory.data() || begin > memory.data() + memory.size() ||
      got->bytes.size() >
          static_cast<std::size_t>(memory.data() + memory.size() - begin))
    std::abort();
  return 0;
}
