#include "schema/base/jit_settings.hpp"

#include <cstring>

namespace vgpu {

namespace {

// The bytes are 64-bit words: the numbers of options and of symbols, a word for
// each option, and for each symbol its address, its name's length and the name,
// filled up to whole words.
constexpr std::uint32_t most_options = 64;
constexpr std::uint32_t most_symbols = 1u << 16;
constexpr std::uint64_t longest_name = 1u << 16;

std::uint64_t pair(std::uint64_t low, std::uint64_t high) {
  return low | high << 32;
}

class word_writer {
public:
  void add(std::uint64_t word) {
    auto bytes = std::as_bytes(std::span{&word, 1});
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  void add(const std::string& text) {
    auto bytes = std::as_bytes(std::span{text});
    out_.insert(out_.end(), bytes.begin(), bytes.end());
    out_.resize((out_.size() + 7) / 8 * 8);
  }
  std::vector<std::byte> take() { return std::move(out_); }

private:
  std::vector<std::byte> out_;
};

/// Reads words until there are none left. Nothing is valid after that.
class word_reader {
public:
  explicit word_reader(std::span<const std::byte> from) : left_(from) {}

  std::uint64_t word() {
    std::uint64_t out = 0;
    if (left_.size() < sizeof(out)) {
      valid_ = false;
      return 0;
    }
    std::memcpy(&out, left_.data(), sizeof(out));
    left_ = left_.subspan(sizeof(out));
    return out;
  }
  std::string text(std::uint64_t bytes) {
    auto room = (bytes + 7) / 8 * 8;
    if (bytes > longest_name || room > left_.size()) {
      valid_ = false;
      return {};
    }
    std::string out(reinterpret_cast<const char*>(left_.data()),
                    static_cast<std::size_t>(bytes));
    left_ = left_.subspan(static_cast<std::size_t>(room));
    return out;
  }
  bool valid() const noexcept { return valid_; }

private:
  std::span<const std::byte> left_;
  bool valid_ = true;
};

} // namespace

std::vector<std::byte> encode(const jit_settings& x) {
  if (x.empty())
    return {};
  word_writer out;
  out.add(pair(x.options.size(), x.symbols.size()));
  for (const auto& [key, value] : x.options)
    out.add(pair(key, value));
  for (const auto& each : x.symbols) {
    out.add(each.address);
    out.add(std::uint64_t{each.name.size()});
    out.add(each.name);
  }
  return out.take();
}

result<jit_settings> decode_jit_settings(std::span<const std::byte> bytes) {
  jit_settings out;
  if (bytes.empty())
    return out;
  word_reader in{bytes};
  auto counts = in.word();
  auto options = static_cast<std::uint32_t>(counts);
  auto symbols = static_cast<std::uint32_t>(counts >> 32);
  if (options > most_options || symbols > most_symbols)
    return fault{fault_kind::corrupt, "too many options of a compiler"};
  for (std::uint32_t i = 0; i < options && in.valid(); ++i) {
    auto word = in.word();
    out.options.insert_or_assign(static_cast<std::uint32_t>(word),
                                 static_cast<std::uint32_t>(word >> 32));
  }
  for (std::uint32_t i = 0; i < symbols && in.valid(); ++i) {
    auto address = in.word();
    auto length = in.word();
    out.symbols.push_back({in.text(length), address});
  }
  if (!in.valid())
    return fault{fault_kind::corrupt, "options of a compiler are cut off"};
  return out;
}

} // namespace vgpu
