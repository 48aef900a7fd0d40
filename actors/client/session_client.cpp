#include "actors/client/session_client.hpp"

#include "actors/client/guest_codec.hpp"
#include "actors/client/session_client_forwarding.hpp"
#include "actors/link/host.hpp"

#include <spdlog/spdlog.h>

#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace vgpu {

using namespace std::chrono_literals;

session_client::session_client(caf::actor_config& cfg, zmq::context_t& zmq,
                               session_client_options options, unique_fd guest,
                               caf::actor owner)
    : polling_actor(cfg), zmq_(zmq), options_(std::move(options)),
      guest_(std::move(guest)), owner_(std::move(owner)) {}

session_client::~session_client() = default;

std::string session_client::host_id_once() {
  static const auto id = host_id();
  return id;
}

void session_client::act() {
  while (running_) {
    wait();
    read_mailbox();
    if (ready_.guest)
      read_guest();
    if (ready_.worker)
      read_worker();
    if (ready_.connections)
      read_connection();
    if (ready_.messages)
      read_socket();
    forward();
    look_at_movement();
    look_at_snapshots();
    open_second();
    keep_alive();
    fail_calls();
  }
  forwarding_.reset();
  owner_ = nullptr;
}

// -- waiting ------------------------------------------------------------------

std::chrono::milliseconds session_client::patience() const {
  if (movement_)
    return movement_->arriving && movement_->arriving->works() ? 0ms : 5ms;
  if (!forwarding_)
    return until_snapshot();
  auto rest = next_keepalive_ - clock::now();
  auto beat = std::max(std::chrono::ceil<std::chrono::milliseconds>(rest), 1ms);
  auto snapshot = until_snapshot();
  return snapshot < 0ms ? beat : std::min(beat, snapshot);
}

/// What is waited for, in the order of items_.
enum waited_item : std::size_t {
  guest_item,
  worker_item,
  socket_item,
  monitor_item,
  second_item,
  second_monitor_item
};

void session_client::wait() {
  auto& items = items_;
  items.clear();
  items.push_back({guest_.get(), POLLIN, 0});
  // What is not there is a descriptor that poll() passes over.
  items.push_back({worker_.get(), POLLIN, 0});
  auto overlooked = false;
  if (forwarding_) {
    forwarding_->socket.add_to(items);
    overlooked = forwarding_->socket.overlooked();
  }
  auto has_second = forwarding_ && forwarding_->second;
  if (has_second) {
    forwarding_->second->add_to(items);
    overlooked = forwarding_->second->overlooked() || overlooked;
  }
  auto reads = lost_ || sleeps_until_called() ||
               (forwarding_ && forwarding_->attached && !aside_ &&
                forwarding_->has_room());
  look_or_sleep(reads, overlooked ? 0ms : patience());
  auto is_ready = [&](std::size_t i) { return items[i].revents != 0; };
  ready_ = {.guest = is_ready(guest_item),
            .worker = is_ready(worker_item),
            .messages = overlooked || (forwarding_ && is_ready(socket_item)) ||
                        (has_second && is_ready(second_item)),
            .connections = (forwarding_ && is_ready(monitor_item)) ||
                           (has_second && is_ready(second_monitor_item))};
}

/// `reads`: calls in the log are waited for, too.
void session_client::look_or_sleep(bool reads,
                                   std::chrono::milliseconds at_most) {
  auto began = clock::now();
  auto looks = forwarding_ && forwarding_->attached && at_most != 0ms;
  auto has_calls = [&] { return reads && reader_->ready(); };
  auto has_messages = [&] {
    auto found = forwarding_->socket.has_messages();
    if (found)
      items_[socket_item].revents = POLLIN;
    if (forwarding_->second && forwarding_->second->has_messages()) {
      items_[second_item].revents = POLLIN;
      found = true;
    }
    return found;
  };
  if (looks && look_on(items_, busy_poll_, has_calls, has_messages, began))
    return;
  auto asleep = reads && reader_->fall_asleep();
  if (asleep)
    items_.push_back({doorbell_.get(), POLLIN, 0});
  sleep_on(items_, reads && !asleep ? 0ms : at_most);
  if (asleep) {
    reader_->awake(items_.back().revents != 0);
    items_.pop_back();
  }
  if (looks)
    busy_poll_.learned(clock::now() - began);
}

