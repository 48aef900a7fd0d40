#include "actors/manager/cluster/audit_log.hpp"

#include "actors/link/log.hpp"
#include "actors/manager/cluster/whole_write.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace vgpu {

namespace {

/// Bounds the files that a reader looks for.
constexpr unsigned most_files = 64;
constexpr auto nobody = "vgpu-manager";

std::string path_of(const std::string& path, unsigned age) {
  return age == 0 ? path : path + "." + std::to_string(age);
}

std::string path_of_head(const std::string& path) {
  return path + ".head";
}

fault trouble(const std::string& path, const char* what) {
  return {fault_kind::system, "audit log " + path + ": cannot " + what + ": " +
                                  std::strerror(errno) +
                                  "; check the path and its permissions"};
}

/// Takes a line, and whether its end was written.
using line_taker = std::function<bool(std::string_view, bool whole)>;

/// Reads a file's lines until `take` returns false. Of a longer line than any
/// of ours, it keeps the begin.
status each_line(const std::string& path, const line_taker& take) {
  std::ifstream in{path, std::ios::binary};
  if (!in)
    return trouble(path, "read it");
  std::string line;
  for (char c = 0; in.get(c);) {
    if (c != '\n') {
      if (line.size() <= longest_audit_line)
        line += c;
      continue;
    }
    if (!take(line, true))
      return {};
    line.clear();
  }
  if (!line.empty())
    take(line, false);
  return {};
}

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

/// Returns the ages of a log's files, oldest first.
std::vector<unsigned> ages_of(const std::string& path) {
  std::vector<unsigned> out;
  for (auto age = most_files; age-- > 0;)
    if (exists(path_of(path, age)))
      out.push_back(age);
  return out;
}

/// Returns the number of a file's first record; unset: it has none.
std::optional<std::uint64_t> first_of(const std::string& path) {
  std::optional<std::uint64_t> out;
  (void)each_line(path, [&](std::string_view line, bool) {
    out = number_of_audit_line(line);
    return !out;
  });
  return out;
}

audit_record note(double now, std::string what) {
  audit_record out;
  out.time = now;
  out.role = out.name = out.from = nobody;
  out.order = "audit";
  out.outcome = "noted";
  out.reason = std::move(what);
  return out;
}

} // namespace

status each_audit_line(const std::string& path,
                       const std::function<bool(std::string_view)>& take) {
  auto goes_on = true;
  for (auto age : ages_of(path)) {
    auto done = each_line(path_of(path, age), [&](std::string_view x, bool) {
      return goes_on = take(x);
    });
    if (!done || !goes_on)
      return done;
  }
  return {};
}

std::optional<audit_head> kept_audit_head(const std::string& path) {
  std::ifstream in{path_of_head(path)};
  std::string text;
  if (!std::getline(in, text))
    return std::nullopt;
  text.erase(0, text.find_first_not_of(' '));
  return parse_audit_head(text);
}

// -- taking up ----------------------------------------------------------------

result<std::unique_ptr<audit_log>> audit_log::open(std::string path, double now,
                                                   audit_bounds bounds) {
  std::unique_ptr<audit_log> out{new audit_log{std::move(path), bounds}};
  if (auto opened = out->open_file(); !opened)
    return opened.why();
  out->head_fd_ = ::open(path_of_head(out->path_).c_str(),
                         O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (out->head_fd_ < 0)
    return trouble(path_of_head(out->path_), "open it");
  auto found = out->take_up();
  out->add(note(now, found.empty() ? "a manager begins" : found));
  return out;
}

audit_log::~audit_log() {
  for (auto fd : {fd_, head_fd_})
    if (fd >= 0)
      ::close(fd);
}

/// Opens and locks the newest file, in place of the one that it was.
status audit_log::open_file() {
  if (fd_ >= 0)
    ::close(fd_);
  fd_ = ::open(path_.c_str(),
               O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND | O_NOFOLLOW, 0600);
  if (fd_ < 0)
    return trouble(path_, "open it");
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0)
    return fault{fault_kind::system, "audit log " + path_ +
                                         ": another manager uses it; give each "
                                         "its own --audit or --run-dir"};
  size_ =
      static_cast<std::uint64_t>(std::max<off_t>(::lseek(fd_, 0, SEEK_END), 0));
  return {};
}

