// Choices that a target makes by an input's bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

namespace vgpu::test {

/// Reads an input byte by byte. At its end each byte is 0.
class choices {
public:
  explicit choices(std::span<const std::uint8_t> from) : from_(from) {}

  bool over() const noexcept { return from_.empty(); }
  std::uint8_t byte() noexcept {
    if (from_.empty())
      return 0;
    auto out = from_.front();
    from_ = from_.subspan(1);
    return out;
  }
  std::size_t below(std::size_t n) noexcept { return byte() % n; }

  template <class List>
  const auto& one_of(const List& x) noexcept {
    return x[below(std::size(x))];
  }

private:
  std::span<const std::uint8_t> from_;
};

} // namespace vgpu::test
