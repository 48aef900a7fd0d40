// Damages inputs of fuzz targets, for compilers without libFuzzer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace vgpu::test {

using fuzz_input = std::vector<std::uint8_t>;

/// Makes new inputs from those of a corpus. The same seed makes the same input
/// on every machine. Not thread-safe.
class mutator {
public:
  /// Precondition: the corpus has an input.
  explicit mutator(std::vector<fuzz_input> corpus)
      : corpus_{std::move(corpus)} {}

  /// Returns an input of at most largest_input bytes.
  fuzz_input make(std::uint64_t seed);

  static constexpr std::size_t largest_input = 65'536;

private:
  std::size_t below(std::size_t n);
  const fuzz_input& any() { return corpus_[below(corpus_.size())]; }
  void once(fuzz_input& x);
  void put_number(fuzz_input& x);
  void put_digits(fuzz_input& x);
  void move_part(fuzz_input& x);
  void nest(fuzz_input& x);

  std::vector<fuzz_input> corpus_;
  std::mt19937_64 random_;
};

} // namespace vgpu::test
