#include "devices/nvidia/driver/image_names.hpp"

#include "devices/interface/byte_reader.hpp"
#include "devices/interface/fatbin.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

namespace vgpu::device::nvidia {

namespace {

using byte_span = std::span<const std::byte>;

/// Returns the text at `at`, up to its NUL.
std::string_view text_at(byte_span from, std::uint64_t at) {
  if (at >= from.size())
    return {};
  auto all = std::string_view{reinterpret_cast<const char*>(from.data()) + at,
                              from.size() - at};
  auto end = all.find('\0');
  return end == all.npos ? std::string_view{} : all.substr(0, end);
}

// -- ELF ----------------------------------------------------------------------

constexpr std::uint32_t symbol_table = 2; // sh_type
constexpr unsigned object = 1;            // st_info

struct section {
  std::uint32_t type = 0, link = 0;
  std::uint64_t offset = 0, size = 0;
};

std::optional<section> section_of(byte_span elf, std::uint64_t index) {
  auto table = read<std::uint64_t>(elf, 0x28);
  auto each = read<std::uint16_t>(elf, 0x3a);
  auto count = read<std::uint16_t>(elf, 0x3c);
  if (!count || index >= *count || *table > elf.size())
    return std::nullopt;
  auto at = *table + index * *each;
  auto type = read<std::uint32_t>(elf, at + 4);
  auto offset = read<std::uint64_t>(elf, at + 0x18);
  auto size = read<std::uint64_t>(elf, at + 0x20);
  auto link = read<std::uint32_t>(elf, at + 0x28);
  if (!type || !offset || !size || !link)
    return std::nullopt;
  return section{*type, *link, *offset, *size};
}

void add_elf(byte_span elf, image_names& to) {
  for (std::uint64_t i = 0;; ++i) {
    auto table = section_of(elf, i);
    if (!table)
      return;
    if (table->type != symbol_table)
      continue;
    auto names = section_of(elf, table->link);
    if (!names)
      continue;
    constexpr std::uint64_t entry = 24;
    for (std::uint64_t at = 0; at + entry <= table->size; at += entry) {
      auto name = read<std::uint32_t>(elf, table->offset + at);
      auto info = read<std::uint8_t>(elf, table->offset + at + 4);
      if (!name || !info)
        break;
      auto text = text_at(elf, names->offset + *name);
      if (text == "vprintf")
        to.prints = true;
      if (text == "malloc")
        to.allocates = true;
      if ((*info & 15u) == object && !text.empty())
        to.variables.emplace(text);
    }
  }
}

// -- PTX ----------------------------------------------------------------------

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_' || c == '$' || c == '.' || c == '%';
}

/// Splits PTX text into words and punctuation, without comments.
class ptx_words {
public:
  explicit ptx_words(std::string_view text) : rest_(text) {}

  /// Returns the next word, which is empty at the end of the text.
  std::string_view next() {
    skip();
    if (rest_.empty() || rest_.front() == '\0')
      return {};
    std::size_t n = 1;
    if (rest_.front() == '"') {
      n = rest_.find('"', 1);
      n = n == rest_.npos ? rest_.size() : n + 1;
    } else if (is_name(rest_.front())) {
      while (n < rest_.size() && is_name(rest_[n]))
        ++n;
    }
    auto out = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return out;
  }

private:
  void skip() {
    for (;;) {
      auto at = rest_.find_first_not_of(" \t\r\n");
      rest_.remove_prefix(std::min(at, rest_.size()));
      const char* end = rest_.starts_with("//")   ? "\n"
                        : rest_.starts_with("/*") ? "*/"
                                                  : nullptr;
      if (end == nullptr)
        return;
      at = rest_.find(end, 2);
      rest_.remove_prefix(at == rest_.npos ? rest_.size() : at + 1);
      if (*end == '*' && !rest_.empty())
        rest_.remove_prefix(1);
    }
  }

  std::string_view rest_;
};

/// Adds the variables of module scope. A variable's name is the last word
/// before the array's brackets, the initial value or the end of its
/// declaration.
void add_ptx(std::string_view text, image_names& to) {
  ptx_words words{text};
  auto depth = 0;
  auto variable = false;
  std::string_view last;
  for (auto word = words.next(); !word.empty(); word = words.next()) {
    if (word == "vprintf")
      to.prints = true;
    if (word == "malloc")
      to.allocates = true;
    if (word == "{")
      ++depth;
    else if (word == "}")
      --depth;
    if (depth != 0)
      continue;
    if (word == ".global" || word == ".const") {
      variable = true;
      last = {};
    } else if (variable &&
               (word == "[" || word == "=" || word == ";" || word == ",")) {
      if (!last.empty() && last.front() != '.')
        to.variables.emplace(last);
      variable = false;
    } else {
      last = word;
    }
  }
}

} // namespace

image_names names_of(std::span<const std::byte> image, unsigned arch) {
  image_names out;
  auto parts = parts_for(image, arch);
  if (!parts)
    return out;
  for (auto& part : *parts) {
    if (part.kind == image_part::form::elf)
      add_elf(std::as_bytes(std::span{part.code}), out);
    else
      add_ptx(part.code, out);
  }
  return out;
}

} // namespace vgpu::device::nvidia
