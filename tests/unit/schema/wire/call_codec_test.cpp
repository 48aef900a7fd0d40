#include "schema/wire/call_codec.hpp"

#include <boost/test/unit_test.hpp>

#include <any>
#include <set>
#include <vector>

using namespace vgpu;

namespace {

template <class Call>
std::vector<std::uint64_t> encoded(const Call& x, std::uint8_t device = 0) {
  std::vector<std::uint64_t> words(call::message_words(x));
  call::encode(x, device, words);
  return words;
}

/// A decoded message of any call. All tests share one visitor, because decode()
/// is compiled once for each visitor.
struct message {
  status outcome;
  std::any call;
  std::uint8_t device = 0;
};

message decoded(std::span<const std::uint64_t> words) {
  message y;
  y.outcome = call::decode(words, [&](const auto& x, std::uint8_t device) {
    y.call = x;
    y.device = device;
  });
  return y;
}

/// Decodes, and hands the call to `check` if it is a Call.
template <class Call, class Check>
bool decoded(std::span<const std::uint64_t> words, Check check) {
  auto y = decoded(words);
  auto* call = std::any_cast<Call>(&y.call);
  if (!y.outcome || call == nullptr)
    return false;
  check(*call, y.device);
  return true;
}

} // namespace

BOOST_AUTO_TEST_SUITE(call_codec)

BOOST_AUTO_TEST_CASE(a_launch_survives_with_its_parameters) {
  std::vector<std::byte> parameters(37, std::byte{7});
  call::launch x{.stream = {{3}},
                 .module = {{9}},
                 .kernel = 2,
                 .flags = call::launch::cooperative,
                 .grid = {1, 2, 3},
                 .block = {4, 5, 6},
                 .cluster = {7, 8, 9},
                 .dynamic_shared = 1234,
                 .bytes = parameters};
  auto words = encoded(x, 5);
  BOOST_TEST(decoded<call::launch>(words, [&](const auto& y, int device) {
    BOOST_TEST(device == 5);
    BOOST_TEST(y.stream.id.value == 3u);
    BOOST_TEST(y.module.id.value == 9u);
    BOOST_TEST(y.kernel == 2u);
    BOOST_TEST(y.flags == call::launch::cooperative);
    BOOST_TEST((y.grid.x == 1 && y.grid.y == 2 && y.grid.z == 3));
    BOOST_TEST((y.block.x == 4 && y.block.y == 5 && y.block.z == 6));
    BOOST_TEST((y.cluster.x == 7 && y.cluster.y == 8 && y.cluster.z == 9));
    BOOST_TEST(y.dynamic_shared == 1234u);
    BOOST_TEST((std::equal(y.bytes.begin(), y.bytes.end(), parameters.begin(),
                           parameters.end())));
  }));
}

BOOST_AUTO_TEST_CASE(a_load_with_and_without_options_survives) {
  // A program that gives no options writes what earlier versions wrote.
  call::module_load plain{.module = {{9}}, .image = {1, 2}, .facts = {3, 4}};
  BOOST_TEST(decoded<call::module_load>(encoded(plain), [](auto& y, int) {
    BOOST_TEST(y.bytes.empty());
    BOOST_TEST(y.facts.bytes == 4u);
  }));
  std::vector<std::byte> options(24, std::byte{5});
  auto with = plain;
  with.bytes = options;
  BOOST_TEST(decoded<call::module_load>(encoded(with), [&](auto& y, int) {
    BOOST_TEST((std::equal(y.bytes.begin(), y.bytes.end(), options.begin(),
                           options.end())));
  }));
  BOOST_TEST(decoded<call::part_check>(
      encoded(
          call::part_check{.image = {1, 2}, .text = {3, 4}, .bytes = options}),
      [](auto& y, int) {
        BOOST_TEST(y.text.offset == 3u);
        BOOST_TEST(y.bytes.size() == 24u);
      }));
}

BOOST_AUTO_TEST_CASE(the_words_are_those_that_the_library_writes) {
  std::vector<std::byte> parameters(37, std::byte{7});
  call::launch x{.stream = {{3}}, .module = {{9}}, .bytes = parameters};
  auto words = encoded(x, 5);
  std::vector<std::uint64_t> expected(words.size());
  expected[0] = (words.size() - 1) << 32;
  capnp::FlatMessageBuilder message{
      {reinterpret_cast<capnp::word*>(expected.data() + 1),
       expected.size() - 1}};
  auto root = message.initRoot<wire::Call>();
  root.setFunction(static_cast<std::uint16_t>(call::launch::id));
  root.setDevice(5);
  auto arguments = root.initArguments(call::argument_count<call::launch>());
  // Stream, module, kernel, flags, three shapes, shared memory.
  std::uint64_t values[] = {3, 9, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0};
  BOOST_REQUIRE(arguments.size() == std::size(values));
  for (unsigned i = 0; i < arguments.size(); ++i)
    arguments.set(i, values[i]);
  root.setBytes({reinterpret_cast<const kj::byte*>(parameters.data()),
                 parameters.size()});
  BOOST_TEST(words == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_negative_priority_survives) {
  auto words = encoded(
      call::stream_create{.stream = {{4}}, .non_blocking = 1, .priority = -5});
  BOOST_TEST(decoded<call::stream_create>(
      words, [](const auto& x, int) { BOOST_TEST(x.priority == -5); }));
}

BOOST_AUTO_TEST_CASE(every_call_encodes_into_exactly_its_words) {
  std::set<std::uint16_t> numbers;
  std::apply(
      [&](auto... x) {
        (
            [&]<class Call>(Call y) {
              auto words = encoded(y);
              BOOST_TEST(
                  (decoded<Call>(words, [](const auto&, std::uint8_t) {})));
              numbers.insert(static_cast<std::uint16_t>(Call::id));
            }(x),
            ...);
      },
      call::all{});
  BOOST_TEST(numbers.size() == std::tuple_size_v<call::all>);
}

BOOST_AUTO_TEST_CASE(an_unknown_call_is_refused_by_number) {
  auto words = encoded(call::device_sync{});
  // The function is the struct's first data word: table, root, data.
  words[2] = 4711;
  auto ok = decoded(words).outcome;
  BOOST_TEST(!ok.ok());
  BOOST_TEST(ok.why().what.find("4711") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(missing_arguments_are_refused) {
  auto words = encoded(call::device_sync{});
  words[2] = static_cast<std::uint16_t>(call::number::copy);
  BOOST_TEST(!decoded(words).outcome.ok());
}

BOOST_AUTO_TEST_CASE(any_single_damaged_word_is_survived) {
  std::vector<std::byte> parameters(64, std::byte{1});
  auto whole = encoded(call::launch{.bytes = parameters});
  for (std::size_t i = 0; i < whole.size(); ++i)
    for (int bit = 0; bit < 64; ++bit) {
      auto words = whole;
      words[i] ^= std::uint64_t{1} << bit;
      (void)decoded(words).outcome;
    }
  for (std::size_t n = 0; n < whole.size(); ++n)
    BOOST_TEST(!decoded({whole.data(), n}).outcome.ok());
}

BOOST_AUTO_TEST_SUITE_END()
