#include "actors/worker/serve/session_server.hpp"

#include "actors/worker/serve/session_server_mapped.hpp"

#include "schema/wire/call_codec.hpp"

#include <spdlog/spdlog.h>

#include <sys/stat.h>

#include <algorithm>
#include <variant>

namespace vgpu {

namespace {

using namespace std::chrono_literals;

/// Calls between two looks at sockets and mailbox.
constexpr int log_quantum = 256;
/// How often the client hears of us while a call is executed.
constexpr auto look_every = 50ms;
/// A call that waits for the session's turn keeps the rest waiting so long.
constexpr auto turn_patience = 20ms;

bool same_file(int a, int b) {
  struct stat x {};
  struct stat y {};
  return ::fstat(a, &x) == 0 && ::fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
         x.st_ino == y.st_ino;
}

} // namespace

session_server::session_server(caf::actor_config& cfg,
                               session_server_options options,
                               std::unique_ptr<executor> exec,
                               std::unique_ptr<link_socket> socket,
                               unique_fd listener,
                               std::shared_ptr<session_gauges> gauges,
                               server_done done)
    : polling_actor(cfg), options_(std::move(options)), exec_(std::move(exec)),
      socket_(std::move(socket)), listener_(std::move(listener)),
      gauges_(std::move(gauges)), done_(std::move(done)),
      heartbeat_thread_(look_every, [this](auto away) { look_after(away); }) {
  gauges_->account.watch([exec = exec_.get()] {
    return usage_meter::reading{exec->account().used(), exec->used_bytes(),
                                exec->calls(), exec->account().worked()};
  });
  gauges_->busy.watch(
      [exec = exec_.get()] { return exec->account().device_times(); });
}

session_server::~session_server() {
  // Where act() ended, that was done.
  gauges_->account.forget();
  gauges_->busy.forget();
}

void session_server::act() {
  while (running_) {
    wait();
    read_mailbox();
    if (ready_.listener)
      accept_guest();
    if (ready_.strangers)
      read_strangers();
    if (ready_.guest)
      read_guest();
    if (ready_.connections)
      (void)socket_->connection_changes();
    no_turn_ = false;
    if (ready_.messages)
      read_socket();
    if (!running_)
      break;
    read_log();
    execute_backlog();
    look_at_zero_copy();
    look_settled();
    if (!away())
      exec_->gates().rest();
    send_answers();
    report_differences();
    if (no_turn_) {
      exec_->rest(); // what it waits is not its work's time
      await_turn();
    }
    report(false);
    check_device();
    publish();
    check_abandoned();
  }
  gauges_->account.forget();
  gauges_->busy.forget();
  // The devices' threads may answer until the executor is gone.
  exec_.reset();
  mapped_.reset();
  // Whoever looks for this worker finds nobody, also while somebody holds it.
  listener_ = unique_fd{};
  strangers_.clear();
}

// -- waiting
// ----------------------------------------------------------------------

std::chrono::milliseconds session_server::patience() const {
  if (no_turn_)
    return 0ms;
  // Nobody serves us: look now and then whether that has lasted too long.
  if (guest_here_)
    return -1ms;
  if (kernels_may_write())
    return zero_copy_news::every;
  return client_.empty() || lapsed_ ? 1000ms : options_.lease_term;
}

void session_server::wait() {
  // A busy program is served without a system call; the sockets get their look
  // now and then.
  constexpr unsigned rounds_unpolled = 64;
  ready_ = {};
  auto began = clock::now();
  auto looks = !no_turn_ && gait_ < gait::stopping;
  if (guest_here_ && looks && ++unpolled_ < rounds_unpolled &&
      look_at_log(began))
    return;
  unpolled_ = 0;
  sleep(began, looks);
}

/// True when a call came before it was time to sleep.
bool session_server::look_at_log(clock::time_point began) {
  auto found = [this] {
    for (int i = 0; i < 64; ++i) {
      if (mapped_->reader.ready())
        return true;
      __builtin_ia32_pause();
    }
    return called();
  };
  if (!mapped_looks_.look(began, found))
    return false;
  heard();
  return true;
}

/// `looks`: for what a client elsewhere sends, before it sleeps.
void session_server::sleep(clock::time_point began, bool looks) {
  std::vector<pollfd> items;
  items.push_back({listener_.get(), POLLIN, 0});
  for (auto& x : strangers_)
    items.push_back({x.get(), POLLIN, 0});
  auto socket = items.size();
  socket_->add_to(items);
  auto overlooked = socket_->overlooked() || !put_by_.empty();
  auto reads = guest_here_ && takes_calls();
  auto asleep = reads && mapped_->reader.fall_asleep();
  looks = looks && !client_.empty() && !lapsed_ && !overlooked;
  auto guest = items.size();
  if (guest_here_) {
    items.push_back({mapped_->client.get(), POLLIN, 0});
    items.push_back({mapped_->doorbell.get(), POLLIN, 0});
  }
  auto nothing = [] { return false; };
  auto has_messages = [&] {
    auto found = socket_->has_messages();
    if (found)
      items[socket].revents = POLLIN;
    return found;
  };
  if (!looks ||
      !look_on(items, forwarded_looks_, nothing, has_messages, began)) {
    if (!away())
      exec_->rest();
    gauges_->account.look();
    sleep_on(items, overlooked || (reads && !asleep) ? 0ms : patience());
    if (asleep || looks)
      (asleep ? mapped_looks_ : forwarded_looks_).learned(clock::now() - began);
  }
  if (asleep)
    mapped_->reader.awake(items[guest + 1].revents != 0);
  auto is_ready = [](auto& x) { return x.revents != 0; };
  ready_ = {.listener = is_ready(items[0]),
            .strangers = std::any_of(items.begin() + 1,
                                     items.begin() + static_cast<long>(socket),
                                     is_ready),
            .guest = guest_here_ && is_ready(items[guest]),
            .messages = overlooked || is_ready(items[socket]),
            .connections = is_ready(items[socket + 1])};
}

void session_server::read_mailbox() {
  if (mailbox().empty())
    return; // to make the handlers takes as long as to read some messages
  receive_while([this] { return !mailbox().empty(); })(
      [this](std::uint32_t ordinal, device::injected_fault what) {
        exec_->inject(ordinal, what);
      },
      [this](std::uint64_t quota) { exec_->allow(quota); },
      [this](caf::exit_msg& msg) {
        if (msg.reason == caf::exit_reason::user_shutdown)
          end("it was stopped", true);
        running_ = false;
        fail_state(std::move(msg.reason));
      },
      caf::others >> [](caf::message_view&) -> caf::result<caf::message> {
        return caf::sec::unexpected_message;
      });
}

void session_server::check_lease() {
  if (client_.empty() || lapsed_ ||
      clock::now() - heard_ <= options_.lease_term)
    return;
  lapsed_ = true;
  spdlog::warn("session {}: the client has been silent for {} ms; no call is "
               "executed until it shows its lease again",
               options_.session.value, options_.lease_term.count());
}

void session_server::check_abandoned() {
  check_lease();
  if (!guest_here_ && clock::now() - heard_ > options_.abandoned_after)
    end("no client for " + std::to_string(options_.abandoned_after.count()) +
        " ms");
}

void session_server::end(const std::string& why, bool clean) {
  running_ = false;
  // The process may end as soon as that is known.
  (void)charge();
  gauges_->account.look();
  done_(why, clean);
}

/// A device that failed by itself is not the program's fault: it is told
/// nothing, and the session is taken up elsewhere.
void session_server::check_device() {
  auto error = exec_->lost();
  if (error == CUDA_SUCCESS)
    return;
  end("its device is lost, error " + std::to_string(error), false);
}

void session_server::publish() {
  gauges_->calls = exec_->calls();
  gauges_->position = position_;
  if (gauges_->memory.exchange(exec_->used_bytes()) != exec_->used_bytes())
    gauges_->account.look();
  gauges_->quota = exec_->quota();
  auto beside = exec_->account().side_memory();
  gauges_->variables = beside.variables;
  gauges_->code = beside.code;
  gauges_->context = beside.context;
  gauges_->error = static_cast<std::uint32_t>(exec_->error());
  if (!mapped_)
    return;
  mapped_->area->publish_executed(exec_->executed());
  if (guest_here_)
    mapped_->area->note_charged(charge());
}

bool session_server::allowed(const data::head& head) const {
  return head.session == options_.session && head.epoch == options_.epoch;
}

// -- a client on this host
// --------------------------------------------------------

void session_server::accept_guest() {
  constexpr std::size_t most_strangers = 8;
  while (auto socket = accept_own(listener_.get())) {
    if (strangers_.size() == most_strangers)
      strangers_.erase(strangers_.begin());
    strangers_.push_back(std::move(socket));
  }
}

void session_server::read_strangers() {
  for (auto i = strangers_.begin(); i != strangers_.end();) {
    auto in = receive_packet(i->get());
    if (in && !*in) {
      ++i;
      continue;
    }
    auto socket = std::move(*i);
    i = strangers_.erase(i);
    if (!in || (*in)->closed)
      continue;
    attach_guest(**in, std::move(socket));
  }
}

void session_server::read_guest() {
  if (!guest_here_)
    return;
  auto in = receive_packet(mapped_->client.get());
  if (in && !*in)
    return;
  if (in && !(*in)->closed) {
    auto head = data::decode((*in)->words);
    if (head && allowed(*head)) {
      if (std::holds_alternative<data::detach>(head->body))
        return end("the program ended");
      if (auto* x = std::get_if<data::checkpoint>(&head->body))
        return stop(*x, std::move((*in)->descriptors));
      if (std::holds_alternative<data::go_on>(head->body))
        return go_on();
    }
  }
  // What the devices still answer goes to the program all the same; further
  // calls wait for a client that shows the lease.
  spdlog::info("session {}: its client is gone", options_.session.value);
  heard_ = clock::now();
  guest_here_ = false;
}

void session_server::attach_guest(packet& hello, unique_fd socket) {
  auto send_back = [&](data::body what) {
    (void)send_packet(
        socket.get(),
        data::encode({options_.session, options_.epoch, std::move(what)}));
  };
  auto refuse = [&](const std::string& why) {
    spdlog::warn("session {}: a client was refused: {}", options_.session.value,
                 why);
    send_back(data::refused{why});
  };
  auto head = data::decode(hello.words);
  if (!head)
    return refuse(head.why().what);
  auto* x = std::get_if<data::attach>(&head->body);
  if (x == nullptr || !allowed(*head) || x->token != options_.token)
    return refuse("this worker serves session " +
                  std::to_string(options_.session.value) + " in epoch " +
                  std::to_string(options_.epoch.value) +
                  "; show the lease of that epoch");
  auto restores = x->restore != 0 && !restored_;
  if (auto ok = adopt_log(hello, restores); !ok)
    return refuse(ok.why().what);
  if (restores)
    if (auto ok = restore_from(hello, x->adopt); !ok)
      return refuse(ok.why().what);
  if (!x->aside)
    go_on();
  // A client that had them sent may have written to those files.
  if (forwarded_)
    exec_->forget_copies();
  begin_replay(*x);
  mapped_->reader.rewind(position_);
  client_.clear();
  exec_->serve(mapped_->answers);
  send_back(data::attached{progress()});
  mapped_->files->served_by(peer_of(socket.get()));
  mapped_->client = std::move(socket);
  guest_here_ = true;
  look_replayed();
}

/// Maps a log that a client hands over, or finds that it is the one at hand.
/// `restores`: a state comes along.
status session_server::adopt_log(packet& hello, bool restores) {
  constexpr auto memory = session_area::descriptor_count;
  if (hello.descriptors.size() < memory + (restores ? 2 : 1))
    return fault{CUDA_ERROR_INVALID_VALUE,
                 "a session's memory comes with a doorbell, and with a state "
                 "where one is to be restored"};
  if (mapped_) {
    if (!same_file(mapped_->area->control_fd(), hello.descriptors[0].get()))
      return fault{CUDA_ERROR_INVALID_VALUE,
                   "this is not the log of the session's program"};
    return {};
  }
  auto area = session_area::open(hello.descriptors);
  if (!area)
    return area.why();
  if (auto ok = area->map_host(); !ok)
    return ok;
  if (!restores && area->header().trimmed.load() > position_)
    return fault{CUDA_ERROR_DEVICE_UNAVAILABLE,
                 "the log begins after the call that is needed next"};
  mapped_ = std::make_unique<mapped>(std::move(*area),
                                     std::move(hello.descriptors[memory]),
                                     [this] { ring(); });
  exec_->host_mapped(mapped_->area->host_bytes(), mapped_->files);
  exec_->answers_into(mapped_->area->arena());
  gauges_->busy.show(mapped_->area);
  return {};
}

void session_server::read_log() {
  if (!guest_here_)
    return;
  for (int i = 0; i < log_quantum && takes_calls(); ++i) {
    auto got = mapped_->reader.next();
    if (!got) {
      spdlog::error("session {}: {}", options_.session.value, got.why().what);
      return end(got.why().what);
    }
    if (!*got)
      break;
    // The log stays mapped as long as devices copy out of it.
    if (!execute_away(**got, nullptr)) {
      mapped_->reader.rewind(position_);
      no_turn_ = true;
      break;
    }
    reached((*got)->end);
    look_replayed();
  }
}

// -- a client elsewhere
// -----------------------------------------------------------

void session_server::read_socket() {
  auto put_by = std::exchange(put_by_, {});
  put_by_bytes_ = 0;
  for (;;) {
    auto in = put_by.empty() ? socket_->receive() : put_by.front();
    if (!in)
      return;
    if (!put_by.empty())
      put_by.pop_front();
    auto words = in->words();
    auto head = data::decode(
        {reinterpret_cast<const std::uint64_t*>(words.begin()), words.size()});
    if (!head) {
      spdlog::warn("session {}: dropped a message of {}: {}",
                   options_.session.value, printable(in->peer()),
                   head.why().what);
      continue;
    }
    take(in->peer(), *head, in);
    if (!running_)
      return;
    // Somebody may wait for it; to find that nothing else came takes a while.
    if (!no_turn_) {
      execute_backlog();
      send_answers();
    }
  }
}

void session_server::take(const std::string& peer, const data::head& head,
                          const parcel_ptr& in) {
  if (!allowed(head)) {
    spdlog::warn("session {}: refused a message for session {} in epoch {}",
                 options_.session.value, head.session.value, head.epoch.value);
    send(peer,
         data::refused{"this worker serves session " +
                       std::to_string(options_.session.value) + " in epoch " +
                       std::to_string(options_.epoch.value)});
    return;
  }
  if (auto* x = std::get_if<data::attach>(&head.body))
    return on(peer, *x);
  if (auto* x = std::get_if<data::join>(&head.body))
    return on(peer, *x);
  auto* calls = std::get_if<data::calls>(&head.body);
  if (calls != nullptr ? !takes_calls_of(peer) : peer != client_)
    return send(peer, data::refused{"show the lease's token first"});
  check_abandoned();
  // Told once: what else was under way comes again after the lease.
  if (lapsed_) {
    if (!std::exchange(told_lapsed_, true))
      send(peer, data::refused{"the lease has lapsed; show it again"});
    return;
  }
  heard_ = clock::now();
  if (calls != nullptr)
    on(*calls, in);
  else if (auto* alive = std::get_if<data::keepalive>(&head.body))
    on(*alive);
  else if (std::holds_alternative<data::detach>(head.body))
    end("the program ended");
  else if (auto* where = std::get_if<data::checkpoint>(&head.body))
    stop(*where, {});
  else if (std::holds_alternative<data::go_on>(head.body))
    go_on();
  else if (auto* wanted = std::get_if<data::state_wanted>(&head.body))
    on(*wanted);
  else if (auto* part = std::get_if<data::state_part>(&head.body))
    on(*part, in);
}

void session_server::on(const std::string& peer, const data::attach& x) {
  if (x.token != options_.token)
    return send(peer, data::refused{"the token is not the lease's"});
  if (auto ok = exec_->host_shadow(); !ok)
    return send(peer, data::refused{ok.why().what});
  if (!broken_.empty())
    return send(peer, data::refused{broken_});
  client_ = peer;
  second_.clear();
  reorder_.clear();
  guest_here_ = false;
  lapsed_ = told_lapsed_ = false;
  heard_ = clock::now();
  received_ = std::max(received_, position_);
  if (!forwarded_) {
    // A device may answer until its executor is gone.
    forwarded_ = std::make_shared<forwarded_answers>(
        [this, exec = exec_.get()] {
          ring();
          exec->gates().nudge();
        },
        socket_->within_host());
    forwarded_->tell_of(exec_->zero_copy());
  }
  if (position_ < x.replay_until)
    forwarded_->hold();
  if (!x.aside)
    go_on();
  forwarded_->attached(x);
  forwarded_->acknowledge(x.answers_seen);
  forwarded_->rewind();
  exec_->serve(forwarded_);
  replay_wanted_ = x;
  if (x.restore != 0 && !restored_)
    return begin_inflow(x.restore);
  begin_replay(x);
  send(client_, attached());
  look_replayed();
}

data::attached session_server::attached() {
  return {progress(), socket_->second_port()};
}

bool session_server::takes_calls_of(const std::string& peer) const {
  return !client_.empty() && (peer == client_ || peer == second_);
}

void session_server::on(const std::string& peer, const data::join& x) {
  if (x.token != options_.token || client_.empty())
    return send(peer, data::refused{"the token is not the lease's, or nobody "
                                    "showed it by a first connection"});
  second_ = peer;
  send(peer, data::join{});
  spdlog::info("session {}: its client has a second connection",
               options_.session.value);
}

void session_server::on(const data::keepalive& x) {
  forwarded_->acknowledge(x.answers_seen);
  told_ = position_;
  (void)charge();
  // Messages of one connection keep their order: what was sent before this and
  // did not come was lost with a connection. Of two it may be on its way by the
  // other; when that breaks, the client shows its lease again.
  if (x.sent > received_ && second_.empty())
    send(client_, attached());
  else
    send(client_, progress());
}

void session_server::on(const data::calls& x, const parcel_ptr& in) {
  auto bytes = in->bulk().size();
  auto fits = x.to >= x.from && x.to - x.from == bytes;
  if (fits && x.from > received_ && !second_.empty() &&
      reorder_.keep(x.from, bytes, {x, in}))
    return;
  if (!fits || x.from > received_) {
    send(client_, attached());
    return;
  }
  queue(x, in);
  while (auto next = reorder_.take(received_))
    queue(next->range, next->in);
}

/// A range that begins at what has come, or before.
void session_server::queue(const data::calls& x, const parcel_ptr& in) {
  if (x.to <= received_)
    return; // all of it came before
  auto bytes = in->bulk().subspan(received_ - x.from);
  received_ = x.to;
  // Records are made of words. What a parcel has aligned, and large frames, lie
  // as words do and are read where they are.
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % sizeof(std::uint64_t) ==
      0) {
    backlog_.push_back({in, bytes});
    return;
  }
  auto words =
      std::make_shared<std::vector<std::uint64_t>>((bytes.size() + 7) / 8);
  std::copy(bytes.begin(), bytes.end(),
            reinterpret_cast<std::byte*>(words->data()));
  backlog_.push_back(
      {words,
       {reinterpret_cast<const std::byte*>(words->data()), bytes.size()}});
}

