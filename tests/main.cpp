// What Boost.Test has once in a program, compiled once for all of them.
#define BOOST_TEST_MODULE vgpu
#include <boost/test/unit_test.hpp>
