#define BOOST_TEST_MODULE schema
#include <boost/test/unit_test.hpp>
