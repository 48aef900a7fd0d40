#include "nodes/cli/preloads.hpp"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <vector>

#include <elf.h>

namespace vgpu::command {

namespace {

/// Reads values from an ELF file. Reads outside of it give nothing.
class elf_file {
public:
  explicit elf_file(const std::string& path) : from_(path, std::ios::binary) {}

  template <class T>
  std::optional<T> at(std::uint64_t offset) {
    T out;
    from_.clear();
    from_.seekg(static_cast<std::streamoff>(offset));
    from_.read(reinterpret_cast<char*>(&out), sizeof out);
    return from_ ? std::optional{out} : std::nullopt;
  }
  std::string text_at(std::uint64_t offset) {
    std::string out;
    from_.clear();
    from_.seekg(static_cast<std::streamoff>(offset));
    std::getline(from_, out, '\0');
    return out;
  }

private:
  std::ifstream from_;
};

/// Returns where an address of the program lies in its file.
std::uint64_t offset_of(const std::vector<Elf64_Phdr>& parts,
                        std::uint64_t address) {
  for (const auto& x : parts)
    if (x.p_type == PT_LOAD && address - x.p_vaddr < x.p_filesz)
      return address - x.p_vaddr + x.p_offset;
  return 0;
}

/// Returns the names of the libraries that the program is linked with.
std::vector<std::string> needed_by(elf_file& file,
                                   const std::vector<Elf64_Phdr>& parts,
                                   const Elf64_Phdr& dynamic) {
  std::vector<std::uint64_t> names;
  std::uint64_t texts = 0;
  for (std::uint64_t i = 0; i < dynamic.p_filesz; i += sizeof(Elf64_Dyn)) {
    auto x = file.at<Elf64_Dyn>(dynamic.p_offset + i);
    if (!x || x->d_tag == DT_NULL)
      break;
    if (x->d_tag == DT_NEEDED)
      names.push_back(x->d_un.d_val);
    else if (x->d_tag == DT_STRTAB)
      texts = offset_of(parts, x->d_un.d_ptr);
  }
  std::vector<std::string> out;
  for (auto name : names)
    out.push_back(file.text_at(texts + name));
  return out;
}

bool is_sanitizer(const std::string& library) {
  for (auto* x : {"libasan.", "libtsan.", "liblsan.", "libclang_rt."})
    if (library.starts_with(x))
      return true;
  return false;
}

} // namespace

bool may_preload(const std::string& program) {
  elf_file file{program};
  auto head = file.at<Elf64_Ehdr>(0);
  if (!head || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
    return file.text_at(0).starts_with("#!");
  if (head->e_ident[EI_CLASS] != ELFCLASS64)
    return false;
  std::vector<Elf64_Phdr> parts;
  for (unsigned i = 0; i < head->e_phnum; ++i)
    if (auto x = file.at<Elf64_Phdr>(head->e_phoff + i * sizeof(Elf64_Phdr)))
      parts.push_back(*x);
  auto loads_by_glibc = false;
  for (const auto& x : parts)
    if (x.p_type == PT_INTERP)
      loads_by_glibc =
          file.text_at(x.p_offset).find("ld-linux") != std::string::npos;
  for (const auto& x : parts)
    if (x.p_type == PT_DYNAMIC)
      for (const auto& library : needed_by(file, parts, x))
        if (is_sanitizer(library))
          return false;
  return loads_by_glibc;
}

std::string with_own_cupti(const std::string& before,
                           const std::string& folder) {
  auto out = before;
  for (auto version : {"13", "12"}) {
    auto path = folder + "/libcupti.so." + version;
    std::error_code error;
    if (!std::filesystem::exists(path, error) ||
        before.find(path) != std::string::npos)
      continue;
    out += (out.empty() ? "" : ":") + path;
  }
  return out;
}

} // namespace vgpu::command
