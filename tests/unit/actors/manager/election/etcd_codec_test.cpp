#include "actors/manager/election/etcd_codec.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include <random>

using namespace vgpu;
using nlohmann::json;

namespace {

const std::string header = R"("header":{"revision":"9","raft_term":"2"})";

std::string entry(const std::string& value, const std::string& more = "") {
  return R"({"response_range":{)" + header +
         R"(,"kvs":[{"key":"eA==","mod_revision":"7","value":")" +
         etcd::to_base64(value) + "\"" + more + R"(}],"count":"1"}})";
}

std::string text_in(const json& value) {
  return etcd::from_base64(value.get<std::string>());
}

const std::string no_entry = R"({"response_range":{)" + header + "}}";

std::string view(const std::string& leader, const std::string& record) {
  return "{" + header + R"(,"succeeded":true,"responses":[)" + leader + "," +
         record + "]}";
}

template <class T>
T good(const etcd::question& what, const std::string& body,
       unsigned status = 200) {
  auto got = etcd::decode(what, status, body);
  if (auto* no = std::get_if<etcd::failed>(&got))
    BOOST_FAIL(no->why);
  BOOST_REQUIRE(std::holds_alternative<T>(got));
  return std::get<T>(got);
}

std::string bad(const etcd::question& what, const std::string& body,
                unsigned status = 200) {
  auto got = etcd::decode(what, status, body);
  auto* no = std::get_if<etcd::failed>(&got);
  BOOST_REQUIRE_MESSAGE(no != nullptr, body);
  return no->why;
}

const std::string some_record = R"({"term":3,"numbers":20000,"drained":["a"]})";

} // namespace

BOOST_AUTO_TEST_SUITE(etcd_answers)

