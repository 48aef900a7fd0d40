// A TCP connection with somebody in between, who keeps all that passes.
#pragma once

#include "schema/log/session_area.hpp"

#include <boost/test/unit_test.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace vgpu::test {

/// Passes every connection at its own port on to another port of this host.
class tapped_wire {
public:
  explicit tapped_wire(const std::string& endpoint)
      : to_(address(static_cast<std::uint16_t>(
            std::stoul(endpoint.substr(endpoint.rfind(':') + 1))))) {
    auto any = address(0);
    socklen_t size = sizeof(any);
    auto* where = reinterpret_cast<sockaddr*>(&any);
    BOOST_REQUIRE(::bind(listener_.get(), where, size) == 0);
    BOOST_REQUIRE(::listen(listener_.get(), 8) == 0);
    BOOST_REQUIRE(::getsockname(listener_.get(), where, &size) == 0);
    port_ = ntohs(any.sin_port);
    thread_ = std::jthread{[this](const std::stop_token& stop) { pass(stop); }};
  }

  std::string endpoint() const {
    return "tcp://127.0.0.1:" + std::to_string(port_);
  }

  /// Returns whether these bytes have passed to the port.
  bool saw(std::string_view bytes) const {
    std::lock_guard guard{mutex_};
    return there_.find(bytes) != there_.npos;
  }
  /// Changes the last byte of what passes to the port next.
  void change_next() { changes_ = true; }
  /// Returns how many bytes have passed to the port.
  std::size_t passed() const {
    std::lock_guard guard{mutex_};
    return there_.size();
  }

private:
  struct pair {
    unique_fd near, far;
  };

  static sockaddr_in address(std::uint16_t port) {
    sockaddr_in out{};
    out.sin_family = AF_INET;
    out.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    out.sin_port = htons(port);
    return out;
  }
  static unique_fd stream() {
    return unique_fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  }

  void pass(const std::stop_token& stop) {
    std::vector<pair> open;
    while (!stop.stop_requested()) {
      std::vector<pollfd> items{{listener_.get(), POLLIN, 0}};
      for (auto& x : open) {
        items.push_back({x.near.get(), POLLIN, 0});
        items.push_back({x.far.get(), POLLIN, 0});
      }
      if (::poll(items.data(), items.size(), 20) <= 0)
        continue;
      for (std::size_t i = open.size(); i-- > 0;)
        if (!move(open[i].near, open[i].far, items[2 * i + 1], &there_) ||
            !move(open[i].far, open[i].near, items[2 * i + 2], nullptr))
          open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
      if (items[0].revents != 0)
        accept(open);
    }
  }

  void accept(std::vector<pair>& open) {
    pair x{
        unique_fd{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)},
        stream()};
    const auto* where = reinterpret_cast<const sockaddr*>(&to_);
    if (::connect(x.far.get(), where, sizeof(to_)) == 0)
      open.push_back(std::move(x));
  }

  /// Returns false when the connection is over.
  bool move(const unique_fd& from, const unique_fd& to, const pollfd& item,
            std::string* keep) {
    if (item.revents == 0)
      return true;
    std::array<char, 1 << 16> bytes;
    auto got = ::recv(from.get(), bytes.data(), bytes.size(), 0);
    if (got <= 0)
      return false;
    auto size = static_cast<std::size_t>(got);
    if (keep != nullptr && changes_.exchange(false))
      bytes[size - 1] ^= 1;
    if (keep != nullptr) {
      std::lock_guard guard{mutex_};
      keep->append(bytes.data(), size);
    }
    for (std::size_t done = 0; done < size;) {
      auto sent =
          ::send(to.get(), bytes.data() + done, size - done, MSG_NOSIGNAL);
      if (sent <= 0)
        return false;
      done += static_cast<std::size_t>(sent);
    }
    return true;
  }

  sockaddr_in to_;
  unique_fd listener_ = stream();
  std::uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::string there_;
  std::atomic<bool> changes_ = false;
  std::jthread thread_;
};

} // namespace vgpu::test