/// Finds the last record, and returns what is wrong with the end of the log;
/// empty: nothing is.
std::string audit_log::take_up() {
  for (auto age : ages_of(path_))
    if (auto first = first_of(path_of(path_, age)))
      first_[age] = *first;
  std::string last;
  std::string torn;
  auto newest = first_.empty() ? 0 : first_.begin()->first;
  (void)each_line(path_of(path_, newest),
                  [&](std::string_view line, bool whole) {
                    if (!whole)
                      torn = line;
                    else if (number_of_audit_line(line))
                      last = line;
                    return true;
                  });
  if (auto number = number_of_audit_line(last)) {
    auto digest = last.substr(last.find(' ') + 1, head_.digest.size());
    if (auto end = parse_audit_head(std::to_string(*number) + ":" + digest))
      head_ = *end;
  }
  auto kept = kept_audit_head(path_);
  if (kept && kept->number > head_.number) {
    auto found = "the log ended at record " + std::to_string(head_.number) +
                 " when a manager began, and had record " +
                 std::to_string(kept->number) + ": its end was cut off";
    // The chain goes on where it was, so that everybody finds the gap.
    head_ = *kept;
    if (!torn.empty() && newest == 0 && write_all(fd_, "\n"))
      ++size_;
    return found;
  }
  if (torn.empty() || newest != 0)
    return {};
  // Nobody was answered on the strength of it: its manager died in the middle.
  size_ -= std::min<std::uint64_t>(torn.size(), size_);
  if (::ftruncate(fd_, static_cast<off_t>(size_)) != 0)
    return "the last record is not whole";
  return "a manager begins; " + std::to_string(torn.size()) +
         " bytes of a record that was not finished were removed";
}

// -- writing ------------------------------------------------------------------

std::uint64_t audit_log::add(audit_record x) {
  if (waiting_.size() >= most_waiting) {
    ++lost_;
    flush();
    if (waiting_.size() >= most_waiting)
      return 0;
  }
  if (lost_ != 0)
    waiting_ +=
        add_to_chain(head_,
                     note(x.time, std::to_string(std::exchange(lost_, 0)) +
                                      " records were lost: "
                                      "there was no room")) +
        "\n";
  waiting_ += add_to_chain(head_, std::move(x)) + "\n";
  flush();
  return head_.number;
}

void audit_log::flush() {
  if (size_ != 0 && size_ + waiting_.size() > bounds_.file_bytes)
    rotate();
  if (fd_ < 0)
    (void)open_file();
  if (fd_ < 0 || !write_all(fd_, waiting_)) {
    if (!std::exchange(complained_, true))
      spdlog::error("audit log {}: cannot write it: {}; records are kept until "
                    "there is room",
                    path_, std::strerror(errno));
    if (fd_ >= 0 && ::ftruncate(fd_, static_cast<off_t>(size_)) != 0)
      spdlog::error("audit log {}: a record is not whole", path_);
    return;
  }
  complained_ = false;
  if (size_ == 0)
    if (auto number = number_of_audit_line(waiting_))
      first_[0] = *number;
  size_ += waiting_.size();
  waiting_.clear();
  write_head();
}

/// Makes the newest file the next older one. Where that fails, the file grows
/// on.
void audit_log::rotate() {
  auto oldest = bounds_.files - 1;
  for (auto age = oldest; age-- > 0;)
    if (exists(path_of(path_, age)) &&
        ::rename(path_of(path_, age).c_str(),
                 path_of(path_, age + 1).c_str()) != 0) {
      spdlog::error("audit log {}: cannot begin a new file: {}", path_,
                    std::strerror(errno));
      return;
    }
  std::map<unsigned, std::uint64_t> older;
  for (auto [age, first] : first_)
    if (age + 1 <= oldest)
      older[age + 1] = first;
  first_ = std::move(older);
  if (auto opened = open_file(); !opened)
    spdlog::error("{}", opened.why().what);
}

void audit_log::write_head() {
  auto text = text_of(head_) + "\n";
  // Of one length always, so that nothing of a former one remains.
  constexpr std::size_t length = 20 + 1 + 64 + 1;
  text.insert(0, length - std::min(length, text.size()), ' ');
  if (::pwrite(head_fd_, text.data(), text.size(), 0) !=
      static_cast<ssize_t>(text.size()))
    spdlog::error("audit log {}: cannot write its head: {}", path_,
                  std::strerror(errno));
}

// -- reading ------------------------------------------------------------------

std::vector<std::string> audit_log::after(std::uint64_t number) const {
  std::vector<std::string> out;
  std::size_t bytes = 0;
  auto take = [&](std::string_view line, bool) {
    // What is no record belongs to the one before it.
    auto own = number_of_audit_line(line);
    if (own ? *own <= number : out.empty())
      return true;
    out.emplace_back(line);
    bytes += line.size();
    return out.size() < most_lines && bytes < most_text;
  };
  for (auto i = first_.rbegin(); i != first_.rend(); ++i) {
    auto next = std::next(i);
    if (next != first_.rend() && next->second <= number + 1)
      continue;
    (void)each_line(path_of(path_, i->first), take);
    if (out.size() >= most_lines || bytes >= most_text)
      break;
  }
  return out;
}

} // namespace vgpu
