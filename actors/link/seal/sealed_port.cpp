#include "actors/link/seal/sealed_port.hpp"

#include <openssl/crypto.h>

namespace vgpu {

namespace {

constexpr std::string_view holder = "ticket/";

} // namespace

std::uint64_t sealed_tickets::permit(const seal_ticket& ticket) {
  std::lock_guard guard{mutex_};
  ticket_ = text_of(ticket);
  return ++number_;
}

std::optional<std::uint64_t> sealed_tickets::use(std::string_view shown) {
  std::lock_guard guard{mutex_};
  if (ticket_.empty() || shown.size() != ticket_.size() ||
      CRYPTO_memcmp(shown.data(), ticket_.data(), ticket_.size()) != 0)
    return std::nullopt;
  ticket_.clear();
  return number_;
}

std::string ticket_holder(std::uint64_t number) {
  return std::string{holder} + std::to_string(number);
}

bool is_ticket_holder(std::string_view name) noexcept {
  return name.starts_with(holder);
}

} // namespace vgpu
