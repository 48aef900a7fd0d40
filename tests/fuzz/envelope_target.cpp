// Decodes messages of the control plane.
#include "actors/link/codec.hpp"
#include "fuzz_target.hpp"

#include <cstdlib>

using namespace vgpu;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  parcel in{"peer", zmq::message_t{data, size}, {}};
  auto got = control::decode(in);
  auto* what = std::get_if<control::envelope>(&got);
  if (what == nullptr)
    return 0;
  // A decoded message, encoded again, means the same.
  auto again = control::decode({"peer", control::encode(*what), {}});
  auto* same = std::get_if<control::envelope>(&again);
  if (same == nullptr || same->body.index() != what->body.index() ||
      same->from != what->from || same->request != what->request)
    std::abort();
  return 0;
}
