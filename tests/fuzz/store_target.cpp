// Opens a manager's store of damaged lines whose checksums are right.
#include "actors/link/log.hpp"
#include "actors/manager/cluster/store.hpp"
#include "fuzz_target.hpp"

#include <xxhash.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <unistd.h>

using namespace vgpu;

namespace {

/// A folder in memory, which ends with the process.
struct own_folder {
  std::string path = "/dev/shm/vgpu-fuzz-store-XXXXXX";
  own_folder() {
    if (::mkdtemp(path.data()) == nullptr)
      std::abort();
  }
  ~own_folder() { std::filesystem::remove_all(path); }
};

std::string signed_lines(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    std::array<char, 20> sum{};
    std::snprintf(
        sum.data(), sum.size(), "%016llx ",
        static_cast<unsigned long long>(XXH3_64bits(line.data(), line.size())));
    out += std::string{sum.data()} + std::string{line} + "\n";
  }
  return out;
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const own_folder folder;
  spdlog::set_level(spdlog::level::off);
  auto path = folder.path + "/store";
  std::ofstream{path, std::ios::binary}
      << signed_lines({reinterpret_cast<const char*>(data), size});
  auto first = store::open(path);
  if (!first)
    std::abort();
  auto& before = (*first)->state();
  auto bill =
      before.usage.summary(0, "vgpu", 1e9)
          .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  auto sessions = before.sessions.size();
  auto events = before.events.size();
  first->reset();
  // What was written in its place is whole, and means the same.
  auto second = store::open(path);
  if (!second || (*second)->state().damaged != 0 ||
      (*second)->state().sessions.size() != sessions ||
      (*second)->state().events.size() != events)
    std::abort();
  return bill.empty() ? 1 : 0;
}
