#include "actors/link/codec.hpp"
#include "actors/link/printable.hpp"

#include "schema/wire/wire.capnp.h"

#include <capnp/schema.h>
#include <capnp/serialize.h>

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <random>
#include <set>
#include <string>

using namespace vgpu;
using namespace vgpu::control;

namespace {

parcel from_bytes(const void* data, std::size_t size) {
  return {"peer", zmq::message_t{data, size}, {}};
}

std::variant<envelope, unreadable> round_trip(const envelope& what) {
  return decode(parcel{"peer", encode(what), {}});
}

device_facts facts() {
  device_facts out;
  out.name = "Software GPU";
  out.uuid.fill(std::byte{7});
  out.total_memory = 1 << 30;
  out.attributes = {{1, 1024}, {75, 9}, {16, -2}};
  return out;
}

lease some_lease() {
  lease out;
  out.session = {3};
  out.vgpu = {4};
  out.epoch = {5};
  out.node = "a";
  out.worker = {"tcp://127.0.0.1:9", "@x", "boot/net", std::string(40, 'k')};
  out.token = 0xfedc'ba98'7654'3210;
  out.quota = 99;
  out.devices = {facts(), facts()};
  out.pgpus = {0, 3};
  out.protection = protection::none;
  out.reason = "node lost";
  return out;
}

/// Returns a message of each kind, with no field at its default.
std::vector<body> one_of_each() {
  specification spec{0.5, 1 << 20, 2,  protection::none, 0.75, -3,  "b",
                     2,   "cpu",   86, locality::any,    {8},  {9}, 1500,
                     2500};
  program prog{"a.out", 42, "host", "me"};
  worker_endpoints where{"ipc://x", "guest", "host", std::string(40, 'k')};
  session_load load{
      {1}, {2}, 3, 4, 5, 6, 7, 8, {11, 12, 13, 14, 15, 16}, 17, {18, 19, -1}};
  session_load last{{18}, {19}, 3, 4, 5, 6, 7, 8, {20, 21, 22, 23, 24, 25}, 0};
  return {
      refusal{CUDA_ERROR_OUT_OF_MEMORY, "no", {9}},
      hello{1, 2, "x 1.0", role::worker},
      welcome{2, "y", 77, 50, 200, 9},
      register_node{"a",
                    "host",
                    12,
                    {{1, "cpu", facts(), pgpu_health::lost, "equal", 5000}},
                    {{{1}, {2}, {3}, {0, 1}, where, 99, 0.5, 0.75, -2}},
                    "seccomp",
                    true},
      node_beat{"a", 3, {load}, {last}},
      worker_started{{1}, {2}, where, 5, "failed"},
      worker_exited{{1}, {2}, "signal 9", true},
      beat_ack{4, 5},
      start_worker{{1},
                   {2},
                   {3},
                   4,
                   {5, 6},
                   7,
                   protection::none,
                   "p",
                   0.25,
                   0.5,
                   7,
                   true,
                   std::string(40, 'k')},
      stop_worker{{1}, {2}, "why"},
      acquire{spec, prog, 61'000},
      adopt{{1},
            {2},
            {3},
            4,
            spec,
            prog,
            "a",
            5,
            true,
            true,
            true,
            {true, 6, 7, 8}},
      suspect{{1}, {2}, "silent"},
      close_session{{1}, {2}, "exit"},
      event{1, 2.5, "kind", "a", {3}, {4}, {5}, "text", 6, 7, 8.5},
      some_lease(),
      worker_hello{{1}, {2}, where, "bad"},
      worker_beat{load, CUDA_ERROR_ECC_UNCORRECTABLE},
      inject_fault{"a", 1, injected_fault::hang},
      status_request{},
      status_text{"{}"},
      events_request{1, 2},
      events{{event{}, event{1, 2.5, "k", "a", {3}, {4}, {5}, "t", 6, 7, 8}}},
      shutdown{},
      done{},
      set_vgpu{{1},
               0.5,
               0.75,
               4,
               true,
               -6,
               500,
               true,
               3.5,
               true,
               divergence::snapshot},
      set_policy{"a", 1, "fixed", 7000},
      resize_session{{1},
                     {2},
                     0.5,
                     0.75,
                     -5,
                     6,
                     std::string(40, 'k'),
                     std::string(40, 'f')},
      suspend_vgpu{{3}, true},
      resume_vgpu{{4}},
      migrate_vgpu{{5}, "b", 2},
      drain_node{"c", true},
      pause_session{{6}, {7}, {1, 0}, true, true, false, {"w-2", 8}},
      paused{{8}, {9}, "no", 10, 11.5, true},
      wake_session{{12}},
      restored{{13}, {14}, 15, 16.5},
      usage_request{1.5, "user"},
      prepare_worker{{17}, {18}, {2, 0}, 19},
      worker_prepared{{20}, "not now", {"w-3", 9}},
      redirect{"tcp://h2:7700", 18},
      restore_process{{8}, {9}},
      enroll{std::string(40, 'k'), "a"},
      set_tenant{"t", true, {1, 2, 0.5, 3, -4}, true, true, true, true, true},
      remove_tenant{"t", true},
      tenants_request{},
      tenants{
          {tenant{}, tenant{"t", true, {1, 2, 0.5, 3, 4}, 5, 6, 7.5, 8, 9}}},
      audit_request{17},
      audit{{"1 ab {}", "2 cd {}"}, 2, "cd"},
      rotate_key{3, std::string(40, 'm'), 20.5},
      renew_key{3, std::string(40, 'k')},
      standby{{8}, {9}, standby_news::made},
  };
}

} // namespace

BOOST_AUTO_TEST_SUITE(messages)

BOOST_AUTO_TEST_CASE(every_message_comes_back_as_it_was) {
  auto all = one_of_each();
  BOOST_REQUIRE(all.size() == std::variant_size_v<body>);
  for (auto i = 0u; i < all.size(); ++i) {
    BOOST_TEST_CONTEXT(name_of(all[i])) {
      BOOST_TEST(all[i].index() == i);
      envelope sent{"node/a", 17 + i, all[i]};
      auto got = round_trip(sent);
      BOOST_REQUIRE(std::holds_alternative<envelope>(got));
      BOOST_CHECK(std::get<envelope>(got) == sent);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_truncated_message_is_refused_at_every_length) {
  auto frame = encode({"client/x", 5, some_lease()});
  for (auto size = 0u; size < frame.size(); ++size) {
    auto got = decode(from_bytes(frame.data(), size));
    BOOST_REQUIRE(std::holds_alternative<unreadable>(got));
  }
}

BOOST_AUTO_TEST_CASE(a_damaged_message_does_no_harm_in_the_decoder) {
  std::mt19937 random{7};
  auto frame = encode({"client/x", 5, one_of_each()[3]});
  auto refused = 0;
  for (auto round = 0; round < 4000; ++round) {
    std::vector<char> bytes(frame.size());
    std::memcpy(bytes.data(), frame.data(), bytes.size());
    for (auto n = random() % 8 + 1; n > 0; --n)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    refused += static_cast<int>(std::holds_alternative<unreadable>(
        decode(from_bytes(bytes.data(), bytes.size()))));
  }
  BOOST_TEST(refused > 1000);
}

BOOST_AUTO_TEST_CASE(noise_is_refused) {
  std::mt19937 random{11};
  for (auto round = 0; round < 2000; ++round) {
    std::vector<std::uint64_t> words(random() % 64);
    for (auto& x : words)
      x = random() % 4 == 0 ? random() : random() % 3;
    // decode() returns, whatever the words are.
    (void)decode(from_bytes(words.data(), words.size() * 8));
  }
}

BOOST_AUTO_TEST_CASE(an_unknown_kind_is_refused_with_its_request_number) {
  capnp::MallocMessageBuilder message;
  auto to = message.initRoot<wire::Envelope>();
  to.setRequest(88);
  to.setDone();
  auto frame = to_frame(message);
  // The union's discriminant is the only 16-bit value of this message that
  // equals done's.
  auto* halves = static_cast<std::uint16_t*>(frame.data());
  auto changed = 0;
  for (auto i = 8u; i < frame.size() / 2; ++i)
    if (halves[i] == wire::Envelope::DONE) {
      halves[i] = 999;
      ++changed;
    }
  BOOST_REQUIRE(changed == 1);
  auto got = decode(from_bytes(frame.data(), frame.size()));
  BOOST_REQUIRE(std::holds_alternative<unreadable>(got));
  BOOST_TEST(std::get<unreadable>(got).request == 88u);
  BOOST_TEST(std::get<unreadable>(got).why.find("999") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(unknown_values_are_refused) {
  capnp::MallocMessageBuilder message;
  auto to = message.initRoot<wire::Envelope>();
  to.initHello().setRole(static_cast<wire::Role>(77));
  auto got = decode(parcel{"peer", to_frame(message), {}});
  BOOST_TEST(std::holds_alternative<unreadable>(got));
}

BOOST_AUTO_TEST_CASE(enums_that_travel_as_texts_keep_their_texts) {
  for (auto [value, text] : injected_fault_names) {
    auto sent = inject_fault{"a", 1, value};
    auto frame = encode({"command/1", 5, sent});
    auto in = from_bytes(frame.data(), frame.size());
    capnp::FlatArrayMessageReader reader{in.words()};
    auto fault = reader.getRoot<wire::Envelope>().getInjectFault();
    BOOST_TEST(fault.getKind().cStr() == text);
  }
  for (auto [value, text] : pgpu_health_names) {
    register_node sent;
    sent.pgpus.push_back({1, "cpu", {}, value});
    auto frame = encode({"node/a", 5, sent});
    auto in = from_bytes(frame.data(), frame.size());
    capnp::FlatArrayMessageReader reader{in.words()};
    auto node = reader.getRoot<wire::Envelope>().getRegisterNode();
    BOOST_TEST(node.getPgpus()[0].getState().cStr() == text);
  }
}

BOOST_AUTO_TEST_CASE(unknown_texts_of_enums_are_refused) {
  for (auto text : {"", "rust", "Lost", "lost "}) {
    capnp::MallocMessageBuilder fault;
    auto to = fault.initRoot<wire::Envelope>();
    to.setRequest(88);
    to.initInjectFault().setKind(text);
    auto got = decode(parcel{"peer", to_frame(fault), {}});
    BOOST_REQUIRE(std::holds_alternative<unreadable>(got));
    BOOST_TEST(std::get<unreadable>(got).request == 88u);
    capnp::MallocMessageBuilder node;
    auto pgpus =
        node.initRoot<wire::Envelope>().initRegisterNode().initPgpus(1);
    pgpus[0].setState(text);
    BOOST_TEST(std::holds_alternative<unreadable>(
        decode(parcel{"peer", to_frame(node), {}})));
  }
}

BOOST_AUTO_TEST_CASE(a_list_whose_elements_share_bytes_is_refused) {
  // Every element points at the same bytes: small to send, large to read.
  capnp::MallocMessageBuilder message{1 << 20}; // one segment
  auto to = message.initRoot<wire::Envelope>();
  auto list = to.initEvents().initEvents(2000);
  auto big = list[0].initText(8000);
  std::memset(big.begin(), 'x', big.size());
  auto frame = to_frame(message);
  BOOST_CHECK(std::holds_alternative<envelope>(
      decode(from_bytes(frame.data(), frame.size()))));
  for (auto i = 1; i < 2000; ++i)
    list[static_cast<unsigned>(i)].setText("y");
  auto shared = to_frame(message);
  auto* words = static_cast<std::uint64_t*>(shared.data());
  // Copies element 0's text pointer into the others, corrected for distance.
  auto count = shared.size() / 8;
  auto first = std::size_t{0};
  for (auto i = 0u; i < count && first == 0; ++i)
    if ((words[i] & 3) == 1 && (words[i] >> 32 & 7) == 2 &&
        (words[i] >> 35) == 8001)
      first = i;
  BOOST_REQUIRE(first != 0);
  auto target = first + 1 + (words[first] >> 2 & 0x3fff'ffff);
  for (auto i = first + 1; i < target && i < count; ++i)
    if ((words[i] & 3) == 1 && (words[i] >> 32 & 7) == 2 &&
        (words[i] >> 35) == 2)
      words[i] = (words[first] & ~std::uint64_t{0xffff'ffff}) |
                 ((target - i - 1) << 2 | 1);
  auto got = decode(from_bytes(shared.data(), shared.size()));
  BOOST_TEST(std::holds_alternative<unreadable>(got));
}

BOOST_AUTO_TEST_CASE(names_in_the_log_are_printable) {
  BOOST_TEST(printable("node/a") == "node/a");
  BOOST_TEST(printable(std::string("a\n\x1b[2J\0b", 8)) == "a??[2J?b");
  BOOST_TEST(printable(std::string(500, 'x')).size() == 83u);
}

BOOST_AUTO_TEST_SUITE_END()

namespace {

std::set<std::string> members_of(capnp::StructSchema schema) {
  std::set<std::string> out;
  for (auto x : schema.getUnionFields())
    out.insert(x.getProto().getName().cStr());
  return out;
}

std::set<std::string> names_of(const auto& choices) {
  return std::apply(
      [](const auto&... x) {
        return std::set<std::string>{std::string{x.name.data()}...};
      },
      choices);
}

/// Returns how many fields a union's member has, or one if it is not a struct.
std::size_t fields_in_schema(capnp::StructSchema of, const char* member) {
  auto type = of.getFieldByName(member).getType();
  if (type.isStruct())
    return type.asStruct().getFields().size();
  return type.isVoid() ? 0 : 1;
}

} // namespace

BOOST_AUTO_TEST_SUITE(message_tables)

BOOST_AUTO_TEST_CASE(every_member_of_a_union_has_a_row) {
  BOOST_TEST(names_of(control::messages) ==
                 members_of(capnp::Schema::from<wire::Envelope>()),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(every_field_of_the_schema_has_one_of_its_struct) {
  auto envelope = capnp::Schema::from<wire::Envelope>();
  auto check = [&](const auto& row) {
    using type = typename std::decay_t<decltype(row)>::type;
    BOOST_TEST_CONTEXT(row.name.data()) {
      BOOST_TEST(count_wire_fields<type>() ==
                 fields_in_schema(envelope, row.name.data()));
    }
  };
  std::apply([&](const auto&... row) { (check(row), ...); }, control::messages);
}

BOOST_AUTO_TEST_CASE(each_role_may_send_its_own_messages_alone) {
  BOOST_TEST(may_say(role::node, register_node{}));
  BOOST_TEST(!may_say(role::client, register_node{}));
  BOOST_TEST(may_say(role::client, acquire{}));
  BOOST_TEST(!may_say(role::command, acquire{}));
  BOOST_TEST(may_say(role::command, set_vgpu{}));
  BOOST_TEST(!may_say(role::node, set_vgpu{}));
  BOOST_TEST(may_say(role::node, control::shutdown{}));
  BOOST_TEST(!may_say(role::client, control::shutdown{}));
  for (auto x : {role::node, role::client, role::worker, role::command}) {
    auto orders = x == role::command;
    BOOST_TEST(may_say(x, inject_fault{}) == orders);
    BOOST_TEST(may_say(x, status_request{}) == orders);
    BOOST_TEST(may_say(x, events_request{}) == orders);
    BOOST_TEST(may_say(x, usage_request{}) == orders);
    BOOST_TEST(may_say(x, suspend_vgpu{}) == orders);
    BOOST_TEST(may_say(x, resume_vgpu{}) == orders);
    BOOST_TEST(may_say(x, migrate_vgpu{}) == orders);
    BOOST_TEST(may_say(x, drain_node{}) == orders);
    BOOST_TEST(may_say(x, refusal{}));
    BOOST_TEST(may_say(x, event{}));
    BOOST_TEST(!may_say(x, welcome{}));
  }
}

BOOST_AUTO_TEST_SUITE_END()
