// Decodes the answers of an etcd to each of our questions.
#include "actors/manager/election/etcd_codec.hpp"
#include "fuzz_target.hpp"
#include "nodes/support/etcd_client.hpp"

#include <array>
#include <cstdlib>
#include <string_view>

using namespace vgpu;

namespace {

/// Checks what the election relies on.
void look_at(const etcd::answer& x) {
  constexpr std::int64_t longest = 86'400; // seconds
  auto* granted = std::get_if<etcd::granted>(&x);
  if (granted != nullptr &&
      (granted->lease == 0 || granted->length.count() <= 0 ||
       granted->length.count() > longest))
    std::abort();
  auto* seen = std::get_if<etcd::seen>(&x);
  constexpr std::uint64_t largest = std::uint64_t{1} << 53;
  if (seen != nullptr &&
      (seen->kept.term > largest || seen->kept.numbers > largest))
    std::abort();
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::array<etcd::question, 6> questions = {
      etcd::look{},   etcd::grant{}, etcd::take{},
      etcd::renew{7}, etcd::keep{},  etcd::revoke{7}};
  if (size < 2)
    return 0;
  std::string_view text{reinterpret_cast<const char*>(data) + 2, size - 2};
  constexpr std::array<unsigned, 4> statuses = {200, 400, 404, 503};
  auto& what = questions[(data[0] - unsigned{'0'}) % questions.size()];
  auto status = statuses[(data[1] - unsigned{'0'}) % statuses.size()];
  look_at(etcd::decode(what, status, text));
  (void)parse_etcd_members(std::string{text});
  auto bytes = etcd::to_base64(text);
  if (etcd::from_base64(bytes) != text)
    std::abort();
  return 0;
}
