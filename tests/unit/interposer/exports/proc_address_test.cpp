#include "interposer/exports/proc_address.hpp"

#include "interposer/exports/symbols.hpp"

#include <cuda.h>

#include <boost/test/unit_test.hpp>

#include <dlfcn.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

using namespace vgpu;
using namespace vgpu::interposer;

namespace {

std::string found(const char* name, int version, bool per_thread = false) {
  auto got = look_up(name, version, per_thread);
  return got.entry == nullptr ? "-" : std::string{got.entry->symbol};
}

} // namespace

BOOST_AUTO_TEST_SUITE(proc_address)

BOOST_AUTO_TEST_CASE(the_catalogue_is_sorted_and_whole) {
  BOOST_TEST(catalogue.size() == 672U);
  for (std::size_t i = 1; i < catalogue.size(); ++i)
    BOOST_TEST((catalogue[i - 1].symbol < catalogue[i].symbol));
  for (const auto& x : catalogue) {
    BOOST_TEST((x.served == call_class::refused) == !x.why.empty());
    BOOST_TEST(find_symbol(x.symbol) == &x);
    // These classes have no additional occasions: they always wait, or never.
    if (x.served == call_class::sync || x.served == call_class::refused)
      BOOST_TEST((x.more == occasion::none));
  }
  BOOST_TEST((find_symbol("cuNothing") == nullptr));
}

BOOST_AUTO_TEST_CASE(each_request_of_the_runtime_gets_its_symbol) {
  std::ifstream file{VGPU_RUNTIME_REQUESTS};
  BOOST_REQUIRE(file);
  int requests = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#'))
      continue;
    std::istringstream words{line};
    std::string name, symbol;
    int version = 0, flags = 0;
    words >> name >> version >> flags >> symbol;
    BOOST_TEST(found(name.c_str(), version, flags == 2) == symbol, line);
    ++requests;
  }
  BOOST_TEST(requests == 439);
}

BOOST_AUTO_TEST_CASE(the_version_chooses_the_form) {
  BOOST_TEST(found("cuMemAlloc", 2000) == "cuMemAlloc");
  BOOST_TEST(found("cuMemAlloc", 3020) == "cuMemAlloc_v2");
  BOOST_TEST(found("cuMemAlloc", 99000) == "cuMemAlloc_v2");
  BOOST_TEST(found("cuCtxGetDevice", 12080) == "cuCtxGetDevice");
  BOOST_TEST(found("cuCtxGetDevice", 13000) == "cuCtxGetDevice_v2");
  BOOST_TEST(found("cuMemcpyHtoD", 7000, true) == "cuMemcpyHtoD_v2_ptds");
  // A call that takes no stream has one form.
  BOOST_TEST(found("cuMemAlloc", 7000, true) == "cuMemAlloc_v2");
}

BOOST_AUTO_TEST_CASE(failed_look_ups_have_their_own_codes) {
  BOOST_TEST(
      (look_up("cuNothing", 13000, false).status == lookup::unknown_name));
  BOOST_TEST((look_up("", 13000, false).status == lookup::unknown_name));
  BOOST_TEST((look_up("cuLibraryLoadData", 11000, false).status ==
              lookup::version_too_old));
  BOOST_TEST((look_up("cuInit", 0, false).status == lookup::version_too_old));
}

BOOST_AUTO_TEST_CASE(each_symbol_has_its_own_address) {
  std::set<void*> seen;
  for (std::size_t i = 0; i < catalogue.size(); ++i)
    seen.insert(symbol_address(i));
  // Stubs must not be merged, because each reports its own name.
  BOOST_TEST(seen.size() == catalogue.size());
}

BOOST_AUTO_TEST_CASE(the_coverage_table_counts_every_symbol) {
  auto text = coverage_table();
  BOOST_TEST(text.find("of 672 exported symbols") != std::string::npos);
  BOOST_TEST(text.find("| cuMemAlloc_v2 | 3020 | create |  |") !=
             std::string::npos);
  BOOST_TEST(text.find("| cuMemAlloc_v2 | 3020 | create |  | "
                       "sharing, lack of room |") != std::string::npos);
  BOOST_TEST(text.find("cuMemcpyHtoD_v2_ptds") == std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
