// Decodes a program's messages to its client, and the ticket in its shared
// memory.
#include "actors/client/guest_codec.hpp"
#include "fuzz_target.hpp"

using namespace vgpu;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto words = test::as_words(data, size);
  (void)guest::decode_hello(words);
  (void)guest::decode_notice(words);
  (void)guest::decode_ticket(test::as_bytes(data, size));
  return 0;
}
