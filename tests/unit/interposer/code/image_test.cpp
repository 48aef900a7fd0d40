#include "interposer/code/image.hpp"
#include "schema/base/cuda_fault.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <elf.h>
#include <sys/mman.h>

using namespace vgpu::interposer;

namespace {

/// Memory that ends at the end of a page, so that reading past it is a crash.
class fenced {
public:
  explicit fenced(const std::vector<std::byte>& bytes) : bytes_(bytes.size()) {
    pages_ = (bytes_ + 4095) / 4096 * 4096;
    at_ = ::mmap(nullptr, pages_ + 4096, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ::munmap(static_cast<char*>(at_) + pages_, 4096);
    std::memcpy(data(), bytes.data(), bytes_);
  }
  fenced(const fenced&) = delete;
  fenced& operator=(const fenced&) = delete;
  ~fenced() { ::munmap(at_, pages_); }

  void* data() const { return static_cast<char*>(at_) + (pages_ - bytes_); }

private:
  std::size_t bytes_;
  std::size_t pages_;
  void* at_;
};

template <class T>
void append(std::vector<std::byte>& to, const T& x) {
  const auto* p = reinterpret_cast<const std::byte*>(&x);
  to.insert(to.end(), p, p + sizeof(x));
}

std::vector<std::byte> container(std::uint64_t payload) {
  std::vector<std::byte> out;
  append(out, std::uint32_t{0xBA55ED50});
  append(out, std::uint16_t{1});
  append(out, std::uint16_t{16});
  append(out, payload);
  out.resize(out.size() + payload);
  return out;
}

std::vector<std::byte> cubin() {
  Elf64_Ehdr head{};
  std::memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_machine = 0xBE;
  head.e_ehsize = sizeof(head);
  head.e_shoff = sizeof(head);
  head.e_shnum = 2;
  head.e_shentsize = sizeof(Elf64_Shdr);
  Elf64_Shdr none{}, text{};
  text.sh_type = SHT_PROGBITS;
  text.sh_offset = sizeof(head) + 2 * sizeof(Elf64_Shdr);
  text.sh_size = 100;
  std::vector<std::byte> out;
  append(out, head);
  append(out, none);
  append(out, text);
  out.resize(out.size() + 100);
  return out;
}

std::vector<std::byte> text(const std::string& x) {
  const auto* p = reinterpret_cast<const std::byte*>(x.c_str());
  return {p, p + x.size() + 1};
}

CUresult
code_of(const void* p,
        std::uint64_t limit = std::numeric_limits<std::uint64_t>::max()) {
  auto got = view_image(p, limit);
  return got ? CUDA_SUCCESS : cuda_code(got.why());
}

} // namespace

BOOST_AUTO_TEST_SUITE(images)

BOOST_AUTO_TEST_CASE(a_container_ends_where_its_header_says) {
  fenced image{container(1000)};
  auto got = view_image(image.data());
  BOOST_REQUIRE(got.ok());
  BOOST_TEST((got->kind == image_kind::fatbin));
  BOOST_TEST(got->bytes.size() == 1016U);
}

BOOST_AUTO_TEST_CASE(a_wrapper_is_followed) {
  fenced inner{container(64)};
  struct {
    std::uint32_t magic = 0x466243B1, version = 1;
    void* data;
    void* more = nullptr;
  } wrapper;
  wrapper.data = inner.data();
  auto got = view_image(&wrapper);
  BOOST_REQUIRE(got.ok());
  BOOST_TEST(got->bytes.data() == static_cast<std::byte*>(inner.data()));
  wrapper.data = reinterpret_cast<void*>(0x1000);
  BOOST_TEST(code_of(&wrapper) == CUDA_ERROR_INVALID_IMAGE);
  wrapper.data = &wrapper;
  BOOST_TEST(code_of(&wrapper) == CUDA_ERROR_INVALID_IMAGE);
}

BOOST_AUTO_TEST_CASE(a_cubin_ends_with_its_last_part) {
  auto bytes = cubin();
  fenced image{bytes};
  auto got = view_image(image.data());
  BOOST_REQUIRE(got.ok());
  BOOST_TEST((got->kind == image_kind::cubin));
  BOOST_TEST(got->bytes.size() == bytes.size());
}

BOOST_AUTO_TEST_CASE(ptx_is_known_by_its_first_directive) {
  for (auto* good : {".version 9.0\n", "\n\n\n.version 8.0",
                     "// a comment\n/* another */ .version 7.8\n"}) {
    fenced image{text(good)};
    auto got = view_image(image.data());
    BOOST_REQUIRE_MESSAGE(got.ok(), good);
    BOOST_TEST((got->kind == image_kind::ptx));
    BOOST_TEST(got->bytes.size() == std::strlen(good));
  }
  for (auto* bad : {"", "garbage", "// only a comment", "/* open", "   "}) {
    fenced image{text(bad)};
    BOOST_TEST(code_of(image.data()) == CUDA_ERROR_INVALID_IMAGE, bad);
  }
}

BOOST_AUTO_TEST_CASE(null_is_an_invalid_value) {
  BOOST_TEST(code_of(nullptr) == CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(a_cut_image_is_refused_and_never_read_past) {
  for (const auto& whole : {container(5000), cubin()})
    for (std::size_t n = 1; n < whole.size(); n += n < 300 ? 1 : 97) {
      fenced image{
          {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n)}};
      BOOST_TEST(code_of(image.data()) == CUDA_ERROR_INVALID_IMAGE);
      BOOST_TEST(code_of(whole.data(), n) == CUDA_ERROR_INVALID_IMAGE);
    }
}

BOOST_AUTO_TEST_CASE(hostile_bytes_are_refused_or_stay_inside) {
  std::mt19937 random{11};
  for (const auto& whole : {container(200), cubin()})
    for (int i = 0; i < 3000; ++i) {
      auto bytes = whole;
      for (int k = 0; k < 4; ++k)
        bytes[4 + random() % (bytes.size() - 4)] =
            static_cast<std::byte>(random());
      fenced image{bytes};
      auto got = view_image(image.data());
      if (got)
        BOOST_TEST(got->bytes.size() <= bytes.size());
    }
}

BOOST_AUTO_TEST_CASE(impossible_lengths_do_not_overflow) {
  auto bytes = container(16);
  std::uint64_t huge = ~std::uint64_t{0} - 8;
  std::memcpy(bytes.data() + 8, &huge, sizeof(huge));
  fenced image{bytes};
  BOOST_TEST(code_of(image.data()) == CUDA_ERROR_INVALID_IMAGE);
  auto elf = cubin();
  std::memcpy(elf.data() + offsetof(Elf64_Ehdr, e_shoff), &huge, sizeof(huge));
  fenced second{elf};
  BOOST_TEST(code_of(second.data()) == CUDA_ERROR_INVALID_IMAGE);
}

BOOST_AUTO_TEST_SUITE_END()
