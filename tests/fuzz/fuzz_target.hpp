// Declarations for every fuzz target.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

/// Tests one input. libFuzzer and replay_corpus.cpp call it. Returns 0.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size);

namespace vgpu::test {

inline std::span<const std::byte> as_bytes(const std::uint8_t* data,
                                           std::size_t size) {
  return {reinterpret_cast<const std::byte*>(data), size};
}

/// Returns the input as aligned words, without an incomplete last word.
inline std::vector<std::uint64_t> as_words(const std::uint8_t* data,
                                           std::size_t size) {
  std::vector<std::uint64_t> words(size / sizeof(std::uint64_t));
  if (!words.empty())
    std::memcpy(words.data(), data, words.size() * sizeof(std::uint64_t));
  return words;
}

} // namespace vgpu::test