void session_client::read_mailbox() {
  if (mailbox().empty())
    return; // to make the handlers takes as long as to read some messages
  receive_while([this] { return !mailbox().empty(); })(
      [this](lease_ptr& lease) { serve(*lease); },
      [this](refusal_ptr& why) { refuse(*why); },
      [this](watched_ptr& what) { tell_watched(*what); },
      [this](news_ptr& what) { tell_waiting(what->text); },
      [this](pause_order_ptr& order) { pause(*order); },
      [this](bring_back_ptr& order) { bring_back(*order); },
      [this](caf::exit_msg& msg) {
        running_ = false;
        fail_state(std::move(msg.reason));
      },
      caf::others >> [](caf::message_view&) -> caf::result<caf::message> {
        return caf::sec::unexpected_message;
      });
}

void session_client::tell(control::body what) {
  caf::anon_send(owner_,
                 std::make_shared<const control::body>(std::move(what)));
}

control::event session_client::make_event(std::string kind,
                                          std::string text) const {
  using namespace std::chrono;
  control::event x;
  x.time = duration<double>(system_clock::now().time_since_epoch()).count();
  x.kind = std::move(kind);
  x.text = std::move(text);
  if (lease_) {
    x.node = lease_->node;
    x.session = lease_->session;
    x.vgpu = lease_->vgpu;
    x.epoch = lease_->epoch;
  }
  return x;
}

// -- the program --------------------------------------------------------------

void session_client::read_guest() {
  auto in = receive_packet(guest_.get());
  if (!in)
    return end(in.why().what);
  if (!*in)
    return;
  if ((*in)->closed)
    return end("the program ended");
  if (!area_)
    return greet(**in);
  take_notice((*in)->words);
}

void session_client::greet(packet& in) {
  auto hello = guest::decode_hello(in.words);
  if (!hello)
    return end(hello.why().what);
  if (hello->watches) {
    caf::anon_send(owner_, caf::actor_cast<caf::actor>(this),
                   std::make_shared<const guest_watches>(
                       guest_watches{hello->specification.group}));
    return;
  }
  constexpr auto memory = session_area::descriptor_count;
  if (in.descriptors.size() < memory + 1)
    return end("a program hands over its session's memory, a doorbell, and "
               "places for snapshots");
  auto area = session_area::open(in.descriptors);
  if (!area)
    return end(area.why().what);
  area_ = std::make_shared<session_area>(std::move(*area));
  doorbell_ = std::move(in.descriptors[memory]);
  places_ = state_places::take(in.descriptors, memory + 1);
  reader_.emplace(*area_, doorbell_.get(), 0);
  program_ = hello->program;
  program_.host = host_id_once();
  specification_ = hello->specification;
  hears_waiting_ = hello->hears_waiting;
  auto opened = std::make_shared<guest_opened>();
  opened->program = program_;
  opened->area = area_;
  opened->specification = specification_;
  if (hello->resumed) {
    auto& header = area_->header();
    std::vector<std::byte> bytes(
        std::min<std::size_t>(header.ticket_size.load(), ticket_bytes));
    std::memcpy(bytes.data(), header.ticket.data(), bytes.size());
    auto ticket = guest::decode_ticket(bytes);
    if (!ticket)
      return end(ticket.why().what);
    resumed_ = true;
    former_ = ticket->lease;
    opened->resumed = ticket->adopt;
    opened->resumed->specification = specification_;
    opened->resumed->program = program_;
  }
  caf::anon_send(owner_, caf::actor_cast<caf::actor>(this),
                 guest_opened_ptr{std::move(opened)});
}

void session_client::refuse(const control::refusal& why) {
  if (lease_)
    return lose_session(why.reason);
  (void)send_packet(guest_.get(), guest::encode_refusal(why));
  end("refused: " + why.reason);
}

void session_client::tell_watched(const guest::watched& what) {
  (void)send_packet(guest_.get(), guest::encode_watched(what));
  end("was told what it watches");
}

/// There is no place yet. Later, when it has lost one, a program is not told:
/// it sees a call that takes its time.
void session_client::tell_waiting(const std::string& why) {
  if (hears_waiting_ && !lease_ && !resumed_)
    (void)send_packet(guest_.get(), guest::encode_waiting(why));
}

void session_client::welcome() {
  if (auto ok = send_packet(guest_.get(), guest::encode_welcome(*lease_)); !ok)
    end(ok.why().what);
}

