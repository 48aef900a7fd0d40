#include "actors/lend/share_broker.hpp"

#include "actors/link/log.hpp"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include <poll.h>

namespace vgpu {

namespace {

using share_clock = std::chrono::steady_clock;

// A question is six words: share_magic, the secret's two words, kind, number
// and serial. An answer is share_magic, the object's entry in the ledger and
// its words, with descriptors of the entry and of the object. A refusal is
// share_magic alone.
constexpr std::uint64_t share_magic = 0x3130455241485356; // "VSHARE01"
constexpr std::size_t question_words = 6;

/// Limits the wait for a broker. It is longer than silent callers can keep
/// others waiting.
constexpr std::chrono::seconds borrow_within{5};
/// Gives the pause in accepting callers, in milliseconds, when no descriptor is
/// left.
constexpr int pause_milliseconds = 50;

fault not_lent(const std::string& why) {
  return {fault_kind::usage,
          "cannot import what another process shares: " + why};
}

/// Returns the milliseconds until `then`, rounded up so that no wait ends too
/// early.
int milliseconds_until(share_clock::time_point then) {
  auto rest =
      std::chrono::ceil<std::chrono::milliseconds>(then - share_clock::now());
  return static_cast<int>(std::max<std::int64_t>(rest.count(), 0));
}

} // namespace

std::string share_socket_name(const share_secret& secret) {
  const std::uint64_t words[] = {share_magic, secret.high, secret.low};
  std::array<unsigned char, crypto_hash_sha256_BYTES> digest{};
  crypto_hash_sha256(digest.data(),
                     reinterpret_cast<const unsigned char*>(words),
                     sizeof(words));
  std::string out{broker_socket_prefix};
  for (auto byte : std::span{digest}.first(16)) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", byte);
    out += digits;
  }
  return out;
}

result<std::unique_ptr<share_broker>>
share_broker::open(const share_secret& secret) {
  auto listener = listen_abstract(share_socket_name(secret));
  if (!listener)
    return listener.why();
  auto ledger = share_ledger::open();
  if (!ledger)
    return ledger.why();
  return std::unique_ptr<share_broker>{
      new share_broker{secret, std::move(*listener), std::move(*ledger)}};
}

share_broker::share_broker(const share_secret& secret, unique_fd listener,
                           share_ledger ledger)
    : secret_(secret), listener_(std::move(listener)),
      ledger_(std::move(ledger)), thread_([this] { run(); }) {}

share_broker::~share_broker() {
  stop_.ring();
  thread_.join();
}

status share_broker::lend(const share_key& what, std::uint64_t serial,
                          device::shared_object object, share_cost cost) {
  std::lock_guard guard{mutex_};
  if (lent_.size() >= most_lent && !lent_.contains(what))
    return fault{fault_kind::exhausted,
                 "a session shares at most " + std::to_string(most_lent) +
                     " allocations and events at a time"};
  auto [at, fresh] = lent_.try_emplace(what);
  auto entry =
      fresh || at->second.serial != serial ? ++last_entry_ : at->second.entry;
  at->second = {serial, std::move(object), cost, entry};
  return {};
}

void share_broker::withdraw(const share_key& what) {
  std::lock_guard guard{mutex_};
  auto gone = lent_.extract(what);
  if (gone.empty() || gone.mapped().cost.bytes == 0)
    return;
  gone.mapped().object = {};
  left_.push_back(std::move(gone.mapped()));
}

std::uint64_t share_broker::left(std::uint32_t device) {
  std::lock_guard guard{mutex_};
  std::erase_if(left_, [&](auto& x) { return !ledger_.is_had(x.entry); });
  std::uint64_t bytes = 0;
  for (auto& x : left_)
    if (x.cost.device == device)
      bytes += x.cost.bytes;
  return bytes;
}

