#define BOOST_TEST_MODULE devices
#include <boost/test/unit_test.hpp>
