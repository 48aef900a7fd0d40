#include "interposer/session/driver_log.hpp"

#include "interposer/session/session_part.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#include <pthread.h>

namespace vgpu::interposer {

namespace {

constexpr std::string_view lost_words =
    "Log buffer has rolled over since the previous dump. The oldest messages "
    "will be missing\n";
constexpr std::string_view full_words =
    "The provided buffer is not large enough to hold all messages. Some "
    "messages will be missing\n";

/// Set while a callback runs. Errors of the callback's own calls go to no
/// callback.
thread_local bool telling = false;

std::string line_of(CUlogLevel level, std::string_view message) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  ::localtime_r(&now.tv_sec, &parts);
  std::array<char, 80> head{};
  std::snprintf(head.data(), head.size(),
                "[%02d:%02d:%02d.%03ld][%lu][CUDA][%c] ", parts.tm_hour,
                parts.tm_min, parts.tm_sec, now.tv_nsec / 1'000'000,
                static_cast<unsigned long>(::pthread_self()),
                level == CU_LOG_LEVEL_ERROR ? 'E' : 'W');
  return std::string{head.data()}.append(message).append("\n");
}

} // namespace

void driver_log::add(CUlogLevel level, std::string_view text) {
  std::string message{text.substr(0, longest_message)};
  {
    std::lock_guard guard{mutex_};
    lines_.push_back(line_of(level, message));
    if (lines_.size() > most_messages) {
      lines_.pop_front();
      ++first_;
    }
  }
  tell(level, message);
}

void driver_log::tell(CUlogLevel level, const std::string& message) {
  if (telling)
    return;
  decltype(callbacks_) all;
  {
    std::lock_guard guard{mutex_};
    all = callbacks_;
  }
  telling = true;
  for (auto& [handle, x] : all) {
    // The callback may write to its copy.
    auto copy = message;
    x.call(x.data, level, copy.data(), copy.size());
  }
  telling = false;
}

std::optional<driver_log::excerpt> driver_log::read(CUlogIterator first,
                                                    std::size_t room) const {
  std::lock_guard guard{mutex_};
  auto next = first_ + static_cast<CUlogIterator>(lines_.size());
  if (first > next)
    return std::nullopt;
  std::string_view ahead = first < first_ ? lost_words : std::string_view{};
  auto from = lines_.begin() + (std::max(first, first_) - first_);
  auto bytes_from = [&](auto i) {
    auto sum = ahead.size();
    for (; i != lines_.end(); ++i)
      sum += i->size();
    return sum;
  };
  if (bytes_from(from) > room)
    ahead = full_words;
  while (from != lines_.end() && bytes_from(from) > room)
    ++from;
  if (ahead == full_words && from == lines_.end())
    return std::nullopt;
  excerpt out{std::string{ahead}, next};
  for (; from != lines_.end(); ++from)
    out.text += *from;
  return out;
}

CUlogIterator driver_log::end() const {
  std::lock_guard guard{mutex_};
  return first_ + static_cast<CUlogIterator>(lines_.size());
}

CUlogsCallbackHandle driver_log::add_callback(CUlogsCallback call, void* data) {
  std::lock_guard guard{mutex_};
  callbacks_[++last_callback_] = {call, data};
  return reinterpret_cast<CUlogsCallbackHandle>(last_callback_);
}

bool driver_log::remove_callback(CUlogsCallbackHandle handle) {
  std::lock_guard guard{mutex_};
  return callbacks_.erase(reinterpret_cast<std::uintptr_t>(handle)) != 0;
}

driver_log& the_driver_log() noexcept {
  return session_part::get().log;
}

} // namespace vgpu::interposer
