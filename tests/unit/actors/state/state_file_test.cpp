// A state as a file: a written state is read back, and any other file is
// refused.
#include "actors/state/living_calls.hpp"
#include "actors/state/state_file.hpp"
#include "actors/state/state_transfer.hpp"
#include "actors/worker/session/answer_digest.hpp"
#include "schema/base/cuda_fault.hpp"
#include "schema/wire/call_codec.hpp"

#include <boost/test/unit_test.hpp>
#include <xxhash.h>

#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <random>
#include <unistd.h>

using namespace vgpu;

namespace {

template <class Call>
std::vector<std::uint64_t> message(const Call& x) {
  std::vector<std::uint64_t> out(call::message_words(x));
  call::encode(x, 0, out);
  return out;
}

std::vector<std::byte> bytes_of(std::size_t size, unsigned seed) {
  std::mt19937 random{seed};
  std::vector<std::byte> out(size);
  for (auto& x : out)
    x = static_cast<std::byte>(random());
  return out;
}

/// A state with every kind of contents.
struct a_state {
  unique_fd file = std::move(*make_state_memory());
  std::vector<std::byte> noise = bytes_of(100'000, 1);
  std::vector<std::byte> text = std::vector<std::byte>(300'000, std::byte{7});
  std::vector<std::byte> nothing = std::vector<std::byte>(5000);
  state_index index;
  std::uint64_t size = 0;

  explicit a_state(bool compress = true) {
    state_writer to{file.get(), compress};
    index.position = 4712;
    index.calls = 17;
    index.consoles = {5, 6};
    for (auto* x : {&noise, &text, &nothing})
      index.memory.push_back(*to.add(0x1000, *x));
    state_image image{{1, 2}, noise.size(), {}};
    image.chunks.push_back(*to.add(0, noise));
    index.images.push_back(image);
    index.living.emplace_back(64,
                              message(call::stream_create{.stream = {{9}}}));
    index.globals.push_back({0, {3}, "x", 0x77, 8});
    index.events.emplace_back(0, event_time{{8}, 2.5, true});
    state_placed placed{1, {5}, {}};
    placed.chunks.push_back(*to.add(0, noise));
    placed.chunks.push_back(*to.add(granule_bytes, text));
    index.placed.push_back(placed);
    size = *to.finish(index);
  }

  std::vector<char> raw() const {
    std::vector<char> out(size);
    BOOST_REQUIRE(::pread(file.get(), out.data(), size, 0) ==
                  static_cast<ssize_t>(size));
    return out;
  }
};

unique_fd file_of(const std::vector<char>& bytes) {
  auto out = std::move(*make_state_memory());
  BOOST_REQUIRE(::pwrite(out.get(), bytes.data(), bytes.size(), 0) ==
                static_cast<ssize_t>(bytes.size()));
  return out;
}

/// Reads all contents. Returns why where it fails.
status read_all(int fd) {
  auto from = state_reader::open(fd);
  if (!from)
    return from.why();
  auto chunks = from->index().memory;
  for (auto& image : from->index().images)
    chunks.insert(chunks.end(), image.chunks.begin(), image.chunks.end());
  for (auto& placed : from->index().placed)
    chunks.insert(chunks.end(), placed.chunks.begin(), placed.chunks.end());
  for (auto& x : chunks) {
    std::vector<std::byte> into(x.bytes);
    if (auto ok = from->read(x, into); !ok)
      return ok;
  }
  return {};
}

} // namespace

BOOST_AUTO_TEST_SUITE(states)

BOOST_AUTO_TEST_CASE(a_written_state_is_read_back) {
  for (auto compress : {false, true}) {
    a_state x{compress};
    auto from = state_reader::open(x.file.get());
    BOOST_REQUIRE(from.ok());
    auto& index = from->index();
    BOOST_TEST(index.position == 4712u);
    BOOST_TEST(index.calls == 17u);
    BOOST_TEST(index.consoles[1] == 6u);
    BOOST_TEST((index.living == x.index.living));
    BOOST_TEST(index.globals[0].name == "x");
    BOOST_TEST(index.events[0].second.milliseconds == 2.5);
    BOOST_TEST((index.images[0].digest == call::digest{1, 2}));
    BOOST_REQUIRE(index.placed.size() == 1u);
    BOOST_TEST(index.placed[0].device == 1u);
    BOOST_TEST(index.placed[0].memory.value == 5u);
    BOOST_TEST(index.placed[0].chunks.at(1).address == granule_bytes);
    auto forms = compress ? chunk_form::zstd : chunk_form::raw;
    BOOST_TEST((index.memory[0].form == chunk_form::raw)); // noise
    BOOST_TEST((index.memory[1].form == forms));
    BOOST_TEST((index.memory[2].form == chunk_form::zero));
    for (auto [chunk, wanted] :
         {std::pair{0, &x.noise}, {1, &x.text}, {2, &x.nothing}}) {
      std::vector<std::byte> into(wanted->size(), std::byte{1});
      BOOST_REQUIRE(
          from->read(index.memory[static_cast<unsigned>(chunk)], into).ok());
      BOOST_TEST((into == *wanted));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_file_without_an_end_is_not_a_state) {
  auto file = std::move(*make_state_memory());
  BOOST_TEST(!read_all(file.get()).ok()); // empty
  state_writer to{file.get(), false};
  BOOST_REQUIRE(to.add(0, bytes_of(5000, 2)).ok());
  auto got = read_all(file.get());
  BOOST_TEST(got.why().what.find("not completed") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(another_major_version_is_refused_by_name) {
  for (auto other : {state_major - 1, state_major + 1}) {
    auto raw = a_state{}.raw();
    std::memcpy(raw.data() + 8, &other, sizeof(other));
    auto hash = XXH3_64bits(raw.data(), 56);
    std::memcpy(raw.data() + 56, &hash, sizeof(hash));
    auto got = read_all(file_of(raw).get());
    BOOST_TEST((cuda_code(got) == CUDA_ERROR_NOT_SUPPORTED));
    for (auto version : {other, state_major})
      BOOST_TEST(got.why().what.find("version " + std::to_string(version)) !=
                 std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(a_newer_minor_version_is_read) {
  auto raw = a_state{}.raw();
  auto newer = state_minor + 7;
  std::memcpy(raw.data() + 12, &newer, sizeof(newer));
  auto hash = XXH3_64bits(raw.data(), 56);
  std::memcpy(raw.data() + 56, &hash, sizeof(hash));
  BOOST_TEST(read_all(file_of(raw).get()).ok());
}

BOOST_AUTO_TEST_CASE(every_cut_and_every_flipped_bit_is_noticed) {
  a_state x;
  auto whole = x.raw();
  BOOST_TEST(read_all(x.file.get()).ok());
  std::mt19937 random{3};
  for (int round = 0; round < 300; ++round) {
    auto raw = whole;
    raw.resize(random() % raw.size());
    BOOST_TEST(!read_all(file_of(raw).get()).ok());
  }
  int noticed = 0;
  int rounds = 0;
  while (rounds < 600) {
    auto at = random() % whole.size();
    ++rounds;
    auto raw = whole;
    raw[at] = static_cast<char>(raw[at] ^ (1 << random() % 8));
    noticed += !read_all(file_of(raw).get()).ok();
  }
  // A changed bit in the padding before the index does no harm.
  BOOST_TEST(noticed >= rounds - 2);
}

BOOST_AUTO_TEST_CASE(a_saved_state_appears_whole) {
  std::string dir = std::filesystem::temp_directory_path() / "stateXXXXXX";
  BOOST_REQUIRE(::mkdtemp(dir.data()) != nullptr);
  a_state x;
  auto path = dir + "/state";
  BOOST_REQUIRE(save_state(x.file.get(), x.size, path).ok());
  unique_fd saved{::open(path.c_str(), O_RDONLY)};
  BOOST_TEST(read_all(saved.get()).ok());
  BOOST_TEST(!std::filesystem::exists(path + ".new"));
  // A source that ends too early leaves the former file in place.
  BOOST_TEST(!save_state(x.file.get(), x.size + 1, path).ok());
  BOOST_TEST(read_all(saved.get()).ok());
  BOOST_TEST(!std::filesystem::exists(path + ".new"));
  std::filesystem::remove_all(dir);
}

BOOST_AUTO_TEST_CASE(a_state_travels_part_by_part) {
  auto noise = bytes_of(21 << 20, 5);
  auto source = std::move(*make_state_memory());
  BOOST_REQUIRE(::pwrite(source.get(), noise.data(), noise.size(), 0) ==
                static_cast<ssize_t>(noise.size()));
  auto to = std::move(*state_inflow::begin(noise.size()));
  auto lost = false;
  while (!to.complete()) {
    std::vector<data::state_wanted> asked;
    while (auto x = to.want())
      asked.push_back(*x);
    BOOST_REQUIRE(!asked.empty());
    BOOST_TEST(asked.back().to - asked.front().from <= 18u << 20);
    for (auto& x : asked) {
      auto part = part_of_state(source.get(), noise.size(), x);
      BOOST_REQUIRE(part);
      BOOST_REQUIRE(to.take(x.from, *part).ok());
      // The connection breaks once in the middle.
      if (!std::exchange(lost, true)) {
        to.ask_again();
        break;
      }
    }
  }
  std::vector<std::byte> got(noise.size());
  BOOST_REQUIRE(::pread(to.file(), got.data(), got.size(), 0) ==
                static_cast<ssize_t>(got.size()));
  BOOST_TEST((got == noise));
  BOOST_TEST(!part_of_state(source.get(), noise.size(), {5, 5}));
  BOOST_TEST(!part_of_state(source.get(), noise.size(), {0, 1ull << 40}));
  BOOST_TEST(!state_inflow::begin(std::uint64_t{1} << 60).ok());
}

BOOST_AUTO_TEST_CASE(only_calls_of_living_objects_are_kept) {
  living_calls living;
  std::uint64_t at = 0;
  auto make = [&](const auto& x) {
    living.note(x, 0, {at += 64}, message(x));
    return at;
  };
  auto stream = make(call::stream_create{.stream = {{5}}});
  make(call::event_create{.event = {{6}}});
  make(call::event_destroy{.event = {{6}}});
  auto memory = make(call::mem_alloc{.address = 0x100, .bytes = 512});
  make(call::mem_alloc{.address = 0x900, .bytes = 512});
  make(call::mem_free{.address = 0x900, .bytes = 512});
  make(call::launch{.stream = {{5}}});
  make(call::stream_sync{.stream = {{5}}});
  auto gone = make(call::module_load{.module = {{1}}});
  make(call::kernel_attribute{.module = {{1}}, .attribute = 8, .value = 1});
  auto unload = make(call::module_unload{.module = {{1}}});
  auto load = make(call::module_load{.module = {{2}}});
  make(call::kernel_attribute{.module = {{2}}, .attribute = 8, .value = 1});
  auto other =
      make(call::kernel_attribute{.module = {{2}}, .attribute = 9, .value = 1});
  auto set =
      make(call::kernel_attribute{.module = {{2}}, .attribute = 8, .value = 2});
  std::vector<std::uint64_t> kept;
  for (auto& [number, words] : living.calls())
    kept.push_back(number);
  // The load of an unloaded module is kept, because it decides where the next
  // module lies.
  std::vector<std::uint64_t> wanted{stream, memory, gone, unload,
                                    load,   other,  set};
  BOOST_TEST(kept == wanted, boost::test_tools::per_element());
  BOOST_TEST(!living.shares());
}

BOOST_AUTO_TEST_CASE(the_latest_limits_and_windows_are_kept) {
  living_calls living;
  std::uint64_t at = 0;
  auto make = [&](const auto& x) {
    living.note(x, 0, {at += 64}, message(x));
    return at;
  };
  auto kept = [&] {
    std::vector<std::uint64_t> out;
    for (auto& [number, words] : living.calls())
      out.push_back(number);
    return out;
  };
  make(call::limit_set{.limit = 0, .value = 2048});
  auto heap = make(call::limit_set{.limit = 2, .value = 1 << 25});
  auto stack = make(call::limit_set{.limit = 0, .value = 4096});
  make(call::stream_window{.stream = {legacy_stream}, .base = 1, .bytes = 64});
  auto window = make(
      call::stream_window{.stream = {legacy_stream}, .base = 2, .bytes = 32});
  auto stream = make(call::stream_create{.stream = {{5}}});
  make(call::stream_window{.stream = {{5}}, .base = 1, .bytes = 64});
  auto other = make(call::stream_window{.stream = {{5}}});
  std::vector<std::uint64_t> wanted{heap, stack, window, stream, other};
  BOOST_TEST(kept() == wanted, boost::test_tools::per_element());
  make(call::stream_destroy{.stream = {{5}}});
  wanted = {heap, stack, window};
  BOOST_TEST(kept() == wanted, boost::test_tools::per_element());
  // A reset decides where a later heap lies.
  make(call::limits_reset{});
  auto reset = make(call::limits_reset{});
  auto again = make(call::limit_set{.limit = 2, .value = 1 << 25});
  wanted = {window, reset, again};
  BOOST_TEST(kept() == wanted, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_long_results_hash_covers_its_ends_and_samples) {
  std::vector<std::byte> bytes(std::size_t{1} << 20);
  auto before = row_hash(bytes);
  BOOST_TEST(before != row_hash(bytes, 1));
  BOOST_TEST(before != row_hash(std::span{bytes}.first(bytes.size() - 1)));
  for (auto seen : {std::size_t{0}, bytes.size() / 2,
                    bytes.size() / 32 * 31 + 511, bytes.size() - 1}) {
    bytes[seen] = std::byte{1};
    BOOST_TEST(row_hash(bytes) != before);
    bytes[seen] = std::byte{0};
  }
  BOOST_TEST(row_hash(bytes) == before);
  // The hash of a short result covers every byte.
  bytes.resize(std::size_t{16} << 10);
  before = row_hash(bytes);
  bytes[10'000] = std::byte{1};
  BOOST_TEST(row_hash(bytes) != before);
}

BOOST_AUTO_TEST_CASE(memory_is_kept_with_its_mappings_and_without_them) {
  living_calls living;
  std::uint64_t at = 0;
  auto make = [&](const auto& x) {
    living.note(x, 0, {at += 64}, message(x));
    return at;
  };
  constexpr auto g = granule_bytes;
  auto memory = make(call::memory_create{{{1}}, 2 * g});
  auto here = make(call::memory_map{{{1}}, 100 * g, 2 * g});
  make(call::memory_access{100 * g, 2 * g, 1});
  auto usable = make(call::memory_access{100 * g, 2 * g, 3});
  // The same memory is mapped elsewhere, and unmapped there again.
  make(call::memory_map{{{1}}, 200 * g, 2 * g});
  make(call::memory_access{200 * g, 2 * g, 3});
  make(call::memory_unmap{200 * g, 2 * g});
  // Memory without a mapping, and destroyed memory.
  auto unmapped = make(call::memory_create{{{2}}, g});
  make(call::memory_create{{{3}}, g});
  make(call::memory_destroy{{{3}}});
  std::vector<std::uint64_t> kept;
  for (auto& [number, words] : living.calls())
    kept.push_back(number);
  std::vector<std::uint64_t> wanted{memory, here, usable, unmapped};
  BOOST_TEST(kept == wanted, boost::test_tools::per_element());
  BOOST_TEST(!living.shares());
}

BOOST_AUTO_TEST_SUITE_END()
