// Texts of peers never act on the terminal or the log that shows them, and do
// not fill it.
#include "actors/link/printable.hpp"

#include "actors/link/log_limit.hpp"

#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

using namespace vgpu;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(texts_of_peers)

BOOST_AUTO_TEST_CASE(what_acts_on_a_terminal_is_not_shown) {
  struct row {
    std::string text;
    std::string shown;
  };
  for (const auto& x :
       std::vector<row>{{"", ""},
                        {"heat 3 [100 %] ~", "heat 3 [100 %] ~"},
                        {"\x1b[2J\x1b[1;31mroot#", "?[2J?[1;31mroot#"},
                        {"\x1b]0;title\x07", "?]0;title?"},
                        {"a\nforged line\r\tb\b\x7f", "a?forged line??b??"},
                        {std::string{"a\0b", 3}, "a?b"},
                        // C1 controls, as bytes and in UTF-8.
                        {"\x9b"
                         "2J",
                         "?2J"},
                        {"\xc2\x9b"
                         "2J",
                         "?2J"},
                        {"\xc2\x85\xc2\xa0", "?\xc2\xa0"},
                        // Characters of other scripts are kept.
                        {"Gr\xc3\xbc\xc3\x9f"
                         "e \xe6\xbc\xa2 \xf0\x9f\x98\x80",
                         "Gr\xc3\xbc\xc3\x9f"
                         "e \xe6\xbc\xa2 \xf0\x9f\x98\x80"},
                        // Direction marks and separators of lines.
                        {"a\xe2\x80\xae"
                         "b\xe2\x81\xa6\xe2\x80\xa8\xd8\x9c",
                         "a?b???"},
                        // No UTF-8: lone, cut, overlong, surrogate, too large.
                        {"\x80\xbf", "??"},
                        {"\xc3", "?"},
                        {"\xe6\xbc", "??"},
                        {"\xc0\x9b", "??"},
                        {"\xe0\x80\x9b", "???"},
                        {"\xed\xa0\x80", "???"},
                        {"\xf4\x90\x80\x80", "????"},
                        {"\xff\xfe", "??"},
                        {"\xc3"
                         "a",
                         "?a"}})
    BOOST_TEST(shown(x.text) == x.shown);
}

BOOST_AUTO_TEST_CASE(chosen_control_characters_are_kept) {
  BOOST_TEST(shown("a\tb\nc\x1b", "\n\t") == "a\tb\nc?");
}

BOOST_AUTO_TEST_CASE(a_character_may_be_unfinished) {
  struct row {
    std::string text;
    std::size_t bytes;
  };
  for (const auto& x : std::vector<row>{{"", 0},
                                        {"a", 0},
                                        {"a\xc3", 1},
                                        {"\xe6\xbc", 2},
                                        {"\xe6\xbc\xa2", 0},
                                        {"\xf0\x9f\x98", 3},
                                        {"\xbc\xbc\xbc\xbc", 0},
                                        {"\xff", 0}})
    BOOST_TEST(unfinished(x.text) == x.bytes);
}

BOOST_AUTO_TEST_CASE(a_peers_lines_are_few_and_counted) {
  log_limit limit;
  log_limit::clock::time_point now{1h};
  auto lines = 0u;
  for (auto i = 0; i < 200'000; ++i)
    lines += limit.admits("noisy", now + i * 1us).has_value();
  BOOST_TEST(lines == log_limit::most_of_one);
  // Another peer's lines are not lost in them.
  auto other = limit.admits("other", now + 1s);
  BOOST_REQUIRE(other.has_value());
  BOOST_TEST(*other == 200'000 - lines);
  BOOST_TEST(note_suppressed(*other).find("199995") != std::string::npos);
  other = limit.admits("other", now + 1s);
  BOOST_REQUIRE(other.has_value());
  BOOST_TEST(note_suppressed(*other) == "");
  // After a while it may speak again.
  BOOST_TEST(limit.admits("noisy", now + log_limit::span).has_value());
}

BOOST_AUTO_TEST_CASE(many_peers_together_write_few_lines) {
  log_limit limit;
  log_limit::clock::time_point now{1h};
  auto lines = 0u;
  for (auto i = 0; i < 100'000; ++i)
    lines += limit.admits(std::to_string(i), now).has_value();
  BOOST_TEST(lines == log_limit::most_of_all);
}

BOOST_AUTO_TEST_SUITE_END()
