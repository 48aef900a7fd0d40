// Reads the file of a vGPU's state, as a worker and a client do.
#include "actors/state/state_file.hpp"
#include "actors/state/state_index.hpp"
#include "fuzz_target.hpp"
#include "schema/wire/call_codec.hpp"

#include <xxhash.h>

#include <cstdlib>

#include <sys/mman.h>
#include <unistd.h>

using namespace vgpu;

namespace {

/// Puts the right checksums into a head, which a liar has at hand, too.
void sign(std::vector<std::uint64_t>& words) {
  constexpr auto head_words = state_head_bytes / sizeof(std::uint64_t);
  constexpr std::size_t offset = 2, bytes = 3, hash = 4, size = 5, own = 7;
  if (words.size() < head_words)
    return;
  words[size] = words.size() * sizeof(std::uint64_t);
  words[offset] = std::min(words[offset] / 8 * 8, words[size]);
  words[bytes] = words[size] - words[offset];
  words[hash] = XXH3_64bits(words.data() + words[offset] / 8, words[bytes]);
  words[own] = XXH3_64bits(words.data(), own * sizeof(std::uint64_t));
}

/// Reads everything that the index names.
void look_at(state_reader& state) {
  std::vector<std::byte> room;
  std::size_t most = 16;
  each_chunk(state.index(), [&](const state_chunk& x) {
    if (x.bytes > state_chunk_bytes ||
        (x.stored != 0 && x.offset + x.stored > state.bytes()))
      std::abort();
    if (most == 0)
      return;
    --most;
    room.resize(x.bytes);
    (void)state.read(x, room);
  });
  for (auto& [number, message] : state.index().living)
    (void)call::decode(message, [](const auto&, int) {});
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto words = test::as_words(data, size);
  sign(words);
  static unique_fd file{::memfd_create("state", MFD_CLOEXEC)};
  auto bytes = std::as_bytes(std::span{words});
  if (::ftruncate(file.get(), static_cast<off_t>(bytes.size())) != 0 ||
      !write_state_bytes(file.get(), 0, bytes))
    return 0;
  auto state = state_reader::open(file.get());
  if (!state)
    return 0;
  look_at(*state);
  // An index that was read, written again, means the same.
  auto again = encode_index(state->index());
  if (!decode_index(again, state->bytes()))
    std::abort();
  return 0;
}