/// Leaves in the shared memory what another client would need to go on.
void session_client::write_ticket() {
  auto bytes = guest::encode_ticket(*lease_);
  auto& header = area_->header();
  if (bytes.size() > ticket_bytes)
    throw std::logic_error{"a session's ticket does not fit its place"};
  header.ticket_size.store(0);
  std::memcpy(header.ticket.data(), bytes.data(), bytes.size());
  header.ticket_size.store(static_cast<std::uint32_t>(bytes.size()));
}

void session_client::end(const std::string& why) {
  if (!running_)
    return;
  running_ = false;
  spdlog::info("{}: {}", program_.name.empty() ? "a guest" : program_.name,
               why);
  if (!lease_)
    return;
  // The worker learns at once that there will be no more calls.
  auto over = data::encode({lease_->session, lease_->epoch, data::detach{}});
  if (worker_)
    (void)send_packet(worker_.get(), over);
  else if (forwarding_)
    send(data::detach{});
}

// -- leases -------------------------------------------------------------------

/// The same place, but more or less of it.
void session_client::resize(const control::lease& lease) {
  if (lease_->quota == lease.quota)
    return;
  lease_->quota = lease.quota;
  area_->header().quota.store(lease.quota, std::memory_order_relaxed);
  write_ticket();
}

void session_client::serve(const control::lease& lease) {
  if (area_ && lease_ && lease.epoch == lease_->epoch)
    return resize(lease);
  if (!area_ || lost_ || (lease_ && lease.epoch <= lease_->epoch))
    return;
  if (lease_)
    former_ = lease_;
  lease_ = lease;
  postponed_.reset();
  movement_.reset();
  aside_.reset();
  woken_ = true; // a log has one reader
  suspected_ = false;
  if (!fence())
    return suspect("the worker of the former epoch may still run");
  look_at_former();
  worker_ = unique_fd{};
  forwarding_.reset();
  auto& header = area_->header();
  moved_ = former_ && former_->epoch != lease.epoch;
  if (moved_) {
    offer_lending();
    choose_beginning();
  }
  if (snapshot_after_ == 0)
    expect_state(0);
  look_at_filling();
  next_snapshot_ =
      clock::now() + std::chrono::milliseconds{specification_.snapshot_ms};
  if (moved_ && !held_ && (header.trimmed.load() != 0 || !is_protected()))
    return lose_session("its worker was lost and it had no protection");
  former_.reset();
  write_ticket();
  header.served_epoch = lease.epoch.value;
  replay_until_ = moved_ ? header.tail.load() : 0;
  charged_before_ = header.charged.load();
  replay_from_ = held_ && held_->snapshot ? held_->position : 0;
  auto replays = moved_ && (!held_ || held_->snapshot);
  replay_told_ = answer_told_ = !replays;
  replay_began_ = clock::now();
  auto mapped = maps_log() && attach_mapped();
  note_host_apart(!mapped);
  if (mapped) {
    spdlog::info("session {}: epoch {} on {}, log mapped", lease.session.value,
                 lease.epoch.value, lease.node);
  } else {
    attach_forwarded();
  }
  if (!std::exchange(greeted_, true))
    welcome();
}

/// There is nothing left to serve the program from: it gets a CUDA error from
/// now on, as it does when a GPU falls off the bus.
void session_client::lose_session(const std::string& why) {
  lost_ = true;
  // Who ordered a move waits for what comes of it.
  if (postponed_ || (movement_ && !movement_->snapshot))
    tell(control::paused{lease_->session, lease_->epoch, why, 0, 0});
  postponed_.reset();
  movement_.reset();
  aside_.reset();
  held_.reset();
  worker_ = unique_fd{};
  forwarding_.reset();
  auto& header = area_->header();
  header.sticky_error = CUDA_ERROR_DEVICE_UNAVAILABLE;
  tell(make_event("session-lost", program_.name + " lost its vGPU: " + why));
  for (unsigned i = 1; i < slot_count; ++i) {
    auto index = static_cast<slot_index>(i);
    area_->answer(index, {area_->at(index).call.load()},
                  CUDA_ERROR_DEVICE_UNAVAILABLE, 0);
  }
  reader_->rewind(std::max(header.trimmed.load(), header.executed.load()));
}

void session_client::fail_calls() {
  if (!lost_)
    return;
  for (;;) {
    auto got = reader_->next();
    if (!got)
      return end(got.why().what);
    if (!*got)
      break;
    area_->answer((*got)->slot, (*got)->call, CUDA_ERROR_DEVICE_UNAVAILABLE, 0);
  }
  area_->publish_executed(reader_->position());
}