BOOST_AUTO_TEST_CASE(looks_are_decoded) {
  auto nothing = good<etcd::seen>(etcd::look{}, view(no_entry, no_entry));
  BOOST_TEST(!nothing.who.has_value());
  BOOST_TEST(nothing.revision == 0);
  auto all = good<etcd::seen>(
      etcd::look{},
      view(entry(R"({"endpoint":"tcp://h:1","term":3})", R"(,"lease":"12")"),
           entry(some_record)));
  BOOST_TEST((all.who == etcd::leader{"tcp://h:1", 3}));
  // This leader is of a release without tenants.
  BOOST_TEST((all.kept == etcd::record{3, 20'000, {"a"}, {}}));
  BOOST_TEST(all.revision == 7);
}

BOOST_AUTO_TEST_CASE(leases_are_decoded) {
  auto x = good<etcd::granted>(etcd::grant{},
                               "{" + header + R"(,"ID":"-5","TTL":"2"})");
  BOOST_TEST(x.lease == -5);
  BOOST_TEST(x.length.count() == 2);
  BOOST_TEST(
      good<etcd::renewed>(etcd::renew{}, R"({"result":{"ID":"5","TTL":"2"}})")
          .length.count() == 2);
  // A renewal without a TTL says that the lease has ended.
  BOOST_TEST(good<etcd::renewed>(etcd::renew{}, R"({"result":{"ID":"5"}})")
                 .length.count() == 0);
  good<etcd::revoked>(etcd::revoke{}, "{" + header + "}");
  good<etcd::revoked>(etcd::revoke{}, R"({"error":"lease not found","code":5})",
                      404);
}

BOOST_AUTO_TEST_CASE(transactions_are_decoded) {
  BOOST_TEST(good<etcd::taken>(etcd::take{}, R"({"succeeded":true})").mine);
  BOOST_TEST(!good<etcd::taken>(etcd::take{}, "{" + header + "}").mine);
  BOOST_TEST(good<etcd::kept>(etcd::keep{}, R"({"succeeded":true})").mine);
  BOOST_TEST(!good<etcd::kept>(etcd::keep{}, "{}").mine);
}

BOOST_AUTO_TEST_CASE(a_refusal_keeps_its_reason) {
  auto why = bad(etcd::take{}, R"({"error":"no space","code":8})", 429);
  BOOST_TEST(why.find("no space") != why.npos);
}

BOOST_AUTO_TEST_CASE(a_leader_of_an_unknown_format_still_counts) {
  for (auto value :
       {"", "[]", "{}", "\xff\xfe", R"({"endpoint":7,"term":"x"})"})
    BOOST_TEST(good<etcd::seen>(etcd::look{}, view(entry(value), no_entry))
                   .who.has_value());
}

BOOST_AUTO_TEST_CASE(an_unreadable_record_never_counts_as_missing) {
  for (auto value :
       {"", "[]", "{}", "null", R"({"term":-1,"numbers":0,"drained":[]})",
        R"({"term":1,"numbers":1e30,"drained":[]})",
        R"({"term":99999999999,"numbers":0,"drained":[]})",
        R"({"term":1,"numbers":0,"drained":[7]})",
        R"({"term":1,"numbers":0,"drained":{"a":[]}})",
        R"({"term":1,"numbers":0,"drained":[],"tenants":{"a b":{}}})",
        R"({"term":1,"numbers":0,"drained":[],"tenants":{"a":7}})"})
    bad(etcd::look{}, view(no_entry, entry(value)));
}

BOOST_AUTO_TEST_CASE(noise_is_refused_as_an_answer) {
  const etcd::question questions[] = {etcd::look{}, etcd::grant{}, etcd::take{},
                                      etcd::renew{}, etcd::keep{}};
  for (const auto& what : questions)
    for (auto body : {"", "null", "[]", "7", "\"x\"", "{", "\xff"})
      bad(what, body);
  for (auto body : {R"({"ID":"x","TTL":"2"})", R"({"ID":"1"})",
                    R"({"ID":[],"TTL":"2"})", R"({"ID":"1","TTL":"-3"})",
                    R"({"ID":"1","TTL":"99999999999"})", R"({"TTL":"2"})"})
    bad(etcd::grant{}, body);
  bad(etcd::revoke{}, "<html>", 502);
  bad(etcd::look{}, std::string(100'000, '['));
}

BOOST_AUTO_TEST_CASE(a_damaged_answer_does_no_harm_in_the_decoder) {
  std::mt19937 random{5};
  auto whole =
      view(entry(R"({"endpoint":"tcp://h:1","term":3})"), entry(some_record));
  auto refused = 0;
  for (auto round = 0; round < 3000; ++round) {
    auto text = whole;
    for (auto n = random() % 6 + 1; n > 0; --n)
      text[random() % text.size()] = static_cast<char>(random());
    if (round % 3 == 0)
      text.resize(random() % text.size());
    refused += static_cast<int>(std::holds_alternative<etcd::failed>(
        etcd::decode(etcd::look{}, 200, text)));
  }
  BOOST_TEST(refused > 1000);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(etcd_questions)

BOOST_AUTO_TEST_CASE(the_lead_is_taken_if_it_is_free_and_nothing_changed) {
  const etcd::record next{4, 30'000, {"b"}, {{"t", {1, 2, 0.5, 3, -4}}}};
  auto got = etcd::encode(etcd::take{12, {"tcp://h:1", 4}, next, 7}, "/x/");
  BOOST_TEST(got.path == "/v3/kv/txn");
  auto body = json::parse(got.body);
  auto& compare = body["compare"];
  BOOST_REQUIRE(compare.size() == 2u);
  BOOST_TEST(text_in(compare[0]["key"]) == "/x/leader");
  BOOST_TEST(compare[0]["create_revision"] == "0");
  BOOST_TEST(text_in(compare[1]["key"]) == "/x/record");
  BOOST_TEST(compare[1]["mod_revision"] == "7");
  auto& puts = body["success"];
  BOOST_REQUIRE(puts.size() == 2u);
  BOOST_TEST(puts[0]["request_put"]["lease"] == "12");
  auto written = text_in(puts[1]["request_put"]["value"]);
  auto read = good<etcd::seen>(etcd::look{}, view(no_entry, entry(written)));
  BOOST_TEST((read.kept == next));
  auto leads = text_in(puts[0]["request_put"]["value"]);
  read = good<etcd::seen>(etcd::look{}, view(entry(leads), no_entry));
  BOOST_TEST((read.who == etcd::leader{"tcp://h:1", 4}));
}

BOOST_AUTO_TEST_CASE(base64_survives_a_round_trip) {
  for (auto text :
       {"", "f", "fo", "foo", "foob", "fooba", "foobar", "\x80\xff"})
    BOOST_TEST(etcd::from_base64(etcd::to_base64(text)) == text);
  BOOST_TEST(etcd::to_base64("fooba") == "Zm9vYmE=");
  BOOST_CHECK_THROW(etcd::from_base64("a-b"), std::invalid_argument);
}

BOOST_AUTO_TEST_SUITE_END()
