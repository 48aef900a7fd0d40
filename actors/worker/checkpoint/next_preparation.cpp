#include "actors/worker/checkpoint/next_preparation.hpp"

#include "actors/link/data_head.hpp"
#include "actors/link/doorbell.hpp"
#include "actors/link/unix_socket.hpp"

#include <poll.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace vgpu {

namespace {

/// Waits for the answer of the prepared worker on a thread of its own.
class awaited_answer final : public prepared_next {
public:
  awaited_answer(unique_fd socket, session_id session,
                 std::function<void()> ring, std::chrono::milliseconds within)
      : socket_(std::move(socket)), session_(session), ring_(std::move(ring)),
        within_(within), thread_([this] { wait(); }) {}

  ~awaited_answer() override {
    stop_.ring();
    thread_.join();
  }

  std::optional<status> outcome() override {
    std::lock_guard guard{lock_};
    return outcome_;
  }

  status lend(std::uint64_t position, int parcel) override {
    auto words = data::encode({session_, epoch{}, data::lent{position}});
    return send_packet(socket_.get(), words, std::array{parcel});
  }

private:
  using clock = std::chrono::steady_clock;

  void wait() {
    auto until = clock::now() + within_;
    for (;;) {
      auto left =
          std::chrono::ceil<std::chrono::milliseconds>(until - clock::now());
      pollfd items[] = {{stop_.fd(), POLLIN, 0}, {socket_.get(), POLLIN, 0}};
      auto found = left.count() > 0
                       ? ::poll(items, 2, static_cast<int>(left.count()))
                       : 0;
      if (found < 0 && errno == EINTR)
        continue;
      if (items[0].revents != 0)
        return;
      if (found <= 0)
        return note(fault{fault_kind::not_ready, "it does not answer in time"});
      if (auto said = read())
        return note(*said);
    }
  }

  /// Returns what the prepared worker said, or nothing if there is no message.
  std::optional<status> read() {
    auto in = receive_packet(socket_.get());
    if (in && !*in)
      return std::nullopt;
    if (!in || (*in)->closed)
      return fault{fault_kind::lost, "it is gone"};
    auto head = data::decode((*in)->words);
    if (!head)
      return head.why();
    if (auto* x = std::get_if<data::unlike>(&head->body))
      return fault{fault_kind::unsupported, x->why};
    if (auto* x = std::get_if<data::prepared>(&head->body))
      return x->why.empty() ? status{} : fault{fault_kind::internal, x->why};
    return fault{fault_kind::corrupt, "it says something else"};
  }

  void note(status outcome) {
    {
      std::lock_guard guard{lock_};
      outcome_ = std::move(outcome);
    }
    ring_();
  }

  unique_fd socket_;
  session_id session_;
  std::function<void()> ring_;
  std::chrono::milliseconds within_;
  doorbell stop_;
  std::mutex lock_; // guards the next member
  std::optional<status> outcome_;
  std::thread thread_;
};

} // namespace

result<std::unique_ptr<prepared_next>>
prepare_next_worker(const next_worker& to, session_id session,
                    preparation_files files, const worker_connector& connect,
                    std::function<void()> ring,
                    std::chrono::milliseconds within) {
  auto socket = connect(to.socket);
  if (!socket)
    return socket.why();
  auto words = data::encode({session, epoch{}, data::prepare{to.token}});
  std::vector<int> descriptors{files.objects};
  if (files.contents >= 0)
    descriptors.push_back(files.contents);
  if (auto ok = send_packet(socket->get(), words, descriptors); !ok)
    return ok.why();
  return std::unique_ptr<prepared_next>{std::make_unique<awaited_answer>(
      std::move(*socket), session, std::move(ring), within)};
}

} // namespace vgpu
