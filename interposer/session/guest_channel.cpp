#include "interposer/session/guest_channel.hpp"

#include "interposer/session/client_start.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/stdio_plug.hpp"
#include "schema/base/endpoints.hpp"
#include "schema/base/own_environment.hpp"
#include "schema/log/client_place.hpp"
#include "schema/log/session_area.hpp"
#include "schema/wire/guest.capnp.h"
#include "schema/wire/guest_hello.hpp"
#include "schema/wire/message_codec.hpp"
#include "schema/wire/specification.hpp"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <poll.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace vgpu::interposer {

namespace {

using namespace std::chrono_literals;

/// A client that was just started may take this long to listen.
constexpr auto start_patience = 10s;
/// While clients end before they listen, the channel tries this many.
constexpr auto most_starts = 5;
/// The areas, the doorbell and the files for snapshots are at most this many.
constexpr std::size_t most_descriptors = 16;
constexpr std::size_t packet_limit = std::size_t{1} << 20;

std::string environment(const char* name, const std::string& otherwise) {
  const auto* text = setting(name);
  return text == nullptr || *text == '\0' ? otherwise : std::string{text};
}

/// Connects to the client. The result is invalid when no client listens.
unique_fd try_connect() {
  return connect_to_client(chosen_manager(), chosen_transport());
}

bool has_ended(const unique_fd& process_fd) {
  pollfd one{process_fd.get(), POLLIN, 0};
  return process_fd && ::poll(&one, 1, 0) == 1;
}

result<unique_fd> connect_or_start() {
  stdio_plug plug;
  if (auto fd = try_connect(); fd)
    return fd;
  using clock = std::chrono::steady_clock;
  auto give_up = clock::now() + start_patience;
  unique_fd started;
  for (auto starts = 0; clock::now() < give_up;) {
    // A client ends when it finds another one. The other one listens, or is
    // ending too.
    if (!started || has_ended(started)) {
      if (starts++ == most_starts)
        break;
      auto next = start_client(client_program());
      if (!next)
        return next.why();
      started = std::move(*next);
    }
    ::poll(nullptr, 0, 5);
    if (auto fd = try_connect(); fd)
      return fd;
  }
  return fault{fault_kind::no_device,
               client_program() + " was started but does not listen; its own "
                                  "log (VGPU_LOG=info) says why"};
}

std::string program_name() {
  std::string path(4096, '\0');
  auto n = ::readlink("/proc/self/exe", path.data(), path.size());
  path.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return path.substr(path.rfind('/') + 1);
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// Describes this program and the vGPU that it asks for.
guest::hello hello_for(const control::specification& asked) {
  guest::hello out;
  out.program = {program_name(), static_cast<std::uint32_t>(::getpid()),
                 host_name(), environment("USER", std::to_string(::getuid()))};
  out.specification = asked;
  out.hears_waiting = true;
  return out;
}

void write_hello(capnp::MessageBuilder& message, const guest::hello& what) {
  auto to = message.initRoot<wire::GuestHello>();
  to.setVersion(guest::version);
  wire_codec::write_fields(to, what);
}

/// Returns the fault for a client that ended before it answered: it was about
/// to end, or it was killed. The caller tries another client.
fault it_ended() {
  return {fault_kind::not_ready, "vgpu-client ended before it granted a vGPU"};
}

status send_packet(int fd, capnp::MessageBuilder& message,
                   std::span<const int> descriptors) {
  auto words = capnp::messageToFlatArray(message);
  auto bytes = words.asBytes();
  iovec part{bytes.begin(), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(most_descriptors * sizeof(int))>
      control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    auto* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(c), descriptors.data(), descriptors.size_bytes());
  }
  while (::sendmsg(fd, &header, MSG_NOSIGNAL) < 0)
    if (errno == EPIPE || errno == ECONNRESET)
      return it_ended();
    else if (errno != EINTR)
      return fault{fault_kind::no_device,
                   std::string{"cannot write to vgpu-client: "} +
                       std::strerror(errno)};
  return {};
}

device_facts read_facts(wire::DeviceFacts::Reader from) {
  device_facts out;
  out.name = from.getName().cStr();
  auto uuid = from.getUuid();
  std::copy_n(uuid.begin(), std::min(uuid.size(), out.uuid.size()),
              out.uuid.begin());
  out.total_memory = from.getTotalMemory();
  out.attributes.resize(device_facts::attribute_limit);
  for (auto x : from.getAttributes())
    if (x.getKey() >= 0 && x.getKey() < device_facts::attribute_limit)
      out.attributes[static_cast<std::size_t>(x.getKey())] = x.getValue();
  return out;
}

/// Returns limits for a packet. Without them, lists whose elements take no
/// space could have any length.
capnp::ReaderOptions limits_for(kj::ArrayPtr<const capnp::word> words) {
  capnp::ReaderOptions out;
  out.traversalLimitInWords = 4 * words.size() + 64;
  out.nestingLimit = 8;
  return out;
}

/// Reads an answer. It is empty while the vGPU has to wait; then another answer
/// follows.
result<std::optional<grant>>
read_welcome(kj::ArrayPtr<const capnp::word> words) {
  capnp::FlatArrayMessageReader reader{words, limits_for(words)};
  auto welcome = reader.getRoot<wire::GuestWelcome>();
  if (welcome.isWaiting()) {
    log_line(log_level::info,
             std::string{"waits for a GPU: "} + welcome.getWaiting().cStr());
    return std::optional<grant>{};
  }
  if (welcome.isRefused()) {
    auto why = welcome.getRefused();
    return fault{fault_kind::no_device, why.getReason().cStr()};
  }
  auto granted = welcome.getGranted();
  grant out{granted.getSession(), granted.getVgpu(), granted.getQuota(), {}};
  if (granted.getDevices().size() > most_devices)
    return fault{fault_kind::no_device, "the lease holds too many devices"};
  for (auto x : granted.getDevices())
    out.devices.push_back(read_facts(x));
  if (out.devices.empty())
    return fault{fault_kind::no_device, "the lease holds no device"};
  return std::optional{std::move(out)};
}

result<group_view> read_watched(kj::ArrayPtr<const capnp::word> words) {
  capnp::FlatArrayMessageReader reader{words, limits_for(words)};
  auto welcome = reader.getRoot<wire::GuestWelcome>();
  if (!welcome.isWatched())
    return fault{fault_kind::unsupported, "vgpu-client does not report its "
                                          "programs"};
  group_view out;
  for (auto x : welcome.getWatched().getDevices())
    out.devices.push_back(read_facts(x));
  for (auto x : welcome.getWatched().getUses())
    if (x.getDevice() < out.devices.size())
      out.uses.push_back(
          {x.getDevice(), x.getPid(), x.getQuota(), x.getUsed(), x.getBusy()});
  return out;
}

/// Receives one packet, and passes it to `read`.
template <class Read>
auto receive(int fd, const Read& read)
    -> decltype(read(kj::ArrayPtr<const capnp::word>{})) {
  auto buffer = kj::heapArray<capnp::word>(packet_limit / sizeof(capnp::word));
  ssize_t n = 0;
  while ((n = ::recv(fd, buffer.begin(), packet_limit, 0)) < 0)
    if (errno != EINTR)
      break;
  if (n <= 0)
    return it_ended();
  try {
    return read(
        buffer.slice(0, static_cast<std::size_t>(n) / sizeof(capnp::word)));
  } catch (const kj::Exception& e) {
    return fault{fault_kind::no_device,
                 std::string{"vgpu-client's welcome is malformed: "} +
                     e.getDescription().cStr()};
  }
}

/// Says how long the channel asks one client after the other while they end
/// without a word. A session on a GPU takes seconds to start, and clients may
/// be killed meanwhile; one that always ends must be told to the program.
class asking_patience {
public:
  void heard() noexcept {
    silent_ = 0;
    since_ = clock::now();
  }
  /// Waits a little, so that clients that end at once do not keep a processor
  /// busy. Returns false if the channel has to give up.
  bool after_silent_end() noexcept {
    if (++silent_ >= fewest && clock::now() - since_ >= shortest)
      return false;
    ::poll(nullptr, 0, std::min(10 * silent_, 200));
    return true;
  }
  int silent_ends() const noexcept { return silent_; }

private:
  using clock = std::chrono::steady_clock;
  static constexpr auto fewest = 5;
  static constexpr auto shortest = 15s;

