#include "schema/base/own_environment.hpp"

#include <cerrno>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <sys/auxv.h>
#include <unistd.h>

namespace vgpu {

namespace {

/// Reads the block of memory in which the kernel put the environment.
std::string read_block() {
  std::string out;
  auto file = ::open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return out;
  char part[4096];
  for (;;) {
    auto n = ::read(file, part, sizeof(part));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      break;
    out.append(part, static_cast<std::size_t>(n));
  }
  ::close(file);
  return out;
}

std::vector<std::string_view> entries_of(std::string_view block) {
  std::vector<std::string_view> out;
  while (!block.empty()) {
    auto end = block.find('\0');
    // Only a whole entry has an end, which a C string needs.
    if (end == std::string_view::npos)
      break;
    if (end != 0)
      out.push_back(block.substr(0, end));
    block.remove_prefix(end + 1);
  }
  return out;
}

/// Keeps the block and its entries, which refer to it.
struct kept_block {
  kept_block() = default;
  kept_block(const kept_block&) = delete;
  kept_block& operator=(const kept_block&) = delete;

  const std::string text = read_block();
  const std::vector<std::string_view> entries = entries_of(text);
};

} // namespace

const std::vector<std::string_view>& first_environment() noexcept {
  // Nothing destroys it, because threads may ask while the process exits.
  static const auto& first = *new kept_block;
  return first.entries;
}

const char* setting(const char* name) noexcept {
  if (::getauxval(AT_SECURE) != 0)
    return nullptr;
  if (const auto* text = std::getenv(name); text != nullptr)
    return text;
  std::string_view wanted{name};
  for (auto x : first_environment())
    if (x.size() > wanted.size() && x[wanted.size()] == '=' &&
        x.starts_with(wanted))
      return x.data() + wanted.size() + 1;
  return nullptr;
}

} // namespace vgpu
