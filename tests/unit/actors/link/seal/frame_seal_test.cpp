// Messages sealed by AES-256-GCM, and what somebody in between may do to them.
#include "actors/link/seal/frame_seal.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <utility>

using namespace vgpu;

namespace {

constexpr seal_subject sealed_for{{7}, {3}};

zmq::message_t frame(std::string_view text) {
  return zmq::message_t{text.data(), text.size()};
}

using frames = frame_seal::frames;

frames message(std::string_view head, std::string_view bulk = {}) {
  return {frame(head), frame(bulk)};
}

zmq::message_t copy_of(const zmq::message_t& x) {
  return zmq::message_t{x.data(), x.size()};
}

/// Both ends of one direction.
struct sealed_fixture {
  static seal_offer new_offer() {
    seal_offer made;
    make_secrets(made);
    return made;
  }

  seal_offer offer = new_offer();
  frame_seal out{offer.key, seal_direction::to_listener, sealed_for};
  frame_seal in{offer.key, seal_direction::to_listener, sealed_for};

  frames sealed(std::string_view head, std::string_view bulk = {}) {
    auto x = out.seal(frame(head), frame(bulk));
    BOOST_REQUIRE(x);
    return std::move(*x);
  }

  static bool opens(frame_seal& by, const frames& x) {
    auto head = copy_of(x.head);
    auto bulk = copy_of(x.bulk);
    return by.open(head, bulk);
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(frame_seals, sealed_fixture)

BOOST_AUTO_TEST_CASE(messages_open_in_their_order) {
  const std::string bulk(100'000, 'b');
  const std::pair<std::string, std::string> all[] = {
      {"head", ""}, {"another", bulk}, {"", "only bulk"}, {"last", bulk}};
  for (const auto& [head, rest] : all) {
    auto x = sealed(head, rest);
    BOOST_TEST(x.head.size() == head.size() + frame_seal::tag_bytes);
    BOOST_TEST(x.bulk.size() == rest.size());
    BOOST_REQUIRE(in.open(x.head, x.bulk));
    BOOST_TEST(x.head.to_string_view() == head);
    BOOST_TEST((x.bulk.to_string_view() == rest));
  }
}

BOOST_AUTO_TEST_CASE(nothing_shows) {
  auto x = sealed("a secret head", std::string(64, 'b'));
  BOOST_TEST(x.head.to_string_view().find("secret") == std::string_view::npos);
  BOOST_TEST(x.bulk.to_string_view().find("bb") == std::string_view::npos);
  // The same message looks different the second time.
  auto again = sealed("a secret head", std::string(64, 'b'));
  BOOST_TEST(x.bulk.to_string_view() != again.bulk.to_string_view());
}

BOOST_AUTO_TEST_CASE(each_changed_bit_is_found) {
  auto x = sealed("head", "some bulk");
  for (auto* one : {&x.head, &x.bulk})
    for (std::size_t i = 0; i < one->size(); ++i) {
      auto& byte = one->data<unsigned char>()[i];
      byte ^= 1U << (i % 8);
      BOOST_TEST(!opens(in, x));
      byte ^= 1U << (i % 8);
    }
  BOOST_TEST(opens(in, x));
}

BOOST_AUTO_TEST_CASE(a_cut_or_longer_frame_is_found) {
  auto x = sealed("head", "some bulk");
  auto head = std::string{x.head.to_string_view()};
  auto bulk = std::string{x.bulk.to_string_view()};
  for (std::size_t size = 0; size < head.size(); ++size)
    BOOST_TEST(!opens(in, message(head.substr(0, size), bulk)));
  for (std::size_t size = 0; size < bulk.size(); ++size)
    BOOST_TEST(!opens(in, message(head, bulk.substr(0, size))));
  BOOST_TEST(!opens(in, message(head + '\0', bulk)));
  BOOST_TEST(!opens(in, message(head, bulk + '\0')));
  // Bytes that change from one frame to the other.
  BOOST_TEST(!opens(in, message(head.substr(0, 3) + head.substr(4),
                                head.substr(3, 1) + bulk)));
  BOOST_TEST(opens(in, x));
}

BOOST_AUTO_TEST_CASE(repeated_reordered_and_lost_messages_are_found) {
  auto first = sealed("one");
  auto second = sealed("two");
  auto third = sealed("three");
  BOOST_TEST(!opens(in, second));
  BOOST_TEST(opens(in, first));
  BOOST_TEST(!opens(in, first));
  BOOST_TEST(!opens(in, third));
  BOOST_TEST(opens(in, second));
  BOOST_TEST(opens(in, third));
}

BOOST_AUTO_TEST_CASE(a_message_belongs_to_its_connection) {
  auto x = sealed("one");
  auto other_key = offer.key;
  other_key[31] ^= std::byte{1};
  frame_seal others[] = {
      {offer.key, seal_direction::from_listener, sealed_for},
      {offer.key, seal_direction::to_listener, {{8}, {3}}},
      {offer.key, seal_direction::to_listener, {{7}, {4}}},
      {other_key, seal_direction::to_listener, sealed_for},
  };
  for (auto& each : others)
    BOOST_TEST(!opens(each, x));
  BOOST_TEST(opens(in, x));
}

BOOST_AUTO_TEST_CASE(offers_have_secrets_of_their_own) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    auto x = new_offer();
    BOOST_TEST(seen.insert(text_of(x.ticket)).second);
    BOOST_TEST(
        seen.insert({reinterpret_cast<const char*>(x.key.data()), x.key.size()})
            .second);
  }
}

BOOST_AUTO_TEST_SUITE_END()
