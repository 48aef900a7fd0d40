#include "devices/interface/fatbin.hpp"

#include "devices/interface/byte_reader.hpp"
#include "schema/base/cuda_fault.hpp"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace vgpu::device {

namespace {

using byte_span = std::span<const std::byte>;

constexpr std::uint32_t container_magic = 0xBA55ED50;
constexpr std::uint16_t kind_ptx = 1;
constexpr std::uint16_t kind_elf = 2;
constexpr std::uint64_t flag_lz4 = 0x2000;
constexpr std::uint64_t flag_zstd = 0x8000;
constexpr std::uint64_t flag_arch_specific = 0x100000;
// No real module holds more PTX than this, and a decompression bomb stops here.
constexpr std::uint64_t max_text = std::uint64_t{256} << 20;

fault bad_image(std::string why) {
  return cuda_fault(CUDA_ERROR_INVALID_IMAGE, "image: " + std::move(why));
}

/// Describes one image of a container.
struct entry {
  std::uint16_t kind = 0;
  std::uint32_t arch = 0;
  std::uint64_t flags = 0;
  std::uint64_t plain_size = 0; // 0: not compressed
  byte_span payload;
  std::string_view name;
};

result<std::string> unpack(const entry& x) {
  auto stored = reinterpret_cast<const char*>(x.payload.data());
  if ((x.flags & (flag_lz4 | flag_zstd)) == 0)
    return std::string{stored, x.payload.size()};
  if (x.plain_size > max_text)
    return bad_image("an entry claims to unpack to " +
                     std::to_string(x.plain_size) + " bytes");
  auto out = std::string(x.plain_size, '\0');
  if ((x.flags & flag_zstd) != 0) {
    auto got =
        ZSTD_decompress(out.data(), out.size(), stored, x.payload.size());
    if (ZSTD_isError(got) != 0 || got != out.size())
      return bad_image("a Zstandard entry is damaged");
  } else {
    auto got = LZ4_decompress_safe(stored, out.data(),
                                   static_cast<int>(x.payload.size()),
                                   static_cast<int>(out.size()));
    if (got < 0 || static_cast<std::size_t>(got) != out.size())
      return bad_image("an LZ4 entry is damaged");
  }
  return out;
}

/// Returns the name in an entry's header, or nothing where there is none.
std::string_view name_in(byte_span header) {
  auto at = read<std::uint32_t>(header, 0x20);
  auto size = read<std::uint32_t>(header, 0x24);
  if (!size || *at > header.size() || *size > header.size() - *at)
    return {};
  return {reinterpret_cast<const char*>(header.data()) + *at, *size};
}

result<entry> parse_entry(byte_span rest) {
  auto kind = read<std::uint16_t>(rest, 0);
  auto header = read<std::uint32_t>(rest, 4);
  auto stored = read<std::uint64_t>(rest, 8);
  auto packed = read<std::uint32_t>(rest, 0x10);
  auto arch = read<std::uint32_t>(rest, 0x1c);
  auto flags = read<std::uint64_t>(rest, 0x28);
  auto plain = read<std::uint64_t>(rest, 0x38);
  if (!plain || *header < 64 || *header > rest.size() ||
      *stored > rest.size() - *header)
    return bad_image("an entry goes past the container's end");
  if (*packed > *stored || *stored > (std::uint64_t{1} << 31) - 1)
    return bad_image("an entry's packed size is larger than the entry");
  auto payload = rest.subspan(*header, *packed != 0 ? *packed : *stored);
  return entry{*kind,  *arch,   *flags,
               *plain, payload, name_in(rest.first(*header))};
}

/// Tells whether an ELF cubin has code. A device-link cubin has none.
bool has_code(byte_span elf) {
  auto section_offset = read<std::uint64_t>(elf, 0x28);
  auto section_size = read<std::uint16_t>(elf, 0x3a);
  auto section_count = read<std::uint16_t>(elf, 0x3c);
  auto names_index = read<std::uint16_t>(elf, 0x3e);
  if (!names_index || *section_size < 64)
    return false;
  auto header = [&](std::uint64_t index, std::uint64_t field) {
    return *section_offset + index * *section_size + field;
  };
  auto names = read<std::uint64_t>(elf, header(*names_index, 0x18));
  if (!names)
    return false;
  for (auto i = std::uint64_t{0}; i < *section_count; ++i) {
    auto name = read<std::uint32_t>(elf, header(i, 0));
    if (!name)
      return false;
    auto text = read<std::array<char, 6>>(elf, *names + *name);
    if (text && std::string_view{text->data(), 6} == ".text.")
      return true;
  }
  return false;
}

bool is_elf(byte_span image) {
  auto magic = read<std::uint32_t>(image, 0);
  return magic && *magic == 0x464c457f;
}

bool is_container(byte_span image) {
  auto magic = read<std::uint32_t>(image, 0);
  return magic && *magic == container_magic;
}

fault no_ptx() {
  return cuda_fault(
      CUDA_ERROR_NO_BINARY_FOR_GPU,
      "image: it holds machine code but no PTX that this device can run; "
      "compile with a virtual architecture (nvcc -gencode "
      "arch=compute_75,code=compute_75)");
}

/// Ranks an entry for an architecture. Higher is better, and 0 cannot be used.
std::uint32_t rank(const entry& x, unsigned arch) {
  if (x.kind != kind_ptx || x.arch > arch)
    return 0;
  auto specific = (x.flags & flag_arch_specific) != 0;
  if (specific && x.arch != arch)
    return 0;
  return x.arch * 2 + (specific ? 0u : 1u);
}

/// Calls `f` with each entry until it returns a fault.
template <class F>
status each_entry(byte_span image, F f) {
  auto header = read<std::uint16_t>(image, 6);
  auto size = read<std::uint64_t>(image, 8);
  if (!size || *header < 16 || *header > image.size() ||
      *size > image.size() - *header)
    return bad_image("the fatbin container is cut short");
  auto rest = image.subspan(*header, *size);
  while (rest.size() >= 64) {
    auto next = parse_entry(rest);
    if (!next)
      return next.why();
    if (auto ok = f(*next); !ok)
      return ok;
    auto header_size = *read<std::uint32_t>(rest, 4);
    auto payload_size = *read<std::uint64_t>(rest, 8);
    rest = rest.subspan(header_size + payload_size);
  }
  return {};
}

/// Holds the parts of a container that are used here.
struct content {
  std::optional<std::string> ptx;
  bool code = false; // machine code for any device, or PTX
  /// The container is libcudadevrt, which has machine code only.
  bool device_runtime = false;
};

result<content> read_container(byte_span image, unsigned arch) {
  auto best = std::optional<entry>{};
  auto out = content{};
  auto ok = each_entry(image, [&](const entry& next) -> status {
    if (next.kind == kind_elf && !out.code) {
      auto elf = unpack(next);
      if (!elf)
        return elf.why();
      out.code = has_code(std::as_bytes(std::span{*elf}));
      out.device_runtime = elf->find(".text.__cudaCDP") != elf->npos;
    }
    out.code = out.code || next.kind == kind_ptx;
    if (rank(next, arch) > (best ? rank(*best, arch) : 0u))
      best = next;
    return {};
  });
  if (!ok)
    return ok.why();
  if (best) {
    auto text = unpack(*best);
    if (!text)
      return text.why();
    out.ptx = std::move(*text);
  }
  return out;
}

/// Returns the PTX texts of the whole or, where it has none, of the parts that
/// it was linked from.
result<std::vector<std::string>> ptx_of_containers(byte_span image,
                                                   unsigned arch) {
  auto whole = read_container(image, arch);
  if (!whole)
    return whole.why();
  auto out = std::vector<std::string>{};
  if (whole->ptx) {
    out.push_back(std::move(*whole->ptx));
    return out;
  }
  auto all = containers_of(image);
  auto total = std::uint64_t{0};
  for (auto i = std::size_t{1}; i < all.size(); ++i) {
    auto part = read_container(all[i], arch);
    if (!part)
      return part.why();
    // Lowering refuses a program that calls the device's runtime, by name.
    if (!part->ptx && part->device_runtime)
      continue;
    if (!part->ptx && part->code)
      return no_ptx();
    if (!part->ptx)
      continue;
    total += part->ptx->size();
    if (total > max_text)
      return bad_image("its parts unpack to more than " +
                       std::to_string(max_text) + " bytes");
    out.push_back(std::move(*part->ptx));
  }
  if (out.empty() && whole->code)
    return no_ptx();
  return out;
}

/// Tells whether text begins, after blanks and comments, with a PTX directive.
bool looks_like_ptx(std::string_view text) {
  while (!text.empty()) {
    auto at = text.find_first_not_of(" \t\r\n");
    if (at == text.npos)
      return false;
    text.remove_prefix(at);
    auto behind = std::size_t{0};
    if (text.starts_with("//")) {
      at = text.find('\n');
      behind = 1;
    } else if (text.starts_with("/*")) {
      at = text.find("*/", 2);
      behind = 2;
    } else {
      return text.starts_with(".version");
    }
    if (at == text.npos)
      return false;
    text.remove_prefix(at + behind);
  }
  return false;
}

} // namespace

