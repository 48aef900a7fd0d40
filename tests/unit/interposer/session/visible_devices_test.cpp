// How driver 580 reads CUDA_VISIBLE_DEVICES on a host with two H200s.
#include "interposer/session/visible_devices.hpp"
#include "schema/base/cuda_fault.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace vgpu::interposer;

namespace {

constexpr std::array<std::uint8_t, 16> first{0x14, 0xf8, 0x7d, 0x4d, 0xfd, 0x24,
                                             0x0b, 0x18, 0x67, 0x1f, 0xad, 0x19,
                                             0x62, 0x08, 0x8b, 0xa5};
constexpr std::array<std::uint8_t, 16> second{
    0x73, 0x2a, 0x03, 0x41, 0xd9, 0xb1, 0xc4, 0x71,
    0x6f, 0x8b, 0x4d, 0x90, 0x51, 0x02, 0x1c, 0x60};
#define U0 "GPU-14f87d4d-fd24-0b18-671f-ad1962088ba5"
#define U1 "GPU-732a0341-d9b1-c471-6f8b-4d9051021c60"

/// Returns the visible devices as digits, or the code that cuInit returns.
std::string seen(std::string_view text) {
  std::vector<device_facts> devices(2);
  devices[0].uuid = first;
  devices[1].uuid = second;
  auto x = visible_devices(text, devices);
  if (!x)
    return std::to_string(cuda_code(x.why()));
  std::string out;
  for (auto d : *x)
    out += std::to_string(d);
  return out;
}

struct row {
  std::string_view text;
  std::string_view seen;
};

constexpr row truth[] = {
    {"", "100"},
    {"0", "0"},
    {"1", "1"},
    {"1,0", "10"},
    {"0,1", "01"},
    {"0,0", "101"},
    {"0,1,0", "101"},
    {"1,1,0", "101"},
    {"-1", "100"},
    {"0,-1,1", "0"},
    {"2", "100"},
    {"0,2,1", "0"},
    {"0,99999999999", "0"},
    {" 0", "0"},
    {"0 ", "0"},
    {"0, 1", "01"},
    {"0 1", "0"},
    {"0,,1", "0"},
    {",0", "100"},
    {"0,", "0"},
    {"00", "0"},
    {"01", "1"},
    {"0x1", "0"},
    {"+1", "1"},
    {"1a", "1"},
    {"a", "100"},
    {"NoDevFiles", "100"},
    {"all", "100"},
    {"1.0", "1"},
    {"0;1", "0"},
    {"4294967296", "0"},
    {"-0", "0"},
    {U0, "0"},
    {U1, "1"},
    {U1 "," U0, "10"},
    {"GPU-14f87d4d", "0"},
    {"GPU-14f8", "0"},
    {"GPU-1", "0"},
    {"GPU-", "100"},
    {"gpu-14f87d4d", "100"},
    {"14f87d4d", "100"},
    {U0 "0", "0"},
    {U0 ",0", "0"},
    {"0," U0, "0"},
    {"0," U1, "0"},
    {"1,GPU-zzzz,0", "1"},
    {"GPU-zzzz,0", "100"},
    {"GPU-14F87D4D-FD24-0B18-671F-AD1962088BA5", "0"},
    {"MIG-" U0, "100"},
    {"MIG-" U0 "/0/0", "100"},
    {"MIG-14f87d4d-fd24-0b18-671f-ad1962088ba5", "0"},
};

} // namespace

BOOST_AUTO_TEST_SUITE(visible_devices_)

BOOST_AUTO_TEST_CASE(every_spelling_is_read_as_by_the_driver) {
  for (const auto& x : truth)
    BOOST_TEST(seen(x.text) == x.seen, "'" << x.text << "' gives "
                                           << seen(x.text) << ", not "
                                           << x.seen);
}

BOOST_AUTO_TEST_CASE(an_order_is_one_of_two) {
  BOOST_TEST(is_device_order("FASTEST_FIRST"));
  BOOST_TEST(is_device_order("PCI_BUS_ID"));
  for (const auto* text : {"", "junk", "PCI_BUS_ID "})
    BOOST_TEST(!is_device_order(text));
}

BOOST_AUTO_TEST_CASE(a_prefix_of_two_uuids_names_neither) {
  std::vector<device_facts> devices(2);
  devices[0].uuid = devices[1].uuid = first;
  devices[1].uuid[15] ^= 1;
  BOOST_TEST(!visible_devices("GPU-14f8", devices));
  BOOST_TEST(bool{visible_devices(U0, devices)});
}

BOOST_AUTO_TEST_SUITE_END()
