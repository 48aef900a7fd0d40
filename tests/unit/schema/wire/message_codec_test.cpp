// Messages by their fields, and the recipe of schema/wire/README.md with
// messages that exist only here. They use members of the real schema.
#include "schema/wire/message_codec.hpp"
#include "schema/wire/wire.capnp.h"

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

using namespace vgpu;

namespace {

enum class shift : std::uint16_t { day, evening, night };

struct watchman {
  std::string name;
  shift when = shift::day;
  bool operator==(const watchman&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.name, WIRE_MEMBER(Software));
    f(x.when, WIRE_MEMBER(Role));
  }
};
struct round_of_rooms {
  session_id session;
  std::vector<std::uint32_t> rooms;
  bool lit = false;
  bool operator==(const round_of_rooms&) const = default;

  static void fields(auto& x, auto&& f) {
    f(x.session, WIRE_MEMBER(Session));
    f(x.rooms, WIRE_MEMBER(LendTo));
    f(x.lit, WIRE_MEMBER(Hold));
  }
};
struct wake_room {
  vgpu_id room;
  bool operator==(const wake_room&) const = default;

  static void fields(auto& x, auto&& f) { f(x.room, WIRE_MEMBER(Room)); }
};
struct all_is_well {
  bool operator==(const all_is_well&) const = default;

  static void fields(auto&, auto&&) {}
};

constexpr std::tuple night_messages{
    WIRE_CHOICE(watchman, Hello), WIRE_CHOICE(round_of_rooms, PauseSession),
    WIRE_CHOICE(wake_room, ResumeVgpu), WIRE_CHOICE(all_is_well, Done)};
using night_message = one_of_choices<decltype(night_messages)>;

std::optional<night_message> round_trip(const night_message& x,
                                        const wire_codec::bounds& most = {}) {
  capnp::MallocMessageBuilder message;
  auto to = message.initRoot<wire::Envelope>();
  wire_codec::write_one_of(to, night_messages, x);
  return wire_codec::read_one_of<night_message>(to.asReader(), night_messages,
                                                most);
}

} // namespace

template <>
struct vgpu::wire_enum<shift> {
  static constexpr auto last = shift::night;
  static constexpr auto what = "shift";
};

BOOST_AUTO_TEST_SUITE(message_codec)

BOOST_AUTO_TEST_CASE(a_new_message_is_a_struct_and_a_row) {
  for (const night_message& x :
       {night_message{watchman{"Anna", shift::night}},
        night_message{round_of_rooms{{7}, {1, 2, 3}, true}},
        night_message{wake_room{{9}}}, night_message{all_is_well{}}}) {
    auto got = round_trip(x);
    BOOST_REQUIRE(got.has_value());
    BOOST_CHECK(*got == x);
  }
  BOOST_TEST(std::get<1>(night_messages).name.data() == "pauseSession");
  BOOST_TEST(count_wire_fields<round_of_rooms>() == 3u);
}

BOOST_AUTO_TEST_CASE(a_member_without_a_row_is_unknown) {
  capnp::MallocMessageBuilder message;
  auto to = message.initRoot<wire::Envelope>();
  to.setShutdown();
  BOOST_TEST(
      !wire_codec::read_one_of<night_message>(to.asReader(), night_messages, {})
           .has_value());
}

BOOST_AUTO_TEST_CASE(values_beyond_their_bounds_are_refused) {
  BOOST_CHECK_THROW(round_trip(watchman{"Anna", static_cast<shift>(3)}),
                    wire_codec::bad_value);
  BOOST_CHECK_THROW(round_trip(watchman{"Anna"}, {.longest_text = 3}),
                    wire_codec::bad_value);
  BOOST_CHECK_THROW(
      round_trip(round_of_rooms{{}, {1, 2, 3}}, {.longest_list = 2}),
      wire_codec::bad_value);
}

BOOST_AUTO_TEST_SUITE_END()
