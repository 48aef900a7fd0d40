#include "interposer/code/image.hpp"

#include "schema/base/cuda_fault.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include <elf.h>
#include <sys/uio.h>
#include <unistd.h>

namespace vgpu::interposer {

namespace {

constexpr std::uint32_t wrapper_magic = 0x466243B1;
constexpr std::uint32_t elf_magic = 0x464C457F;
constexpr std::uint64_t page = 4096;
/// No image is larger than this.
constexpr std::uint64_t largest = std::uint64_t{4} << 30;

struct wrapper {
  std::uint32_t magic;
  std::uint32_t version;
  const void* data;
  const void* prelinked;
};

struct container {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t header_bytes;
  // Counts the bytes after the header.
  std::uint64_t bytes;
};

fault invalid(std::string why) {
  return cuda_fault(CUDA_ERROR_INVALID_IMAGE,
                    "not a GPU image: " + std::move(why));
}

/// Copies a value from `at`; images need not be aligned.
template <class T>
T read(const void* at) noexcept {
  T out;
  std::memcpy(&out, at, sizeof(out));
  return out;
}

/// Tells whether an image begins with a magic number. It reads no byte after
/// the first difference, because a text may be shorter.
bool begins_with(const void* at, std::uint32_t magic,
                 std::uint64_t limit) noexcept {
  const auto* bytes = static_cast<const std::uint8_t*>(at);
  for (std::uint64_t i = 0; i < sizeof(magic); ++i)
    if (i >= limit || !is_readable(bytes + i, 1) ||
        bytes[i] != static_cast<std::uint8_t>(magic >> (8 * i)))
      return false;
  return true;
}

bool fits(const void* at, std::uint64_t bytes, std::uint64_t limit) noexcept {
  return bytes <= limit && bytes <= largest && is_readable(at, bytes);
}

image_view view(image_kind kind, const void* at, std::uint64_t bytes) {
  return {.kind = kind, .bytes = {static_cast<const std::byte*>(at), bytes}};
}

result<image_view> view_container(const void* at, std::uint64_t limit) {
  if (!fits(at, sizeof(container), limit))
    return invalid("a fatbin whose header is truncated");
  auto head = read<container>(at);
  if (head.header_bytes < sizeof(container) || head.bytes > largest)
    return invalid("a fatbin with an invalid header");
  auto bytes = head.header_bytes + head.bytes;
  if (!fits(at, bytes, limit))
    return invalid("a truncated fatbin");
  return view(image_kind::fatbin, at, bytes);
}

/// Appends the containers of the parts of a linked program, which the driver
/// links again where the whole has no code for a device. `list` ends with null.
result<image_view> join(const image_view& whole, const void* const* list) {
  constexpr std::size_t most_parts = 4096;
  constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();
  auto all = std::make_shared<std::vector<std::byte>>();
  auto append = [&](std::span<const std::byte> part) {
    all->resize((all->size() + 7) / 8 * 8);
    all->insert(all->end(), part.begin(), part.end());
  };
  append(whole.bytes);
  for (std::size_t i = 0; i < most_parts; ++i) {
    if (!is_readable(list + i, sizeof(*list)))
      return invalid("a fatbin's truncated list of parts");
    const auto* part = read<const void*>(list + i);
    if (part == nullptr) {
      if (i == 0)
        return whole;
      return image_view{.kind = whole.kind, .bytes = *all, .joined = all};
    }
    if (!is_readable(part, sizeof(container)) ||
        read<std::uint32_t>(part) != container_magic)
      return invalid("an entry of a fatbin's list of parts is no fatbin");
    auto one = view_container(part, unlimited);
    if (!one)
      return one;
    append(one->bytes);
  }
  return invalid("a fatbin with too many parts");
}

result<image_view> view_linked(const void* at, std::uint64_t limit) {
  if (!fits(at, sizeof(linked_header), limit))
    return invalid("a linked image whose header is truncated");
  auto head = read<linked_header>(at);
  const auto* behind = static_cast<const std::byte*>(at) + sizeof(head);
  if (!fits(behind, head.bytes, limit - sizeof(head)) ||
      head.settings > head.bytes)
    return invalid("a truncated linked image");
  if (head.version != linked_header::the_version)
    return invalid("a linked image of another version; link it again");
  auto out = view(image_kind::fatbin, behind + head.settings,
                  head.bytes - head.settings);
  out.settings = {behind, static_cast<std::size_t>(head.settings)};
  return out;
}

/// Returns the end of a table of `count` entries, or 0 where that overflows.
std::uint64_t table_end(std::uint64_t offset, std::uint64_t count,
                        std::uint64_t entry) noexcept {
  return offset > largest ? 0 : offset + count * entry;
}

/// Finds the end of an ELF file: the last of its tables, sections and segments.
result<image_view> view_elf(const void* at, std::uint64_t limit) {
  if (!fits(at, sizeof(Elf64_Ehdr), limit))
    return invalid("a cubin whose header is truncated");
  auto head = read<Elf64_Ehdr>(at);
  if (head.e_ident[EI_CLASS] != ELFCLASS64 ||
      (head.e_shnum != 0 && head.e_shentsize < sizeof(Elf64_Shdr)) ||
      (head.e_phnum != 0 && head.e_phentsize < sizeof(Elf64_Phdr)))
    return invalid("an ELF file that is not a cubin");
  auto sections = table_end(head.e_shoff, head.e_shnum, head.e_shentsize);
  auto segments = table_end(head.e_phoff, head.e_phnum, head.e_phentsize);
  if ((head.e_shnum != 0 && sections == 0) ||
      (head.e_phnum != 0 && segments == 0))
    return invalid("a cubin with invalid offsets");
  auto end = std::max({sections, segments, std::uint64_t{sizeof(head)}});
  if (!fits(at, end, limit))
    return invalid("a truncated cubin");
  const auto* base = static_cast<const std::byte*>(at);
  for (unsigned i = 0; i < head.e_shnum; ++i) {
    auto s = read<Elf64_Shdr>(base + head.e_shoff + i * head.e_shentsize);
    if (s.sh_type == SHT_NOBITS || s.sh_type == SHT_NULL)
      continue;
    if (s.sh_offset > largest || s.sh_size > largest)
      return invalid("a cubin with an invalid section");
    end = std::max(end, s.sh_offset + s.sh_size);
  }
  for (unsigned i = 0; i < head.e_phnum; ++i) {
    auto p = read<Elf64_Phdr>(base + head.e_phoff + i * head.e_phentsize);
    if (p.p_offset > largest || p.p_filesz > largest)
      return invalid("a cubin with an invalid segment");
    end = std::max(end, p.p_offset + p.p_filesz);
  }
  if (!fits(at, end, limit))
    return invalid("a truncated cubin");
  return view(image_kind::cubin, at, end);
}

/// Returns the length of the text without its NUL, or `limit` where none comes
/// before.
std::uint64_t text_length(const char* text, std::uint64_t limit) noexcept {
  std::uint64_t n = 0;
  while (n < limit && n < largest) {
    // Page by page, so that text without a NUL ends where the memory does.
    auto address = reinterpret_cast<std::uintptr_t>(text + n);
    auto chunk = std::min(page - address % page, limit - n);
    if (!is_readable(text + n, chunk))
      return n;
    if (const auto* nul =
            static_cast<const char*>(std::memchr(text + n, 0, chunk));
        nul != nullptr)
      return static_cast<std::uint64_t>(nul - text);
    n += chunk;
  }
  return n;
}

/// Tells whether a text is PTX: it begins with `.version`, after blanks and
/// comments.
bool looks_like_ptx(std::string_view text) {
  for (;;) {
    auto begin = text.find_first_not_of(" \t\r\n\f\v");
    if (begin == std::string_view::npos)
      return false;
    text.remove_prefix(begin);
    if (text.starts_with(".version"))
      return true;
    auto end = std::string_view::npos;
    if (text.starts_with("//"))
      end = text.find('\n');
    else if (text.starts_with("/*"))
      end = text.find("*/", 2);
    if (end == std::string_view::npos)
      return false;
    text.remove_prefix(end + (text[end] == '*' ? 2 : 1));
  }
}

result<image_view> view_text(const void* at, std::uint64_t limit) {
  const auto* text = static_cast<const char*>(at);
  auto length = text_length(text, limit);
  if (!looks_like_ptx({text, length}))
    return invalid("it is neither a fatbin, nor a cubin, nor PTX");
  return view(image_kind::ptx, at, length);
}

} // namespace

bool is_readable(const void* at, std::uint64_t bytes) noexcept {
  if (bytes == 0)
    return true;
  auto begin = reinterpret_cast<std::uintptr_t>(at);
  if (begin + bytes < begin)
    return false;
  // The kernel reads one byte of each page, and returns an error where this
  // process would get a signal.
  std::array<iovec, 512> from;
  std::array<char, 512> sink;
  for (auto p = begin; p < begin + bytes;) {
    std::size_t n = 0;
    for (; n < from.size() && p < begin + bytes; ++n) {
      from[n] = {reinterpret_cast<void*>(p), 1};
      p = p / page * page + page;
    }
    iovec to{sink.data(), n};
    auto got = ::process_vm_readv(::getpid(), &to, 1, from.data(), n, 0);
    if (got < 0)
      // The process may not make this call, so the pointer is trusted.
      return errno != EFAULT;
    if (static_cast<std::size_t>(got) != n)
      return false;
  }
  return true;
}

result<image_view> view_image(const void* image, std::uint64_t limit) {
  if (image == nullptr)
    return cuda_fault(CUDA_ERROR_INVALID_VALUE, "the image is null");
  if (!fits(image, 1, limit))
    return invalid("the memory is not readable");
  if (begins_with(image, wrapper_magic, limit)) {
    if (!fits(image, sizeof(wrapper), limit))
      return invalid("a fatbin's truncated wrapper");
    auto outer = read<wrapper>(image);
    if (!is_readable(outer.data, sizeof(container)) ||
        read<std::uint32_t>(outer.data) != container_magic)
      return invalid("a fatbin's wrapper does not contain a fatbin");
    auto whole =
        view_container(outer.data, std::numeric_limits<std::uint64_t>::max());
    // The version of a linked program's wrapper
    constexpr std::uint32_t linked = 2;
    if (!whole || outer.version != linked || outer.prelinked == nullptr)
      return whole;
    return join(*whole, static_cast<const void* const*>(outer.prelinked));
  }
  if (begins_with(image, container_magic, limit))
    return view_container(image, limit);
  if (begins_with(image, elf_magic, limit))
    return view_elf(image, limit);
  if (begins_with(image, linked_header::the_magic, limit))
    return view_linked(image, limit);
  return view_text(image, limit);
}

} // namespace vgpu::interposer
