#include "nodes/cli/shown_output.hpp"

#include "actors/link/printable.hpp"

#include <string_view>

namespace vgpu {

namespace {

/// Gives the number of bytes that wait for a flush.
constexpr std::size_t most_waiting = 8192;

} // namespace

shown_output::shown_output(std::ostream& of) : of_(of), to_(of.rdbuf(this)) {}

shown_output::~shown_output() {
  write(true);
  of_.rdbuf(to_);
  to_->pubsync();
}

shown_output::int_type shown_output::overflow(int_type one) {
  if (!traits_type::eq_int_type(one, traits_type::eof())) {
    auto c = traits_type::to_char_type(one);
    (void)xsputn(&c, 1);
  }
  return traits_type::not_eof(one);
}

std::streamsize shown_output::xsputn(const char* text, std::streamsize length) {
  waiting_.append(text, static_cast<std::size_t>(length));
  // Streams that flush after each write do so by calling sync().
  if (waiting_.size() >= most_waiting)
    write(false);
  return length;
}

int shown_output::sync() {
  write(true);
  return to_->pubsync();
}

/// Writes what waits. Unless `all`, a character that is not finished stays.
void shown_output::write(bool all) {
  auto bytes = waiting_.size() - (all ? 0 : unfinished(waiting_));
  auto text = shown(std::string_view{waiting_}.substr(0, bytes), "\n\t");
  waiting_.erase(0, bytes);
  to_->sputn(text.data(), static_cast<std::streamsize>(text.size()));
}

} // namespace vgpu