  int silent_ = 0;
  clock::time_point since_ = clock::now();
};

/// Receives the grant. It waits as long as the client lives, because a vGPU may
/// have to wait for a place.
result<grant> receive_welcome(int fd, asking_patience& patience) {
  for (;;) {
    auto got = receive(fd, read_welcome);
    if (!got)
      return got.why();
    if (*got)
      return std::move(**got);
    patience.heard();
  }
}

using answered = std::pair<unique_fd, grant>;

/// Asks one client for a vGPU, and returns the connection and the grant.
result<answered> ask_client(capnp::MessageBuilder& hello,
                            std::span<const int> descriptors,
                            asking_patience& patience) {
  auto fd = connect_or_start();
  if (!fd)
    return fd.why();
  if (auto ok = send_packet(fd->get(), hello, descriptors); !ok)
    return ok.why();
  auto got = receive_welcome(fd->get(), patience);
  if (!got)
    return got.why();
  return answered{std::move(*fd), std::move(*got)};
}

/// Asks one client after the other, while they end before they answer.
result<answered> ask_clients(capnp::MessageBuilder& hello,
                             std::span<const int> descriptors) {
  asking_patience patience;
  for (;;) {
    auto answer = ask_client(hello, descriptors, patience);
    if (answer || answer.why().kind != fault_kind::not_ready)
      return answer;
    if (!patience.after_silent_end())
      return fault{fault_kind::no_device,
                   answer.why().what + ", " +
                       std::to_string(patience.silent_ends()) +
                       " times; its own log (VGPU_LOG=info) says why"};
  }
}

} // namespace