void share_broker::run() {
  std::vector<pollfd> all;
  auto paused = false; // a pause in accepting, so that the loop does not spin
  while (true) {
    all.assign({{stop_.fd(), POLLIN, 0}});
    auto longest = paused ? pause_milliseconds : -1;
    for (auto& x : callers_) {
      all.push_back({x.socket.get(), POLLIN, 0});
      auto rest = milliseconds_until(x.until);
      longest = longest < 0 ? rest : std::min(longest, rest);
    }
    // Further callers wait in the kernel's queue.
    auto listens = !paused && callers_.size() < most_callers;
    if (listens)
      all.push_back({listener_.get(), POLLIN, 0});
    if (::poll(all.data(), all.size(), longest) < 0)
      continue;
    if (all.front().revents != 0)
      return;
    std::erase_if(callers_, [this](const caller& x) { return serve(x); });
    paused = listens && all.back().revents != 0 && !accept();
  }
}

bool share_broker::accept() {
  auto socket = accept_own(listener_.get());
  if (!socket)
    return false;
  callers_.push_back({std::move(socket), share_clock::now() + patience});
  return true;
}

bool share_broker::serve(const caller& x) {
  auto in = receive_packet(x.socket.get());
  if (in && !*in)
    return share_clock::now() >= x.until;
  if (in && !(*in)->closed)
    answer(x.socket.get(), (*in)->words);
  return true;
}

void share_broker::answer(int socket, std::span<const std::uint64_t> question) {
  // The lock is held until our own copy of the entry is closed, because left()
  // would take that copy for a borrower.
  std::lock_guard guard{mutex_};
  std::vector<std::uint64_t> words{share_magic};
  std::vector<int> descriptors;
  device::shared_object object;
  unique_fd stake;
  if (question.size() == question_words && question[0] == share_magic &&
      share_secret{question[1], question[2]} == secret_) {
    auto known =
        lent_.find({static_cast<share_kind>(question[3]), question[4]});
    if (known != lent_.end() && known->second.serial == question[5])
      // The entry is made now, so that an object that is withdrawn from here on
      // counts as borrowed.
      if (auto entered = ledger_.enter(known->second.entry); entered) {
        stake = std::move(*entered);
        object = known->second.object;
        words.push_back(known->second.entry);
        descriptors.push_back(stake.get());
      }
  } else {
    spdlog::warn("dropped a malformed request of {} words at the socket for "
                 "shared memory",
                 question.size());
  }
  words.insert(words.end(), object.words.begin(), object.words.end());
  for (auto& each : object.descriptors)
    descriptors.push_back(each->get());
  (void)send_packet(socket, words, descriptors);
}

result<borrowed_thing> borrow(share_kind kind, const share_name& what,
                              const worker_connector& connect) {
  auto socket = connect(share_socket_name(what.session));
  if (!socket)
    return not_lent("its session is over, or on another host (" +
                    socket.why().what + ")");
  const std::uint64_t question[question_words] = {
      share_magic,      what.session.high,
      what.session.low, static_cast<std::uint64_t>(kind),
      what.number,      what.serial};
  if (auto sent = send_packet(socket->get(), question); !sent)
    return not_lent(sent.why().what);
  auto until = share_clock::now() + borrow_within;
  pollfd one{socket->get(), POLLIN, 0};
  while (::poll(&one, 1, milliseconds_until(until)) <= 0)
    if (share_clock::now() >= until)
      return not_lent("its worker does not answer");
  auto in = receive_packet(socket->get());
  if (!in)
    return not_lent(in.why().what);
  if (!*in || (*in)->closed || (*in)->words.empty() ||
      (*in)->words.front() != share_magic ||
      (*in)->words.size() > device::shared_object::most + 2)
    return not_lent("its worker's answer cannot be read");
  auto& words = (*in)->words;
  auto& descriptors = (*in)->descriptors;
  if (words.size() < 2 || descriptors.empty())
    return not_lent("it was freed, or was never shared");
  borrowed_thing out{{}, {std::move(descriptors.front()), words[1]}};
  out.object.words.assign(words.begin() + 2, words.end());
  for (std::size_t i = 1; i < descriptors.size(); ++i)
    out.object.descriptors.push_back(
        std::make_shared<const unique_fd>(std::move(descriptors[i])));
  return out;
}

} // namespace vgpu
