#include "actors/link/key_guard.hpp"

#include "actors/link/curve_keys.hpp"
#include "actors/link/log.hpp"
#include "actors/link/printable.hpp"

#include <array>
#include <iterator>
#include <utility>
#include <vector>

namespace vgpu {

namespace {

constexpr auto address_of_all_questions = "inproc://zeromq.zap.01";
constexpr auto may_pass = "200";
/// Leaves the handshake to its time limit. After a final refusal (400) a peer's
/// ZeroMQ would never connect again, not even when its key is permitted later.
constexpr auto comes_again = "300";

/// Numbers the frames of a question.
enum question_frame : std::size_t {
  question_version,
  question_request,
  question_domain,
  question_address,
  question_routing_id,
  question_mechanism,
  question_key,
  question_frames,
  /// Follows the name that a holder of a ticket gives in place of a key.
  question_ticket = question_frames,
  question_frames_of_ticket
};

} // namespace

key_guard::key_guard(zmq::context_t& zmq,
                     std::shared_ptr<permitted_keys> permitted,
                     std::shared_ptr<sealed_tickets> tickets)
    : permitted_(std::move(permitted)), tickets_(std::move(tickets)),
      asked_(zmq, zmq::socket_type::rep) {
  asked_.set(zmq::sockopt::linger, 0);
  asked_.bind(address_of_all_questions);
  thread_ = std::jthread{[this] { serve(); }};
}

key_guard::~key_guard() {
  stop_.ring();
}

void key_guard::serve() {
  try {
    for (;;) {
      zmq::pollitem_t items[] = {{asked_.handle(), 0, ZMQ_POLLIN, 0},
                                 {nullptr, stop_.fd(), ZMQ_POLLIN, 0}};
      zmq::poll(items, std::size(items), std::chrono::milliseconds{-1});
      if (items[1].revents != 0)
        break;
      if (items[0].revents != 0)
        answer();
    }
    asked_.close();
  } catch (const std::exception& e) {
    // Whoever comes now is refused.
    spdlog::error("nobody can connect with a key any more: {}", e.what());
  }
}

/// Answers one question. Who asks is ZeroMQ itself, and it does not block.
void key_guard::answer() {
  std::vector<zmq::message_t> frames;
  auto more = true;
  while (more) {
    zmq::message_t frame;
    if (!asked_.recv(frame, zmq::recv_flags::dontwait))
      return;
    more = frame.more();
    if (frames.size() <= question_frames_of_ticket)
      frames.push_back(std::move(frame));
  }
  std::string user;
  auto proves_by = [&](std::string_view mechanism, std::size_t size) {
    return frames.size() == size &&
           frames[question_mechanism].to_string_view() == mechanism;
  };
  auto good = false;
  if (proves_by("CURVE", question_frames))
    good =
        knows(frames[question_address].to_string(), frames[question_key], user);
  else if (proves_by("PLAIN", question_frames_of_ticket))
    good = holds_ticket(frames[question_ticket].to_string_view(), user);
  std::string request = frames.size() > question_request
                            ? frames[question_request].to_string()
                            : std::string{};
  const std::array<std::string, 6> said{"1.0",
                                        request,
                                        good ? may_pass : comes_again,
                                        good ? "OK" : "not permitted",
                                        user,
                                        std::string{}};
  for (std::size_t i = 0; i < said.size(); ++i) {
    auto last = i + 1 == said.size();
    (void)asked_.send(
        zmq::buffer(said[i]),
        zmq::send_flags::dontwait |
            (last ? zmq::send_flags::none : zmq::send_flags::sndmore));
  }
}

/// Returns whether the key may connect. If so, it is the peer's user.
bool key_guard::knows(const std::string& address, const zmq::message_t& key,
                      std::string& user) {
  std::array<char, key_text_size + 1> text{};
  if (key.size() != key_bytes ||
      zmq_z85_encode(text.data(), key.data<std::uint8_t>(), key_bytes) ==
          nullptr)
    return false;
  if (permitted_->find(text.data())) {
    user = text.data();
    return true;
  }
  if (auto before = refused_.admits(address, log_limit::clock::now()))
    spdlog::warn("refused a connection of {}: its key {} is not permitted{}",
                 printable(address), text.data(), note_suppressed(*before));
  return false;
}

/// Returns whether the ticket is good. If so, it is used up now, and its holder
/// is the peer's user.
bool key_guard::holds_ticket(std::string_view shown, std::string& user) {
  auto number = tickets_ ? tickets_->use(shown) : std::nullopt;
  if (number)
    user = ticket_holder(*number);
  return number.has_value();
}

// -- a worker's port ----------------------------------------------------------

result<std::unique_ptr<port_keys>> port_keys::make(zmq::context_t& zmq) {
  auto own = make_key_pair();
  if (!own)
    return own.why();
  return std::unique_ptr<port_keys>{new port_keys{zmq, std::move(*own)}};
}

port_keys::port_keys(zmq::context_t& zmq, key_pair own)
    : own_(std::move(own)), guard_(zmq, permitted_, tickets_) {}

std::shared_ptr<const link_keys> port_keys::link() const {
  return std::make_shared<const link_keys>(
      link_keys{own_, {}, permitted_, tickets_});
}

void port_keys::admit(const std::string& client_key,
                      const std::string& former) {
  permitted_keys::table all;
  for (const auto& each : {client_key, former})
    if (is_key(each))
      all[each] = {principal::kind::tenant, "client", {}};
  permitted_->replace(std::move(all));
}

std::shared_ptr<const link_keys> keys_to_port(const key_pair& own,
                                              const std::string& endpoint,
                                              const std::string& port_key) {
  return std::make_shared<const link_keys>(
      link_keys{own, {{endpoint, port_key}}, nullptr, nullptr});
}

} // namespace vgpu
