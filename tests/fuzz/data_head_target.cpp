// Decodes heads of the data plane.
#include "actors/link/data_head.hpp"
#include "fuzz_target.hpp"

#include <cstdlib>

using namespace vgpu;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto got = data::decode(test::as_words(data, size));
  if (!got)
    return 0;
  // A decoded head, encoded again, means the same.
  auto again = data::decode(data::encode(*got));
  if (!again || again->body.index() != got->body.index() ||
      again->session != got->session || again->epoch != got->epoch)
    std::abort();
  return 0;
}
