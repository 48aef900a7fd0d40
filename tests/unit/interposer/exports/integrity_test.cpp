#include "interposer/exports/integrity.hpp"

#include <boost/test/unit_test.hpp>

#include <string>
#include <string_view>

using namespace vgpu::interposer;

namespace {

std::string hex(const digest128& x) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  for (auto b : x) {
    out += digits[b >> 4];
    out += digits[b & 15];
  }
  return out;
}

std::string md2_of(std::string_view text) {
  return hex(
      md2({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}));
}

integrity_subject sample() {
  integrity_device d;
  for (std::size_t i = 0; i < d.uuid.size(); ++i)
    d.uuid[i] = static_cast<std::uint8_t>(i + 1);
  d.pci_bus = 0x1b;
  return {13000,          1234,           0x11223344, 0x7f0000001000,
          0x7f0000002000, 0x7f0000003000, {d}};
}

} // namespace

BOOST_AUTO_TEST_SUITE(integrity)

// The digests are from RFC 1319, appendix A.5.
BOOST_AUTO_TEST_CASE(md2_gives_the_rfcs_digests) {
  BOOST_TEST(md2_of("") == "8350e5a3e24c153df2275c9f80692773");
  BOOST_TEST(md2_of("a") == "32ec01ec4a6dac72c0ab96fb34c0b5d1");
  BOOST_TEST(md2_of("abc") == "da853b0d3f88d99b30283a69e6ded6bb");
  BOOST_TEST(md2_of("message digest") == "ab4f496bfb2a530b219ff33031fe06b0");
  BOOST_TEST(md2_of("abcdefghijklmnopqrstuvwxyz") ==
             "4e8ddff3650292ab5a4108c3aa47940b");
  BOOST_TEST(md2_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                    "0123456789") == "da33def2a42df13975352846c30338cd");
  BOOST_TEST(md2_of("123456789012345678901234567890123456789012345678901234567"
                    "89012345678901234567890") ==
             "d5976f79d83d3a0dc9806c3c66f3efd8");
}

BOOST_AUTO_TEST_CASE(the_answer_is_what_the_runtime_expects) {
  BOOST_TEST(hex(integrity_answer(sample(), 13002, 1700000000)) ==
             "845cedbd4336579b25847243c8139a9d");
}

BOOST_AUTO_TEST_CASE(every_part_of_the_subject_changes_the_answer) {
  auto right = integrity_answer(sample(), 13002, 1700000000);
  auto other = sample();
  other.devices[0].pci_device = 1;
  BOOST_TEST(hex(integrity_answer(other, 13002, 1700000000)) != hex(right));
  other = sample();
  other.thread ^= 1;
  BOOST_TEST(hex(integrity_answer(other, 13002, 1700000000)) != hex(right));
  BOOST_TEST(hex(integrity_answer(sample(), 13002, 1700000001)) != hex(right));
}

BOOST_AUTO_TEST_CASE(probes_have_fixed_answers) {
  BOOST_TEST(hex(integrity_answer(sample(), 13000, 1)) ==
             "5c67cb031c184133e8d14c1faa83d38e");
  BOOST_TEST(hex(integrity_answer(sample(), 13001, 1)) ==
             "5c67cb031c184118e8d14c1faa83d38e");
}

BOOST_AUTO_TEST_SUITE_END()
