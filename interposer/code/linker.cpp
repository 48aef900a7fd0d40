#include "interposer/code/linker.hpp"

#include "interposer/code/code_part.hpp"
#include "interposer/code/image.hpp"
#include "interposer/code/module.hpp"
#include "interposer/session/process.hpp"
#include "schema/base/cuda_fault.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>
#include <string_view>

namespace vgpu::interposer {

namespace {

/// Begins a fatbin container (devices/interface/fatbin.cpp reads the layout).
struct container_header {
  std::uint32_t magic = container_magic;
  std::uint16_t version = 1;
  std::uint16_t header_bytes = 16;
  // Counts the bytes after the header.
  std::uint64_t bytes = 0;
};
struct entry_header {
  /// Begins an entry of a fatbin container.
  std::uint16_t kind = 1; // PTX
  std::uint16_t version = 0x0101;
  std::uint32_t header_bytes = 64;
  std::uint64_t payload_bytes = 0;
  std::uint32_t compressed_bytes = 0;
  std::uint32_t options = 0;
  std::uint16_t minor = 0;
  std::uint16_t major = 0;
  std::uint32_t arch = 0;
  std::uint64_t name = 0;
  std::uint64_t flags = 0x11; // 64-bit, Linux
  std::uint64_t reserved = 0;
  std::uint64_t plain_bytes = 0;
};
static_assert(sizeof(container_header) == 16 && sizeof(entry_header) == 64);

/// Returns the entry's header with the part's name behind it, which `entry`
/// refers to from now on.
std::vector<std::byte> named(entry_header& entry, const char* name) {
  constexpr std::size_t longest = 4096;
  std::string_view text{name == nullptr ? "" : name};
  text = text.substr(0, longest);
  if (!text.empty()) {
    entry.name = sizeof(entry) | std::uint64_t{text.size()} << 32;
    entry.header_bytes += static_cast<std::uint32_t>((text.size() + 7) / 8 * 8);
  }
  std::vector<std::byte> out(entry.header_bytes);
  std::memcpy(out.data(), &entry, sizeof(entry));
  std::transform(text.begin(), text.end(), out.begin() + sizeof(entry),
                 [](char c) { return static_cast<std::byte>(c); });
  return out;
}
constexpr std::uint64_t arch_specific = 0x100000;

template <class T>
std::span<const std::byte> bytes_of(const T& x) {
  return std::as_bytes(std::span{&x, 1});
}

/// Returns the number in a directive, such as 75 of ".target sm_75".
std::uint32_t number_behind(std::string_view text, std::string_view what) {
  auto at = text.find(what);
  if (at == text.npos)
    return 0;
  at = text.find_first_of("0123456789", at + what.size());
  std::uint32_t out = 0;
  if (at != text.npos)
    std::from_chars(text.data() + at, text.data() + text.size(), out);
  return out;
}

/// Tells whether the target has features of a single architecture, as "sm_90a"
/// does.
bool is_specific(std::string_view text) {
  auto at = text.find(".target");
  at = at == text.npos ? at : text.find_first_of("0123456789", at);
  at = at == text.npos ? at : text.find_first_not_of("0123456789", at);
  return at != text.npos && text[at] == 'a';
}

/// Returns the words of all definitions that other parts see, among which are
/// the names that they define.
std::set<std::string> words_of_definitions(std::string_view text) {
  constexpr std::string_view visible = ".visible";
  constexpr auto in_names = "abcdefghijklmnopqrstuvwxyz"
                            "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$";
  std::set<std::string> out;
  for (auto at = text.find(visible); at != text.npos;
       at = text.find(visible, at + 1)) {
    auto head = text.substr(at, text.find_first_of("{;=", at) - at);
    while (!head.empty()) {
      auto begin = head.find_first_of(in_names);
      if (begin == head.npos)
        break;
      auto end = std::min(head.find_first_not_of(in_names, begin), head.size());
      if (begin == 0 || head[begin - 1] != '.')
        out.emplace(head.substr(begin, end - begin));
      head.remove_prefix(end);
    }
  }
  return out;
}

link_table& table() noexcept {
  return code_part::get().links;
}

} // namespace

link_state::link_state(context& in, const jit_request& how)
    : owner_(in), how_(how), settings_(how.settings()) {
  how_.pause();
  // A linked program begins with a container for the whole, which is empty
  // here.
  append(bytes_of(container_header{}));
}

void link_state::append(std::span<const std::byte> container) {
  containers_.resize((containers_.size() + 7) / 8 * 8);
  containers_.insert(containers_.end(), container.begin(), container.end());
}

CUresult link_state::failed(const fault& why, jit_request& tell) {
  tell.fail(why.what);
  log_line(log_level::info, "linking: " + why.what);
  return cuda_code(why);
}

CUresult link_state::add(CUjitInputType type, std::span<const std::byte> bytes,
                         const char* name, jit_request& own) {
  if (bytes.data() == nullptr || bytes.empty() || complete_)
    return CUDA_ERROR_INVALID_VALUE;
  how_.resume();
  auto added = add_part(type, bytes, name, own);
  how_.pause();
  own.finish();
  if (added)
    return CUDA_SUCCESS;
  return failed(added.why(), own.wants_errors() ? own : how_);
}

status link_state::add_part(CUjitInputType type,
                            std::span<const std::byte> bytes, const char* name,
                            jit_request& own) {
  switch (type) {
  case CU_JIT_INPUT_PTX:
    return add_text(bytes, name, own);
  case CU_JIT_INPUT_CUBIN:
  case CU_JIT_INPUT_FATBINARY:
    return add_image(bytes, name);
  case CU_JIT_INPUT_OBJECT:
  case CU_JIT_INPUT_LIBRARY:
    return add_objects(bytes);
  case CU_JIT_INPUT_NVVM:
    return cuda_fault(CUDA_ERROR_NOT_SUPPORTED,
                      "intermediate code of a compiler cannot be linked here; "
                      "compile it to PTX first");
  default:
    return cuda_fault(CUDA_ERROR_INVALID_VALUE, "no such kind of part");
  }
}

status link_state::add_text(std::span<const std::byte> bytes, const char* name,
                            jit_request& own) {
  auto text =
      std::string{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  text.resize(std::min(text.size(), text.find('\0')));
  auto view = view_image(text.c_str(), text.size() + 1);
  if (!view || view->kind != image_kind::ptx)
    return cuda_fault(CUDA_ERROR_INVALID_PTX,
                      "a part of type PTX is no PTX: it has no .version "
                      "directive");
  // The options of the part come before those of the link.
  auto how = settings_;
  for (auto [key, value] : own.settings().options)
    how.options.insert_or_assign(key, value);
  auto said = check_part(owner_, view->bytes, how);
  if (!said)
    return said.why();
  (own.wants_information() ? own : how_).inform(*said);
  settings_.options.insert(own.settings().options.begin(),
                           own.settings().options.end());
  append_text(text, name);
  ++parts_;
  return check_definitions(text);
}

/// Appends PTX as one container with one entry.
void link_state::append_text(std::string text, const char* name) {
  // The padding is inside the text, which ends with its NUL.
  text.resize((text.size() + 8) / 8 * 8 - 1, '\n');
  entry_header entry;
  entry.payload_bytes = text.size() + 1;
  entry.arch = number_behind(text, ".target");
  entry.flags |= is_specific(text) ? arch_specific : 0;
  auto header = named(entry, name);
  container_header head;
  head.bytes = header.size() + entry.payload_bytes;
  append(bytes_of(head));
  append(header);
  append(std::as_bytes(std::span{text.c_str(), text.size() + 1}));
}

/// Links the parts so far where the latest text may define a symbol of an
/// earlier one, because such an error is told at once. Other errors may vanish
/// with later parts.
status link_state::check_definitions(std::string_view text) {
  auto words = words_of_definitions(text);
  auto may_meet = std::any_of(words.begin(), words.end(), [&](const auto& x) {
    return words_.contains(x);
  });
  words_.merge(words);
  if (!may_meet)
    return {};
  auto tried = load_module(owner_, containers_, nullptr, settings_);
  if (tried) {
    (void)unload_module((*tried)->handle);
    return {};
  }
  if (tried.why().what.find("Multiple definition") == std::string::npos)
    return {};
  broken_ = CUDA_ERROR_INVALID_SOURCE;
  return cuda_fault(broken_, tried.why().what);
}

status link_state::add_image(std::span<const std::byte> bytes,
                             const char* name) {
  auto view = view_image(bytes.data(), bytes.size());
  if (!view)
    return view.why();
  if (view->kind == image_kind::fatbin) {
    append(view->bytes);
  } else if (view->kind == image_kind::cubin) {
    entry_header entry;
    entry.kind = 2;
    entry.payload_bytes = (view->bytes.size() + 7) / 8 * 8;
    auto header = named(entry, name);
    container_header head;
    head.bytes = header.size() + entry.payload_bytes;
    append(bytes_of(head));
    append(header);
    append(view->bytes);
    containers_.resize((containers_.size() + 7) / 8 * 8);
  } else {
    return cuda_fault(CUDA_ERROR_INVALID_IMAGE,
                      "a part of type machine code is text");
  }
  ++parts_;
  return {};
}

/// Adds the fatbin containers of host objects and of archives of them, which
/// lie at multiples of 8 bytes.
status link_state::add_objects(std::span<const std::byte> bytes) {
  auto found = false;
  for (std::size_t at = 0; at + sizeof(container_header) <= bytes.size();) {
    container_header head;
    std::memcpy(&head, bytes.data() + at, sizeof(head));
    auto room = bytes.size() - at;
    if (head.magic != container_magic || head.version != 1 ||
        head.header_bytes != sizeof(head) || head.bytes > room - sizeof(head)) {
      at += sizeof(std::uint64_t);
      continue;
    }
    auto whole = sizeof(head) + static_cast<std::size_t>(head.bytes);
    append(bytes.subspan(at, whole));
    at += (whole + 7) / 8 * 8;
    found = true;
    ++parts_;
  }
  if (found)
    return {};
  return cuda_fault(CUDA_ERROR_INVALID_IMAGE,
                    "an object or library contains no device code");
}

status link_state::link() {
  if (parts_ == 0)
    // An image of nothing can be loaded too.
    append_text(".version 6.0\n.target sm_50\n.address_size 64\n", nullptr);
  std::string said;
  auto tried = load_module(owner_, containers_, nullptr, settings_, &said);
  if (!tried)
    return tried.why();
  (void)unload_module((*tried)->handle);
  how_.inform(said);
  auto options = encode(settings_);
  linked_header head;
  head.settings = options.size();
  head.bytes = options.size() + containers_.size();
  auto first = bytes_of(head);
  image_.assign(first.begin(), first.end());
  image_.insert(image_.end(), options.begin(), options.end());
  image_.insert(image_.end(), containers_.begin(), containers_.end());
  return {};
}

CUresult link_state::complete(std::span<const std::byte>& image) {
  if (complete_)
    return CUDA_ERROR_INVALID_HANDLE;
  if (broken_ != CUDA_SUCCESS)
    return broken_;
  how_.resume();
  auto linked = link();
  how_.finish();
  if (!linked)
    return failed(linked.why(), how_);
  complete_ = true;
  image = image_;
  return CUDA_SUCCESS;
}

CUlinkState add_link(std::unique_ptr<link_state> made) {
  auto handle = reinterpret_cast<CUlinkState>(made.get()); // NOLINT: opaque
  std::lock_guard guard{table().mutex};
  table().all.emplace(handle, std::move(made));
  return handle;
}

link_state* find_link(CUlinkState handle) {
  std::lock_guard guard{table().mutex};
  auto known = table().all.find(handle);
  return known == table().all.end() ? nullptr : known->second.get();
}

bool remove_link(CUlinkState handle) {
  std::lock_guard guard{table().mutex};
  return table().all.erase(handle) != 0;
}

} // namespace vgpu::interposer
