// Texts that live as long as the process.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>

namespace vgpu::interposer {

/// Keeps one copy of each text. Not thread-safe.
class text_store {
public:
  const char* keep(std::string_view text) {
    return texts_.emplace(text).first->c_str();
  }

private:
  // A node of a set never moves.
  std::unordered_set<std::string> texts_;
};

} // namespace vgpu::interposer
