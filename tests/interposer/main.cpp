#define BOOST_TEST_MODULE interposer
#include <boost/test/unit_test.hpp>