result<group_view> watch_group() {
  control::specification asked;
  if (auto good = control::set_from_environment(asked); !good)
    return good.why();
  auto fd = try_connect();
  if (!fd)
    return fault{fault_kind::no_device, "no vgpu-client listens"};
  // A client that does not answer must not hold up a monitor.
  timeval patience{2, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  capnp::MallocMessageBuilder message;
  auto hello = hello_for(asked);
  hello.watches = true;
  write_hello(message, hello);
  if (auto ok = send_packet(fd.get(), message, {}); !ok)
    return ok.why();
  return receive(fd.get(), read_watched);
}

result<grant> guest_channel::greet(const session_area& area, int doorbell,
                                   std::span<const int> states, bool resumed) {
  control::specification asked;
  if (auto good = control::set_from_environment(asked); !good)
    return good.why();
  capnp::MallocMessageBuilder message;
  auto hello = hello_for(asked);
  hello.resumed = resumed;
  write_hello(message, hello);
  auto memory = area.descriptors();
  std::vector<int> descriptors{memory.begin(), memory.end()};
  descriptors.push_back(doorbell);
  descriptors.insert(descriptors.end(), states.begin(), states.end());
  auto answer = ask_clients(message, descriptors);
  if (!answer)
    return answer.why();
  socket_ = std::move(answer->first);
  return std::move(answer->second);
}

bool guest_channel::hung_up() const noexcept {
  pollfd one{socket_.get(), POLLRDHUP, 0};
  return ::poll(&one, 1, 0) == 1 &&
         (one.revents & (POLLHUP | POLLRDHUP | POLLERR | POLLNVAL)) != 0;
}

template <class Fill>
void guest_channel::notify(const Fill& fill) noexcept {
  try {
    capnp::MallocMessageBuilder message;
    fill(message.initRoot<wire::GuestNotice>());
    if (auto ok = send_packet(socket_.get(), message, {}); !ok)
      log_line(log_level::warn, ok.why().what);
  } catch (const std::exception& e) {
    report_exception(e.what());
  }
}

void guest_channel::report_filling(std::uint64_t bytes) noexcept {
  notify([&](auto notice) { notice.setJournalFills(bytes); });
}

void guest_channel::report_sharing() noexcept {
  notify([](auto notice) { notice.setShares(); });
}

void guest_channel::close() noexcept {
  if (auto fd = socket_.release(); fd >= 0)
    ::close(fd);
}

} // namespace vgpu::interposer