void session_server::execute_backlog() {
  constexpr std::uint64_t tell_every = std::uint64_t{4} << 20;
  if (!backlog_.empty())
    known_ = progress();
  while (!backlog_.empty() && !lapsed_ && !forwarded_->congested() &&
         takes_calls()) {
    auto& [owner, rest] = backlog_.front();
    auto got = parse_record(rest, position_, scratch_);
    if (!got || !*got) {
      auto why = got ? std::string{"a range of calls ends in the middle of one"}
                     : got.why().what;
      spdlog::error("session {}: {}", options_.session.value, why);
      return end(why);
    }
    if (!execute_away(**got, owner)) {
      no_turn_ = true;
      break;
    }
    rest = rest.subspan((*got)->end - position_);
    reached((*got)->end);
    if (rest.empty())
      backlog_.pop_front();
    look_replayed();
    if (position_ - told_ >= tell_every) {
      told_ = position_;
      (void)charge();
      known_ = progress();
      send(client_, known_);
    }
  }
}

/// Sockets, mailbox and answers have their turn all the while.
void session_server::await_turn() {
  if (!called())
    exec_->gates().wait(turn_patience);
}

void session_server::send_answers() {
  if (!forwarded_ || client_.empty() || lapsed_)
    return;
  while (auto out = forwarded_->next()) {
    if (send_answer(*out))
      continue;
    // The client says what it lacks when it is back.
    forwarded_->rewind();
    client_.clear();
    return;
  }
}

/// False where its client has no connection.
bool session_server::send_answer(const outbound_answer& out) {
  vgpu::dispatch frames;
  put_frames(frames, data::encode({options_.session, options_.epoch, out.head}),
             out.payload, out.owner);
  auto sent_to = [&](const std::string& peer) {
    frames.peer = peer;
    return socket_->send(frames) == link_socket::sent::yes;
  };
  if (!second_.empty() && out.payload.size() >= striped_from) {
    by_second_ = !by_second_;
    if (by_second_ && sent_to(second_))
      return true;
    if (by_second_)
      second_.clear();
  }
  return sent_to(client_);
}

void session_server::send(const std::string& peer, data::body body) {
  vgpu::dispatch frames;
  frames.peer = peer;
  put_frames(frames,
             data::encode({options_.session, options_.epoch, std::move(body)}));
  (void)socket_->send(frames);
}

} // namespace vgpu