data::attach session_client::make_attach(std::uint64_t answers_seen) const {
  data::attach x;
  x.token = lease_->token;
  x.answers_seen = answers_seen;
  x.replay_until = replay_until_;
  x.restore = held_ ? held_->bytes : 0;
  x.charged = charged_before_;
  x.aside = aside_ && !aside_->ordered;
  for (unsigned i = 1; i < slot_count; ++i) {
    auto index = static_cast<slot_index>(i);
    call_number call{area_->at(index).call.load()};
    if (area_->waits(index, call))
      x.waiting.push_back({call, index});
  }
  return x;
}

void session_client::suspect(const std::string& why) {
  if (suspected_ || !lease_ || lost_)
    return;
  suspected_ = true;
  last_suspicion_ = why;
  spdlog::warn("session {}: epoch {} on {}: {}", lease_->session.value,
               lease_->epoch.value, lease_->node, why);
  tell(control::suspect{lease_->session, lease_->epoch, why});
}

/// For the timeline: when the journal was replayed, and when the program got
/// its first answer after that.
void session_client::report_progress(const data::progress& x) {
  auto& header = area_->header();
  if (x.sticky != CUDA_SUCCESS)
    header.sticky_error = static_cast<std::uint32_t>(x.sticky);
  if (!moved_)
    return;
  using milliseconds = std::chrono::duration<double, std::milli>;
  auto since = milliseconds{clock::now() - replay_began_}.count();
  if (!replay_told_ && x.received >= replay_until_) {
    replay_told_ = true;
    auto calls = x.calls - std::min(x.calls, calls_before_);
    auto event = make_event(
        "session-replayed",
        program_.name + ": " + std::to_string(calls) +
            " calls were replayed on " + lease_->node +
            (replay_from_ == 0 ? "" : ", those since its last snapshot"));
    event.calls = calls;
    event.bytes = replay_until_ - replay_from_;
    event.milliseconds = since;
    tell(std::move(event));
  }
  if (replay_told_ && !answer_told_ && x.answers != 0) {
    answer_told_ = true;
    auto event = make_event("first-result", program_.name +
                                                " got its first new result "
                                                "from " +
                                                lease_->node);
    event.milliseconds = since;
    tell(std::move(event));
  }
}

// -- a worker on this host ----------------------------------------------------

/// Whether the worker of the lease can have it.
bool session_client::maps_log() const {
  return options_.transport != transport::forwarded &&
         lease_->worker.host == host_;
}

void session_client::note_host_apart(bool apart) {
  auto& number = area_->header().host_apart;
  if ((number.load() % 2 == 1) != apart)
    number.fetch_add(1);
}

bool session_client::attach_mapped() {
  auto socket = connect_abstract(lease_->worker.guest_socket);
  if (!socket)
    return false;
  auto memory = area_->descriptors();
  std::vector<int> descriptors{memory.begin(), memory.end()};
  descriptors.push_back(doorbell_.get());
  if (held_)
    descriptors.push_back(held_->file.get());
  if (held_ && held_->offered)
    descriptors.push_back(held_->offered.get());
  auto hello = make_attach(0);
  // A snapshot stays the newest until the next.
  hello.adopt = held_ && !held_->snapshot;
  auto sent = send_packet(socket->get(),
                          data::encode({lease_->session, lease_->epoch, hello}),
                          descriptors);
  if (!sent)
    return false;
  worker_ = std::move(*socket);
  return true;
}

void session_client::read_worker() {
  while (worker_) {
    auto in = receive_packet(worker_.get());
    if (in && !*in)
      return;
    if (!in || (*in)->closed) {
      worker_ = unique_fd{};
      return suspect("its worker is gone");
    }
    auto head = data::decode((*in)->words);
    if (!head || head->epoch != lease_->epoch)
      continue;
    if (auto* why = std::get_if<data::refused>(&head->body)) {
      worker_ = unique_fd{};
      return suspect("its worker refused: " + why->why);
    }
    if (auto* x = std::get_if<data::progress>(&head->body))
      report_progress(*x);
    else if (std::holds_alternative<data::attached>(head->body))
      restored();
    else
      take_movement(*head, std::move((*in)->descriptors));
  }
}

} // namespace vgpu
