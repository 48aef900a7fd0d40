// Makes links with a chosen delay between hosts, on any kernel with TAP
// devices. A link is a pair of Ethernet devices, `host-NAME` and `port-NAME`,
// each of which receives what the other one sends. They are made in the network
// namespace of this process, may be moved to others, and end with this process.
#include "schema/log/session_area.hpp"
#include "tests/e2e/late_frames.hpp"

#include <CLI/CLI.hpp>

#include <linux/if.h>
#include <linux/if_tun.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace {

using namespace vgpu::test;
using vgpu::unique_fd;
using time_point = late_frames::clock::time_point;

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error{errno, std::generic_category(), what};
}

/// Is one end of a link. The kernel passes complete frames with checksums,
/// because this end does not offer to compute checksums.
class tap_device {
public:
  explicit tap_device(std::string name)
      : name_(std::move(name)),
        fd_(::open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK)) {
    ifreq wanted{};
    if (name_.size() >= sizeof wanted.ifr_name)
      throw std::invalid_argument{"too long for a device: " + name_};
    std::memcpy(wanted.ifr_name, name_.data(), name_.size());
    wanted.ifr_flags = IFF_TAP | IFF_NO_PI;
    if (!fd_ || ::ioctl(fd_.get(), TUNSETIFF, &wanted) != 0)
      fail("cannot make " + name_);
  }

  int fd() const noexcept { return fd_.get(); }

  /// Returns a frame, or an empty one if there is none.
  late_frames::frame read() const {
    static thread_local std::array<std::byte, 65'536> buffer;
    auto got = ::read(fd(), buffer.data(), buffer.size());
    if (got < 0 && errno != EAGAIN && errno != EINTR)
      fail("cannot read from " + name_);
    return {buffer.begin(), buffer.begin() + std::max<ssize_t>(got, 0)};
  }

  /// Writes a frame, which is lost if the device is down or has no memory.
  void write(const late_frames::frame& x) const {
    if (::write(fd(), x.data(), x.size()) < 0 && errno != EIO &&
        errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM)
      fail("cannot write to " + name_);
  }

private:
  std::string name_;
  unique_fd fd_;
};

struct slow_link {
  tap_device host;
  tap_device port;
  delay takes{};

  explicit slow_link(const std::string& name)
      : host("host-" + name), port("port-" + name) {}
};

/// Is one direction of a link.
struct lane {
  const tap_device* from;
  const tap_device* to;
  const delay* takes;
  late_frames frames;

  /// Takes a limited number of sent frames, so that a busy sender does not
  /// block the others.
  void take(time_point now) {
    constexpr auto at_once = 64;
    for (auto i = 0; i < at_once; ++i) {
      auto x = from->read();
      if (x.empty())
        return;
      frames.push(std::move(x), *takes, now);
    }
  }

  void hand_on(time_point now) {
    while (auto x = frames.pop(now))
      to->write(*x);
  }
};

/// Reads lines of standard input.
class commands {
public:
  /// Returns the new lines, or nothing at the end of the input.
  std::optional<std::vector<std::string>> read() {
    std::array<char, 4'096> buffer;
    auto got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got <= 0)
      return std::nullopt;
    text_.append(buffer.data(), static_cast<std::size_t>(got));
    std::vector<std::string> lines;
    for (std::size_t end; (end = text_.find('\n')) != std::string::npos;) {
      lines.push_back(text_.substr(0, end));
      text_.erase(0, end + 1);
    }
    return lines;
  }

private:
  std::string text_;
};

using links = std::map<std::string, slow_link>;

/// Executes a command `NAME MILLISECONDS JITTER`.
void obey(const std::string& command, links& all) {
  std::istringstream words{command};
  std::string name;
  unsigned usual = 0, jitter = 0;
  words >> name >> usual >> jitter;
  auto i = all.find(name);
  if (!words || i == all.end() || jitter > usual)
    throw std::invalid_argument{"no command: '" + command + "'"};
  i->second.takes = {std::chrono::milliseconds{usual},
                     std::chrono::milliseconds{jitter}};
}

std::vector<lane> lanes_of(const links& all, std::size_t frames,
                           unsigned seed) {
  std::vector<lane> out;
  for (const auto& [name, x] : all) {
    out.push_back({&x.host, &x.port, &x.takes, late_frames{frames, seed++}});
    out.push_back({&x.port, &x.host, &x.takes, late_frames{frames, seed++}});
  }
  return out;
}

/// Waits until there is a command, or a frame is sent or arrives.
void wait(std::vector<pollfd>& polls, const std::vector<lane>& lanes) {
  std::optional<time_point> first;
  for (const auto& x : lanes)
    if (auto next = x.frames.next(); next && (!first || *next < *first))
      first = next;
  timespec patience{};
  if (first) {
    auto left = std::max(*first - late_frames::clock::now(),
                         late_frames::clock::duration{0});
    auto seconds = std::chrono::floor<std::chrono::seconds>(left);
    patience.tv_sec = seconds.count();
    patience.tv_nsec = std::chrono::nanoseconds{left - seconds}.count();
  }
  if (::ppoll(polls.data(), polls.size(), first ? &patience : nullptr,
              nullptr) < 0 &&
      errno != EINTR)
    fail("poll");
}

void carry(links& all, std::vector<lane>& lanes) {
  commands from_stdin;
  std::vector<pollfd> polls{{STDIN_FILENO, POLLIN, 0}};
  for (const auto& x : lanes)
    polls.push_back({x.from->fd(), POLLIN, 0});
  while (true) {
    wait(polls, lanes);
    if (polls[0].revents != 0) {
      auto lines = from_stdin.read();
      if (!lines)
        return;
      for (const auto& line : *lines)
        obey(line, all);
    }
    auto now = late_frames::clock::now();
    for (auto i = 0u; i < lanes.size(); ++i) {
      if (polls[i + 1].revents != 0)
        lanes[i].take(now);
      lanes[i].hand_on(now);
    }
  }
}

struct options {
  std::vector<std::string> names;
  std::size_t frames = 1'000;
  unsigned seed = 1;
};

void run(const options& given) {
  links all;
  for (const auto& name : given.names)
    all.try_emplace(name, name);
  auto lanes = lanes_of(all, given.frames, given.seed);
  std::cout << "ready" << std::endl;
  carry(all, lanes);
  std::uint64_t dropped = 0;
  for (const auto& x : lanes)
    dropped += x.frames.dropped();
  std::cerr << "dropped " << dropped << std::endl;
}

} // namespace

int main(int argc, char** argv) {
  CLI::App app{"Links with a chosen delay: pairs of "
               "Ethernet devices, host-NAME and port-NAME. Prints `ready`, and "
               "takes commands from standard input, `NAME MILLISECONDS "
               "JITTER`. At the end of the input it ends, and prints to stderr "
               "how many frames were dropped. Needs root."};
  options given;
  app.add_option("name", given.names, "Of each link, 10 characters at most")
      ->required();
  app.add_option("--frames", given.frames,
                 "How many may be on their way, in each direction")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option("--seed", given.seed, "Of what jitters")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    run(given);
  } catch (const std::exception& x) {
    std::cerr << "slow_link: " << x.what() << '\n';
    return 1;
  }
}
