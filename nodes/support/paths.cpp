#include "nodes/support/paths.hpp"

#include "schema/log/session_area.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace vgpu {

namespace {

constexpr std::string_view ipc = "ipc://";
constexpr std::string_view tcp = "tcp://";
constexpr std::size_t most_endpoints = 8;

std::filesystem::path program_dir() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

bool is_port(std::string_view x) {
  auto number = 0u;
  auto [end, error] = std::from_chars(x.data(), x.data() + x.size(), number);
  return x == "*" || (error == std::errc{} && end == x.data() + x.size() &&
                      number <= 65'535);
}

} // namespace

std::string sibling(const std::string& program) {
  return program_dir() / program;
}

std::string library_dir() {
  return (program_dir().parent_path() / "lib").string();
}

std::optional<uid_t> owner_of(const std::string& endpoint) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (!endpoint.starts_with(ipc) ||
      endpoint.size() - ipc.size() >= sizeof(address.sun_path))
    return std::nullopt;
  endpoint.copy(address.sun_path, sizeof(address.sun_path) - 1, ipc.size());
  unique_fd fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (!fd ||
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                sizeof(address)) != 0 ||
      ::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return std::nullopt;
  return peer.uid;
}

bool somebody_listens(const std::string& endpoint) {
  return owner_of(endpoint).has_value();
}

status check_endpoint(const std::string& endpoint) {
  auto fail = [&](const char* why) {
    return fault{fault_kind::usage, "endpoint '" + endpoint + "': " + why +
                                        "; give tcp://HOST:PORT or ipc://PATH"};
  };
  if (endpoint.starts_with(ipc)) {
    if (endpoint.size() == ipc.size())
      return fail("it has no path");
    if (endpoint.size() - ipc.size() > 107)
      return fail("its path is longer than 107 bytes");
    return {};
  }
  if (!endpoint.starts_with(tcp))
    return fail("its transport is unknown");
  auto rest = std::string_view{endpoint}.substr(tcp.size());
  auto is_odd = [](unsigned char x) { return x <= ' ' || x == 127; };
  if (std::any_of(rest.begin(), rest.end(), is_odd))
    return fail("it contains blanks or control characters");
  auto colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0)
    return fail("it has no host and port");
  if (!is_port(rest.substr(colon + 1)))
    return fail("its port is not a number from 0 to 65535");
  return {};
}

bool leaves_host(const std::string& endpoint) {
  if (!endpoint.starts_with(tcp))
    return false;
  auto rest = std::string_view{endpoint}.substr(tcp.size());
  auto host = rest.substr(0, rest.rfind(':'));
  // Who binds gives an address or an interface. No interface can have a name
  // that begins as such an address does and be a valid one as well.
  return !host.starts_with("127.") && host != "lo" && host != "localhost" &&
         host != "[::1]";
}

std::vector<std::string> split_endpoints(const std::string& list) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin <= list.size();) {
    auto end = std::min(list.find(',', begin), list.size());
    out.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

status check_endpoints(const std::string& list) {
  auto fail = [](const std::string& what) {
    return fault{fault_kind::usage,
                 what + "; give the endpoint of a manager, or those of several "
                        "separated by commas"};
  };
  auto all = split_endpoints(list);
  if (all.size() > most_endpoints)
    return fail(std::to_string(all.size()) + " endpoints exceed the limit of " +
                std::to_string(most_endpoints));
  for (auto i = all.begin(); i != all.end(); ++i) {
    if (auto good = check_endpoint(*i); !good)
      return good;
    if (std::find(all.begin(), i, *i) != i)
      return fail("endpoint '" + *i + "' is named twice");
  }
  return {};
}

} // namespace vgpu
