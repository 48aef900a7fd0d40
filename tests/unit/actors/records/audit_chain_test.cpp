#include "actors/records/audit_chain.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <string>
#include <vector>

using namespace vgpu;

namespace {

audit_record some_order(const std::string& name = "pat") {
  audit_record out;
  out.time = 1.5;
  out.role = "tenant";
  out.name = name;
  out.tenant = "physics";
  out.proved = true;
  out.from = "command/" + name + "/1";
  out.order = "suspendVgpu";
  out.object = "vGPU 3";
  out.outcome = "done";
  return out;
}

struct five_records {
  audit_head head;
  std::vector<std::string> lines;

  five_records() {
    for (auto i = 0; i < 5; ++i)
      lines.push_back(add_to_chain(head, some_order()));
  }
};

/// Returns what is wrong with the lines, in their order.
std::vector<std::string> breaks_of(const std::vector<std::string>& lines) {
  audit_check chain;
  std::vector<std::string> out;
  for (const auto& line : lines)
    if (auto good = chain.take(line); !good)
      out.push_back(good.why().what);
  return out;
}

bool tells_of(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(audit_chain, five_records)

BOOST_AUTO_TEST_CASE(a_chain_is_whole_as_it_was_written) {
  BOOST_TEST(breaks_of(lines).empty());
  audit_check chain;
  for (const auto& line : lines)
    BOOST_TEST(chain.take(line).ok());
  BOOST_CHECK(chain.head() == head);
  BOOST_TEST(chain.records() == 5u);
  BOOST_TEST(chain.first() == 1u);
  auto expected = some_order();
  expected.number = 3;
  BOOST_CHECK(*read_audit_line(lines[2]) == expected);
  BOOST_CHECK(*parse_audit_head(text_of(head)) == head);
}

BOOST_AUTO_TEST_CASE(any_changed_character_is_found) {
  for (std::size_t line = 0; line < lines.size(); ++line)
    for (std::size_t i = 0; i < lines[line].size(); ++i) {
      auto changed = lines;
      changed[line][i] = changed[line][i] == '7' ? '8' : '7';
      BOOST_TEST_CONTEXT("character " << i << " of line " << line)
      BOOST_TEST(!breaks_of(changed).empty());
    }
}

BOOST_AUTO_TEST_CASE(a_changed_record_is_named) {
  auto at = lines[2].find("suspend");
  lines[2].replace(at, 7, "migrate");
  auto found = breaks_of(lines);
  BOOST_REQUIRE(found.size() == 1u);
  BOOST_TEST(tells_of(found[0], "record 3 does not match its digest"));
}

BOOST_AUTO_TEST_CASE(a_record_that_was_written_anew_is_found) {
  // Its digest is right, and so is the one that it names.
  audit_head before;
  for (auto i = 0; i < 2; ++i)
    add_to_chain(before, some_order());
  lines[2] = add_to_chain(before, some_order("somebody else"));
  auto found = breaks_of(lines);
  BOOST_REQUIRE(found.size() == 1u);
  BOOST_TEST(
      tells_of(found[0], "record 4 comes after record 3 and does not follow"));
}

BOOST_AUTO_TEST_CASE(removed_records_are_named) {
  auto fewer = lines;
  fewer.erase(fewer.begin() + 2);
  auto found = breaks_of(fewer);
  BOOST_REQUIRE(found.size() == 1u);
  BOOST_TEST(tells_of(found[0], "record 3 is missing"));
  fewer.erase(fewer.begin() + 1);
  found = breaks_of(fewer);
  BOOST_REQUIRE(found.size() == 1u);
  BOOST_TEST(tells_of(found[0], "records 2 to 3 are missing"));
}

BOOST_AUTO_TEST_CASE(reordered_and_repeated_records_are_found) {
  auto other = lines;
  std::swap(other[1], other[2]);
  BOOST_TEST(breaks_of(other).size() == 3u);
  other = lines;
  other.insert(other.begin() + 2, other[1]);
  auto found = breaks_of(other);
  BOOST_REQUIRE(!found.empty());
  BOOST_TEST(tells_of(found[0], "reordered or added"));
}

BOOST_AUTO_TEST_CASE(a_record_that_was_cut_is_found) {
  for (std::size_t size = 0; size < lines[4].size(); ++size) {
    auto cut = lines;
    cut[4].resize(size);
    BOOST_TEST(breaks_of(cut).size() == 1u);
  }
}

BOOST_AUTO_TEST_CASE(an_end_that_was_cut_off_is_found_by_a_head) {
  for (std::size_t left = 0; left < lines.size(); ++left) {
    audit_check chain;
    chain.look_for(head);
    for (std::size_t i = 0; i < left; ++i)
      BOOST_TEST(chain.take(lines[i]).ok());
    auto good = chain.contains(head);
    BOOST_REQUIRE(!good.ok());
    BOOST_TEST(tells_of(good.why().what, "its end was cut off"));
  }
}

BOOST_AUTO_TEST_CASE(a_chain_that_was_written_anew_is_found_by_a_head) {
  audit_head other;
  audit_check chain;
  chain.look_for(head);
  for (auto i = 0; i < 7; ++i)
    BOOST_TEST(chain.take(add_to_chain(other, some_order("other"))).ok());
  auto good = chain.contains(head);
  BOOST_REQUIRE(!good.ok());
  BOOST_TEST(tells_of(good.why().what, "the chain was rewritten"));
  // A longer chain still contains the head.
  audit_check longer;
  longer.look_for(head);
  auto end = head;
  lines.push_back(add_to_chain(end, some_order()));
  for (const auto& line : lines)
    BOOST_TEST(longer.take(line).ok());
  BOOST_TEST(longer.contains(head).ok());
}

BOOST_AUTO_TEST_CASE(a_chain_may_begin_late_but_not_be_replaced_at_its_begin) {
  lines.erase(lines.begin(), lines.begin() + 2);
  BOOST_TEST(breaks_of(lines).empty());
  audit_head foreign{0, std::string(64, 'a')};
  BOOST_TEST(!breaks_of({add_to_chain(foreign, some_order())}).empty());
}

BOOST_AUTO_TEST_CASE(hostile_texts_are_kept_harmless_and_short) {
  auto x = some_order("\x1b[31mroot\n2 00 {}\xff" + std::string(10'000, 'x'));
  x.reason = "\xe2\x80\xae";
  audit_head at;
  auto line = add_to_chain(at, x);
  BOOST_TEST(line.size() < 2'000u);
  BOOST_TEST(std::ranges::all_of(
      line, [](char c) { return static_cast<unsigned char>(c) >= ' '; }));
  BOOST_TEST(breaks_of({line}).empty());
  auto read = read_audit_line(line);
  BOOST_REQUIRE(read.ok());
  BOOST_TEST(tells_of(read->name, "?[31mroot?2 00 {}"));
  BOOST_TEST(!tells_of(read->reason, "\xe2\x80\xae"));
}

BOOST_AUTO_TEST_CASE(any_text_may_be_read_as_a_line) {
  auto deep = "1 " + std::string(64, '0') + " " + std::string(10'000, '[');
  for (const auto& text :
       {std::string{}, std::string{"x"}, std::string{"1 2 3"}, deep,
        std::string(100'000, '9'), std::string{"18446744073709551616 x"}})
    BOOST_TEST(!read_audit_line(text).ok());
}

BOOST_AUTO_TEST_SUITE_END()
