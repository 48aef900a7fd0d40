#include "nodes/keys/key_watch.hpp"

#include "actors/link/log.hpp"

#include <chrono>
#include <utility>

namespace vgpu {

namespace {

constexpr std::chrono::milliseconds between_looks{250};

double seconds_since_1970() {
  return std::chrono::duration<double>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

} // namespace

key_watch::key_watch(key_folder where, manager_keys begin)
    : where_(std::move(where)), keys_(std::move(begin)),
      shown_(keys_.table(seconds_since_1970())),
      permitted_(std::make_shared<permitted_keys>(shown_)),
      thread_([this] { watch(); }) {}

key_watch::~key_watch() {
  {
    std::lock_guard guard{mutex_};
    stopping_ = true;
  }
  stops_.notify_all();
}

void key_watch::watch() {
  std::unique_lock lock{mutex_};
  while (!stops_.wait_for(lock, between_looks, [this] { return stopping_; }))
    look();
}

void key_watch::look_now() {
  std::lock_guard guard{mutex_};
  look();
}

void key_watch::look() {
  auto complaint = read();
  if (!complaint.empty() && complaint != complaint_)
    spdlog::error("{}; the keys that it had before hold", complaint);
  complaint_ = std::move(complaint);
  auto now = keys_.table(seconds_since_1970());
  if (now != shown_) {
    shown_ = now;
    permitted_->replace(std::move(now));
  }
  tell_changes(seconds_since_1970());
}

void key_watch::tell_changes(double now) {
  std::pair of{keys_.rotation, keys_.rotates(now)};
  if (!told_ || of == told_of_)
    return;
  told_of_ = of;
  told_(keys_);
}

manager_keys key_watch::now() {
  std::lock_guard guard{mutex_};
  return keys_;
}

void key_watch::tell(listener told) {
  std::lock_guard guard{mutex_};
  told_ = std::move(told);
  told_of_ = {keys_.rotation, keys_.rotates(seconds_since_1970())};
  if (told_)
    told_(keys_);
}

/// Reads the file. Returns what is wrong with it; empty: nothing.
std::string key_watch::read() {
  auto text = where_.read(manager_key_file);
  if (!text)
    return text.why().what;
  auto path = where_.path_of(manager_key_file);
  if (!*text)
    return path + " is gone";
  if (**text == text_)
    return {};
  auto keys = parse_manager_keys(**text);
  if (!keys)
    return path + ": " + keys.why().what;
  keys_ = std::move(*keys);
  text_ = std::move(**text);
  return {};
}

} // namespace vgpu
