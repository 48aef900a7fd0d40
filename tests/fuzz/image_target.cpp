// Finds the end of an image that a program passes by a pointer without a size.
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
  // A wrapper points anywhere in the program's own memory. The program is
  // responsible for that pointer.
  if (magic == wrapper_magic)
    return 0;
  auto got = interposer::view_image(memory.data(), memory.size());
  if (!got)
    return 0;
  // A linked image has our own header in front of it.
  auto* begin = reinterpret_cast<const std::uint8_t*>(got->bytes.data());
  if (begin < memory.data() || begin > memory.data() + memory.size() ||
      got->bytes.size() >
          static_cast<std::size_t>(memory.data() + memory.size() - begin))
    std::abort();
  return 0;
}
