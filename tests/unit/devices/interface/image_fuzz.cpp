// Damages PTX texts and fatbins in many ways and loads them. The loader must
// refuse or accept them, and never crash. Sanitizers find faults that would not
// show as a crash.
//
// Usage: image_fuzz ITERATIONS FIRST_SEED FILE...
#include "devices/cpu/lower/lowering.hpp"
#include "devices/cpu/ptx/ptx_link.hpp"
#include "devices/cpu/ptx/ptx_parser.hpp"
#include "devices/interface/fatbin.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace vgpu::device::cpu;

/// Returns whether the image was accepted.
bool load(const std::string& image) {
  auto texts = vgpu::device::ptx_of(std::as_bytes(std::span{image}), 90);
  if (!texts)
    return false;
  try {
    auto parts = std::vector<ptx::module>{};
    for (auto& text : *texts)
      parts.push_back(ptx::parse(text));
    auto m = ptx::link(std::move(parts));
    auto addresses = symbol_addresses{};
    for (auto& v : m.variables)
      addresses[v.name] = 4096;
    lower(m, addresses);
    return true;
  } catch (const ptx::syntax_error&) {
    return false;
  }
}

class mutator {
public:
  explicit mutator(std::uint64_t seed) : random_{seed} {}

  std::string operator()(std::string x, const std::string& other) {
    auto count = 1 + below(4);
    for (auto i = std::size_t{0}; i < count && !x.empty(); ++i)
      once(x, other);
    return x;
  }

private:
  std::size_t below(std::size_t n) { return n == 0 ? 0 : random_() % n; }

  void once(std::string& x, const std::string& other) {
    static const char* const words[] = {"{",
                                        "}",
                                        "[",
                                        "]",
                                        "(",
                                        ")",
                                        ",",
                                        ";",
                                        "@",
                                        "!",
                                        "-",
                                        "+",
                                        ".",
                                        "%r1",
                                        "%rd1",
                                        "%p1",
                                        "%f1",
                                        "_",
                                        "0xffffffffffffffff",
                                        "0f",
                                        "ld.param.u64",
                                        ".v4",
                                        ".reg .b64 %rd<9999999>",
                                        ".align 3",
                                        "call",
                                        ".func",
                                        "\"",
                                        "9999999999",
                                        ".shared",
                                        ".local",
                                        "cvt.s8.f64",
                                        "mov.b64"};
    auto at = below(x.size());
    auto size = std::min(below(64) + 1, x.size() - at);
    switch (below(6)) {
    case 0:
      x[at] = static_cast<char>(random_());
      break;
    case 1:
      x.erase(at, size);
      break;
    case 2:
      x.insert(below(x.size()), x.substr(at, size));
      break;
    case 3: {
      auto from = below(other.size());
      x.insert(at, other.substr(from, size));
      break;
    }
    case 4:
      x.insert(at, words[below(std::size(words))]);
      break;
    default:
      x.resize(at);
      break;
    }
  }

  std::mt19937_64 random_;
};

} // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: image_fuzz ITERATIONS FIRST_SEED FILE...\n");
    return 2;
  }
  auto seeds = std::vector<std::string>{};
  for (auto i = 3; i < argc; ++i) {
    auto in = std::ifstream{argv[i], std::ios::binary};
    seeds.emplace_back(std::istreambuf_iterator<char>{in},
                       std::istreambuf_iterator<char>{});
    if (!load(seeds.back())) {
      std::fprintf(stderr, "%s is refused as it is\n", argv[i]);
      return 1;
    }
  }
  auto count = std::strtoull(argv[1], nullptr, 10);
  auto first = std::strtoull(argv[2], nullptr, 10);
  auto accepted = 0ull;
  for (auto seed = first; seed < first + count; ++seed) {
    auto& a = seeds[seed % seeds.size()];
    auto& b = seeds[(seed / seeds.size()) % seeds.size()];
    accepted += load(mutator{seed}(a, b)) ? 1 : 0;
  }
  std::printf("%llu images, %llu accepted\n", count, accepted);
  return 0;
}