result<std::vector<std::string>> ptx_of(byte_span image, unsigned arch) {
  if (is_container(image))
    return ptx_of_containers(image, arch);
  auto out = std::vector<std::string>{};
  if (is_elf(image)) {
    if (has_code(image))
      return no_ptx();
    return out;
  }
  auto text = std::string_view{reinterpret_cast<const char*>(image.data()),
                               image.size()};
  if (!looks_like_ptx(text))
    return bad_image("neither a fatbin, a cubin nor PTX text");
  out.emplace_back(text);
  return out;
}

std::vector<byte_span> containers_of(byte_span image) {
  auto out = std::vector<byte_span>{};
  for (auto rest = image;;) {
    auto magic = read<std::uint32_t>(rest, 0);
    auto header = read<std::uint16_t>(rest, 6);
    auto size = read<std::uint64_t>(rest, 8);
    if (!size || *magic != container_magic || *header < 16 ||
        *header > rest.size() || *size > rest.size() - *header)
      return out;
    auto whole = *header + *size;
    out.push_back(rest.first(whole));
    rest =
        rest.subspan(std::min<std::uint64_t>(rest.size(), (whole + 7) / 8 * 8));
  }
}

namespace {

using image_parts = std::vector<image_part>;

/// Returns the PTX and machine code of all containers for which `wanted` is
/// true.
template <class F>
result<image_parts> unpack_all(byte_span image, F wanted) {
  using form = image_part::form;
  image_parts out;
  for (auto& container : containers_of(image)) {
    auto ok = each_entry(container, [&](const entry& next) -> status {
      if ((next.kind != kind_elf && next.kind != kind_ptx) || !wanted(next))
        return {};
      auto code = unpack(next);
      if (!code)
        return code.why();
      out.push_back({next.kind == kind_elf ? form::elf : form::ptx,
                     std::move(*code), std::string{next.name}});
      return {};
    });
    if (!ok)
      return ok.why();
  }
  return out;
}

} // namespace

result<image_parts> parts_of(byte_span image) {
  using form = image_part::form;
  if (is_container(image))
    return unpack_all(image, [](auto&) { return true; });
  auto text = reinterpret_cast<const char*>(image.data());
  return image_parts{
      {is_elf(image) ? form::elf : form::ptx, std::string{text, image.size()}}};
}

result<image_parts> parts_for(byte_span image, unsigned arch) {
  if (!is_container(image))
    return parts_of(image);
  auto exact = unpack_all(
      image, [arch](auto& x) { return x.kind == kind_elf && x.arch == arch; });
  // The code for linking on the device names nothing.
  auto named = exact && std::ranges::any_of(*exact, [](auto& x) {
                 return has_code(std::as_bytes(std::span{x.code}));
               });
  return named || !exact ? std::move(exact) : parts_of(image);
}

} // namespace vgpu::device
