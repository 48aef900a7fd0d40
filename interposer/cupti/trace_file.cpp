#include "interposer/cupti/trace_file.hpp"

#include "interposer/session/process.hpp"
#include "interposer/session/write_all.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

namespace vgpu::interposer {

namespace {

/// The file is written at least after so many calls.
constexpr std::uint32_t flush_every = 1024;

constexpr std::array<const char*, 5> kinds = {"kernel", "copy", "memset",
                                              "wait", "call"};

/// Joins columns.
class row {
public:
  row& add(std::uint64_t x) { return add(std::to_string(x)); }
  row& add(const std::uint32_t (&x)[3]) {
    return add(std::to_string(x[0]) + "," + std::to_string(x[1]) + "," +
               std::to_string(x[2]));
  }
  row& add(std::string_view text) {
    if (!out_.empty())
      out_ += '\t';
    for (auto c : text)
      out_ += c == '\t' || c == '\n' ? ' ' : c;
    return *this;
  }
  std::string line() const { return out_ + '\n'; }

private:
  std::string out_;
};

std::string line_of(const activity& x) {
  return row{}
      .add(kinds.at(static_cast<std::size_t>(x.kind)))
      .add(x.correlation)
      .add(x.device)
      .add(x.context)
      .add(x.stream)
      .add(x.thread)
      .add(x.called)
      .add(x.received)
      .add(x.submitted)
      .add(x.reached)
      .add(x.began)
      .add(x.ended)
      .add(x.result)
      .add(static_cast<std::uint64_t>(x.waits_for))
      .add(static_cast<std::uint64_t>(x.from))
      .add(static_cast<std::uint64_t>(x.to))
      .add(x.bytes)
      .add(x.grid)
      .add(x.block)
      .add(x.dynamic_shared + x.static_shared)
      .add(x.registers)
      .add(x.name)
      .line();
}

std::string own_program() {
  std::array<char, 4096> path{};
  auto got = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  return got > 0 ? std::string{path.data(), static_cast<std::size_t>(got)} : "";
}

/// Returns whether the program now knows that work is done.
bool brings_to_rest(std::string_view name) noexcept {
  return name.find("Synchronize") != name.npos ||
         name.starts_with("cuMemcpyDtoH");
}

trace_file* at_exit = nullptr;

} // namespace

void trace_file::begin_as_asked() {
  const auto* folder = std::getenv("VGPU_TRACE");
  if (folder == nullptr || *folder == '\0')
    return;
  of_ = ::getpid();
  auto path = std::string{folder} + "/" + std::to_string(of_) + ".trace";
  // A process that another program replaced had the same number.
  unique_fd file{::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                        S_IRUSR | S_IWUSR)};
  if (!file)
    return log_line(log_level::error, "cannot write the trace " + path + ": " +
                                          std::strerror(errno));
  write_all(file.get(), row{}
                            .add("vgpu-trace")
                            .add(version)
                            .add(static_cast<std::uint64_t>(of_))
                            .add(own_program())
                            .line());
  file_ = std::move(file);
  log_.begin(activity_reader::file);
  log_.listen(activity_reader::file, this);
  at_exit = this;
  std::atexit([] { at_exit->flush(); });
}

void trace_file::ends(const activity& x) noexcept {
  if (++calls_ % flush_every == 0 || brings_to_rest(x.name))
    flush();
}

void trace_file::flush() noexcept {
  // A forked child leaves its parent's file alone.
  if (::getpid() != of_)
    return;
  try {
    std::string out;
    std::lock_guard guard{mutex_};
    for (const auto& x : log_.take(activity_reader::file))
      out += line_of(x);
    if (auto lost = log_.take_dropped(activity_reader::file); lost != 0)
      out += row{}.add("dropped").add(lost).line();
    if (!out.empty())
      write_all(file_.get(), out);
  } catch (const std::exception& e) {
    report_exception(e.what());
  }
}

} // namespace vgpu::interposer
