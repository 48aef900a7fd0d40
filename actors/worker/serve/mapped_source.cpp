#include "actors/worker/serve/mapped_source.hpp"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>

namespace vgpu {

namespace {

bool same_file(int a, int b) {
  struct stat x {};
  struct stat y {};
  return ::fstat(a, &x) == 0 && ::fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
         x.st_ino == y.st_ino;
}

} // namespace

mapped_source::mapped_log::mapped_log(session_area memory, unique_fd bell,
                                      std::function<void()> first_answer)
    : area(std::make_shared<const session_area>(std::move(memory))),
      doorbell(std::move(bell)), reader(*area, doorbell.get(), 0),
      answers(std::make_shared<mapped_answers>(area, std::move(first_answer))),
      files(std::make_shared<host_files>(area)) {}

// -- waiting ------------------------------------------------------------------

void mapped_source::add_to(std::vector<pollfd>& items) {
  first_item_ = items.size();
  items.push_back({listener_.get(), POLLIN, 0});
  for (auto& x : strangers_)
    items.push_back({x.get(), POLLIN, 0});
  if (!has_client_)
    return;
  items.push_back({client_.get(), POLLIN, 0});
  items.push_back({log_->doorbell.get(), POLLIN, 0});
}

void mapped_source::note_ready(const std::vector<pollfd>& items) {
  auto is_ready = [](auto& x) { return x.revents != 0; };
  auto at = items.begin() + static_cast<long>(first_item_);
  ready_.listener = is_ready(*at++);
  auto end = at + static_cast<long>(strangers_.size());
  ready_.strangers = std::any_of(at, end, is_ready);
  ready_.client = has_client_ && is_ready(*end);
  if (std::exchange(asleep_, false))
    log_->reader.awake(is_ready(*(end + 1)));
}

bool mapped_source::fall_asleep() {
  return asleep_ = log_->reader.fall_asleep();
}

// -- clients ------------------------------------------------------------------

std::vector<mapped_source::greeting> mapped_source::receive_greetings() {
  constexpr std::size_t most_strangers = 8;
  std::vector<greeting> out;
  if (ready_.listener)
    while (auto socket = accept_own(listener_.get())) {
      if (strangers_.size() == most_strangers)
        strangers_.erase(strangers_.begin());
      strangers_.push_back(std::move(socket));
    }
  if (!ready_.strangers)
    return out;
  for (auto i = strangers_.begin(); i != strangers_.end();) {
    auto in = receive_packet(i->get());
    if (in && !*in) {
      ++i;
      continue;
    }
    if (in && !(*in)->closed)
      out.push_back({std::move(**in), std::move(*i)});
    i = strangers_.erase(i);
  }
  return out;
}

status mapped_source::adopt(packet& hello, bool restores,
                            std::uint64_t position) {
  constexpr auto memory = session_area::descriptor_count;
  if (hello.descriptors.size() < memory + (restores ? 2 : 1))
    return fault{fault_kind::corrupt,
                 "a session's memory comes with a doorbell, and with a state "
                 "where one is to be restored"};
  if (log_) {
    if (!same_file(log_->area->control_fd(), hello.descriptors[0].get()))
      return fault{fault_kind::corrupt,
                   "this is not the log of the session's program"};
    return {};
  }
  auto area = session_area::open(hello.descriptors);
  if (!area)
    return area.why();
  if (auto ok = area->map_host(); !ok)
    return ok;
  if (!restores && area->header().trimmed.load() > position)
    return fault{fault_kind::lost,
                 "the log begins after the call that is needed next"};
  log_ = std::make_unique<mapped_log>(
      std::move(*area), std::move(hello.descriptors[memory]), ring_);
  exec_.host_mapped(log_->area->host_bytes(), log_->files);
  exec_.answers_into(log_->area->arena());
  busy_.show(log_->area);
  return {};
}

void mapped_source::serve(unique_fd socket, std::uint64_t position) {
  log_->reader.rewind(position);
  log_->files->served_by(peer_of(socket.get()));
  client_ = std::move(socket);
  has_client_ = true;
}

result<std::optional<packet>> mapped_source::receive() {
  return receive_packet(client_.get());
}

bool mapped_source::is_read() const noexcept {
  int unread = 0;
  return ::ioctl(client_.get(), SIOCOUTQ, &unread) == 0 && unread == 0;
}

void mapped_source::send(data::body body, std::span<const int> descriptors) {
  (void)send_packet(client_.get(), identity_.encode(std::move(body)),
                    descriptors);
}

void mapped_source::close() {
  log_.reset();
  client_ = unique_fd{};
  has_client_ = false;
  listener_ = unique_fd{};
  strangers_.clear();
}

} // namespace vgpu
