#include "nodes/sandbox/sandbox.hpp"

#include "nodes/sandbox/call_filter.hpp"
#include "nodes/sandbox/file_rights.hpp"
#include "nodes/sandbox/privileges.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>

namespace vgpu {

namespace {

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const auto& x : parts)
    out += (out.empty() ? "" : ", ") + x;
  return out;
}

/// Writes the report of a sandboxed process, and ends it.
[[noreturn]] void report_to(int fd, const sandbox_needs& needs) {
  sandbox_report report;
  enter_sandbox(needs, report);
  seal_sandbox(needs, report);
  auto text = report.write();
  auto all = ::write(fd, text.data(), text.size());
  ::_exit(all == static_cast<ssize_t>(text.size()) ? 0 : 1);
}

std::string read_all(int fd) {
  std::string out;
  char part[512];
  ssize_t n = 0;
  while ((n = ::read(fd, part, sizeof part)) > 0 || (n < 0 && errno == EINTR))
    if (n > 0)
      out.append(part, static_cast<std::size_t>(n));
  return out;
}

} // namespace

void sandbox_report::has(std::string part) {
  has_.push_back(std::move(part));
}

void sandbox_report::lacks(const std::string& part, const std::string& why) {
  lacks_.push_back(part + " (" + why + ")");
}

bool sandbox_report::gives(const std::string& part) const {
  return std::ranges::count(has_, part) != 0;
}

std::string sandbox_report::write() const {
  std::string out;
  for (const auto& x : has_)
    out += "+" + x + "\n";
  for (const auto& x : lacks_)
    out += "-" + x + "\n";
  return out;
}

void sandbox_report::read(const std::string& written) {
  std::istringstream lines{written};
  for (std::string x; std::getline(lines, x);)
    if (!x.empty())
      (x.front() == '+' ? has_ : lacks_).push_back(x.substr(1));
}

std::string sandbox_report::text() const {
  auto out = has_.empty() ? std::string{"none"} : joined(has_);
  return lacks_.empty() ? out : out + "; not: " + joined(lacks_);
}

void enter_sandbox(const sandbox_needs& needs, sandbox_report& report) {
  limit_resources(needs, report);
  forbid_new_privileges(report);
  restrict_files(needs, report);
  drop_capabilities(needs, report);
  forbid_cores(needs, report);
}

void seal_sandbox(const sandbox_needs& needs, sandbox_report& report) {
  restrict_system_calls(needs, report);
}

sandbox_report try_sandbox(const sandbox_needs& needs) {
  sandbox_report out;
  auto fails = [&](const char* what) {
    out.lacks("a trial", std::string{what} + ": " + std::strerror(errno));
    return out;
  };
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return fails("pipe2");
  auto child = ::fork();
  if (child == 0)
    report_to(ends[1], needs);
  ::close(ends[1]);
  if (child > 0)
    out.read(read_all(ends[0]));
  ::close(ends[0]);
  if (child < 0)
    return fails("fork");
  auto status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR)
    continue;
  if (status != 0)
    out.lacks("a trial", "it ended early");
  return out;
}

} // namespace vgpu
