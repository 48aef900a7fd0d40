// The command's output holds no more than text.
#include "nodes/cli/shown_output.hpp"

#include <boost/test/unit_test.hpp>

#include <sstream>
#include <string>

using namespace vgpu;

BOOST_AUTO_TEST_SUITE(shown_outputs)

BOOST_AUTO_TEST_CASE(what_acts_on_a_terminal_does_not_pass) {
  std::ostringstream to;
  {
    shown_output filter{to};
    to << "node a\tok\n"
       << "\x1b[2J" << '\x07' << std::string(10'000, 'x');
    to.flush();
    to << "\x9b" << 7;
  }
  BOOST_TEST(to.str() == "node a\tok\n?[2J?" + std::string(10'000, 'x') + "?7");
  // The stream is as before.
  to << "\x1b";
  BOOST_TEST(to.str().back() == '\x1b');
}

BOOST_AUTO_TEST_CASE(a_character_is_never_cut) {
  std::ostringstream to;
  std::string text;
  for (auto i = 0; i < 5'000; ++i)
    text += "\xe6\xbc\xa2\xc3\xbc";
  {
    shown_output filter{to};
    for (auto x : text)
      to << x;
  }
  BOOST_TEST((to.str() == text));
}

BOOST_AUTO_TEST_SUITE_END()
