#include "actors/manager/cluster/audit_log.hpp"

#include <boost/test/unit_test.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

using namespace vgpu;

namespace {

audit_record numbered(int i) {
  audit_record out;
  out.name = "pat";
  out.order = "suspendVgpu";
  out.object = "vGPU " + std::to_string(i);
  out.outcome = "done";
  return out;
}

struct log_folder {
  std::string dir;
  std::string path;
  audit_bounds bounds{};

  log_folder() {
    std::string name = std::filesystem::temp_directory_path() / "auditXXXXXX";
    dir = ::mkdtemp(name.data());
    path = dir + "/log";
  }
  ~log_folder() { std::filesystem::remove_all(dir); }

  std::unique_ptr<audit_log> open() {
    auto out = audit_log::open(path, 1.5, bounds);
    BOOST_REQUIRE(out.ok());
    return std::move(*out);
  }

  /// Writes so many records in one manager's life.
  void write(int records) {
    auto log = open();
    for (auto i = 0; i < records; ++i)
      BOOST_TEST(log->add(numbered(i)) != 0u);
  }

  std::vector<std::string> lines() {
    std::vector<std::string> out;
    BOOST_TEST(each_audit_line(path, [&](std::string_view line) {
                 out.emplace_back(line);
                 return true;
               }).ok());
    return out;
  }

  /// Returns what is wrong with the files, with the head that is beside them.
  std::string broken() {
    audit_check chain;
    auto head = kept_audit_head(path).value_or(audit_head{});
    chain.look_for(head);
    std::string out;
    for (const auto& line : lines())
      if (auto good = chain.take(line); !good)
        out += good.why().what + "\n";
    if (auto good = chain.contains(head); !good)
      out += good.why().what + "\n";
    return out;
  }

  std::string text() {
    std::ifstream in{path};
    return {std::istreambuf_iterator<char>{in}, {}};
  }
  void replace(const std::string& text) {
    std::ofstream{path, std::ios::trunc} << text;
  }
};

bool reads(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(audit_logs, log_folder)

BOOST_AUTO_TEST_CASE(each_manager_continues_the_chain) {
  write(3);
  write(2);
  BOOST_TEST(broken() == "");
  BOOST_TEST(lines().size() == 7u); // with a record of each manager's begin
  BOOST_TEST(kept_audit_head(path)->number == 7u);
  BOOST_TEST(read_audit_line(lines()[4])->reason == "a manager begins");
  struct stat mode = {};
  for (const auto& file : {path, path + ".head"}) {
    BOOST_REQUIRE(::stat(file.c_str(), &mode) == 0);
    BOOST_TEST((mode.st_mode & 0777u) == 0600u);
  }
}

BOOST_AUTO_TEST_CASE(two_managers_do_not_share_a_log) {
  auto log = open();
  BOOST_TEST(!audit_log::open(path, 1.5).ok());
}

BOOST_AUTO_TEST_CASE(full_files_rotate_and_the_chain_goes_on) {
  bounds = {2'000, 3};
  write(40);
  write(1);
  BOOST_TEST(broken() == "");
  std::size_t files = 0;
  for (const auto& each : std::filesystem::directory_iterator{dir})
    if (each.path().extension() != ".head") {
      ++files;
      BOOST_TEST(std::filesystem::file_size(each.path()) <= 2'000u);
    }
  BOOST_TEST(files == 3u);
  auto left = lines();
  BOOST_TEST(read_audit_line(left.back())->number == 43u);
  BOOST_TEST(read_audit_line(left.front())->number > 20u);
}

BOOST_AUTO_TEST_CASE(pages_have_every_record_once) {
  bounds = {256 << 10, 8};
  auto log = open();
  for (auto i = 1; i < 2'500; ++i)
    log->add(numbered(i));
  std::uint64_t after = 0;
  auto pages = 0;
  for (auto page = log->after(0); !page.empty(); page = log->after(after)) {
    BOOST_TEST(page.size() <= audit_log::most_lines);
    for (const auto& line : page) {
      BOOST_REQUIRE(*number_of_audit_line(line) == after + 1);
      ++after;
    }
    ++pages;
  }
  BOOST_TEST(after == 2'500u);
  BOOST_TEST(pages > 2);
  BOOST_TEST(log->after(2'500).empty());
}

BOOST_AUTO_TEST_CASE(a_record_that_was_not_finished_is_removed_and_noted) {
  write(3);
  auto head = kept_audit_head(path);
  replace(text() + "5 0123");
  write(1);
  BOOST_TEST(broken() == "");
  BOOST_TEST(reads(read_audit_line(lines()[4])->reason, "6 bytes of a record"));
}

BOOST_AUTO_TEST_CASE(records_that_were_cut_off_between_managers_stay_missed) {
  write(3);
  auto all = text();
  auto end = all.rfind('\n', all.size() - 2);
  replace(all.substr(0, end + 1));
  BOOST_TEST(reads(broken(), "its end was cut off"));
  write(1);
  write(1);
  BOOST_TEST(reads(broken(), "record 4 is missing"));
  BOOST_TEST(reads(read_audit_line(lines()[3])->reason, "its end was cut off"));
  // In the middle of a record, too.
  all = text();
  replace(all.substr(0, all.size() - 10));
  write(1);
  BOOST_TEST(reads(broken(), "does not match its digest"));
}

BOOST_AUTO_TEST_CASE(a_log_that_was_emptied_is_missed) {
  write(3);
  replace("");
  BOOST_TEST(broken() != "");
  write(1);
  BOOST_TEST(reads(read_audit_line(lines()[0])->reason, "its end was cut off"));
  std::filesystem::remove(path);
  BOOST_TEST(reads(broken(), "its end was cut off"));
}

BOOST_AUTO_TEST_CASE(what_is_no_record_does_not_stop_a_manager) {
  replace("nonsense\n\n1 2 3\n" + std::string(100'000, 'x'));
  write(2);
  auto log = open();
  BOOST_TEST(log->head().number > 2u);
  BOOST_TEST(!log->after(0).empty());
}

BOOST_AUTO_TEST_SUITE_END()
