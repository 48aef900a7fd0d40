#include "actors/link/keyed_connections.hpp"

#include "actors/link/log.hpp"
#include "actors/link/printable.hpp"

#include <utility>

#include <poll.h>
#include <sys/socket.h>

namespace vgpu {

keyed_connections::keyed_connections(std::shared_ptr<permitted_keys> permitted)
    : permitted_(std::move(permitted)) {
  permitted_->watch(bell_);
}

void keyed_connections::accepted(int fd) {
  auto own = duplicate_of(fd);
  auto& here = here_[fd];
  // The first message may have been read before this event.
  if (here.own)
    here = {};
  here.own = std::move(own);
}

void keyed_connections::gone(int fd) noexcept {
  here_.erase(fd);
}

principal_ptr keyed_connections::sender(int fd, const char* key) {
  auto who = key == nullptr ? nullptr : permitted_->find(key);
  auto i = here_.find(fd);
  if (!who) {
    if (i != here_.end())
      end(i);
    return who;
  }
  // The message may have waited since a former connection of the descriptor.
  // The next one of this connection then sets it right.
  auto& here = i == here_.end() ? here_[fd] : i->second;
  if (here.key != key) {
    here.key = key;
    here.who = who;
  }
  return who;
}

void keyed_connections::end(int fd) noexcept {
  if (auto i = here_.find(fd); i != here_.end())
    end(i);
}

void keyed_connections::look() noexcept {
  pollfd rings{bell_->fd(), POLLIN, 0};
  if (::poll(&rings, 1, 0) != 1)
    return;
  bell_->silence();
  revoked_ = true;
}

bool keyed_connections::end_revoked() {
  if (!std::exchange(revoked_, false))
    return false;
  for (auto i = here_.begin(); i != here_.end();) {
    auto& x = i->second;
    auto now = permitted_->find(x.key);
    if (now && x.who && *now == *x.who) {
      ++i;
      continue;
    }
    if (x.who)
      spdlog::warn("the key of {} is revoked: its connection ends",
                   printable(x.who->name));
    i = end(i);
  }
  return true;
}

keyed_connections::connections::iterator
keyed_connections::end(connections::iterator which) {
  (void)::shutdown(which->second.own.get(), SHUT_RDWR);
  return here_.erase(which);
}

} // namespace vgpu
