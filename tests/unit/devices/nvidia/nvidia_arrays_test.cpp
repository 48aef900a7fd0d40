// The nvidia device: arrays, textures and surfaces.
#include "devices/interface/texture_unit.hpp"
#include "tests/unit/devices/nvidia/nvidia_fixture.hpp"

#include <chrono>
#include <future>
#include <thread>

using namespace vgpu;
using namespace vgpu::device;
using namespace vgpu::test;

namespace {

/// Arrays lie at addresses without memory.
struct with_arrays : with_device {
  texture_unit& unit = dynamic_cast<texture_unit&>(*dev);
  std::uint64_t arrays_before = call<std::uint64_t()>("fake_arrays")();

  std::uint64_t arrays_here() const {
    return call<std::uint64_t()>("fake_arrays")() - arrays_before;
  }
  static std::uint64_t objects() {
    return call<std::uint64_t()>("fake_objects")();
  }

  device_address array(std::uint64_t id, const array_shape& shape) {
    auto at = base + id * 64 * g;
    BOOST_REQUIRE(unit.create_array(array_id{id}, shape, at).ok());
    return at;
  }
  void write(device_address to, const std::vector<int>& from, std::size_t first,
             std::size_t count) {
    auto bytes = std::as_bytes(std::span{from}.subspan(first, count));
    BOOST_REQUIRE(
        dev->enqueue_write(legacy_stream, to + 4 * first, bytes, nullptr).ok());
  }
  std::vector<int> read(device_address from, std::size_t count) {
    std::vector<int> out(count);
    outcome done;
    BOOST_REQUIRE(dev->enqueue_read(legacy_stream,
                                    std::as_writable_bytes(std::span{out}),
                                    from, done.tell())
                      .ok());
    BOOST_REQUIRE_EQUAL(done.wait(), CUDA_SUCCESS);
    return out;
  }
};

std::vector<int> counted(std::size_t n) {
  std::vector<int> out(n);
  for (std::size_t i = 0; i < n; ++i)
    out[i] = static_cast<int>(i) + 1;
  return out;
}

array_shape floats(std::uint64_t width, std::uint64_t height,
                   std::uint64_t depth, std::uint32_t levels = 0) {
  return {width, height, depth, CU_AD_FORMAT_FLOAT, 1, 0, levels};
}

/// An array that a read still uses, until hold(0).
struct with_used_array : with_arrays {
  std::vector<int> out = std::vector<int>(64);
  outcome done;

  with_used_array() {
    auto at = array(1, floats(8, 8, 0));
    hold(1);
    BOOST_REQUIRE(dev->enqueue_read(legacy_stream,
                                    std::as_writable_bytes(std::span{out}), at,
                                    done.tell())
                      .ok());
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(arrays, with_arrays)

BOOST_AUTO_TEST_CASE(any_range_of_an_array_is_cut_into_boxes) {
  constexpr std::size_t w = 7, h = 5, d = 3, n = w * h * d;
  auto at = array(1, floats(w, h, d));
  auto all = counted(n);
  write(at, all, 0, n);
  BOOST_TEST(read(at, n) == all, boost::test_tools::per_element());
  // Writes ranges from every third element on, of many lengths.
  for (std::size_t first = 0; first < n; first += 3)
    for (std::size_t count = 1; first + count <= n; count += 4) {
      auto now = read(at, n);
      for (std::size_t i = first; i < first + count; ++i)
        all[i] = now[i] = all[i] + 1;
      write(at, now, first, count);
      BOOST_REQUIRE(read(at + 4 * first, count) ==
                    std::vector<int>(&all[first], &all[first] + count));
    }
  BOOST_TEST(read(at, n) == all, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(large_arrays_are_written_in_pieces) {
  constexpr std::size_t w = 1500, h = 1000;
  auto at = array(1, floats(w, h, 0));
  auto all = counted(w * h);
  write(at, all, 0, all.size());
  BOOST_TEST((read(at, w * h) == all));
}

BOOST_AUTO_TEST_CASE(boxes_and_flat_ranges_go_from_array_to_array) {
  auto a = array(1, floats(8, 6, 2));
  auto b = array(2, floats(4, 12, 2));
  write(a, counted(96), 0, 96);
  write(b, std::vector<int>(96), 0, 96);
  // The rows differ in length, so the bytes are copied in order.
  BOOST_REQUIRE(
      dev->enqueue_copy(legacy_stream, {b, 0, 0}, {a, 0, 0}, {384, 1, 1}).ok());
  BOOST_TEST((read(b, 96) == counted(96)));
  // Three elements of two rows of two slices.
  BOOST_REQUIRE(dev->enqueue_copy(legacy_stream, {b + 4, 16, 192},
                                  {a + 32 + 8, 32, 192}, {12, 2, 2})
                    .ok());
  auto want = counted(96);
  for (std::size_t z = 0; z < 2; ++z)
    for (std::size_t y = 0; y < 2; ++y)
      for (std::size_t x = 0; x < 3; ++x)
        want[z * 48 + y * 4 + x + 1] =
            static_cast<int>(z * 48 + (y + 1) * 8 + x + 2) + 1;
  BOOST_TEST((read(b, 96) == want));
  // The copy leaves the array.
  BOOST_TEST(
      !dev->enqueue_copy(legacy_stream, {b, 0, 0}, {a + 320, 0, 0}, {128, 1, 1})
           .ok());
}

BOOST_AUTO_TEST_CASE(mipmap_levels_follow_one_another) {
  auto shape = floats(8, 8, 0, 4);
  auto layout = layout_of(shape);
  BOOST_REQUIRE(layout);
  auto at = array(1, shape);
  for (auto& l : layout->levels)
    write(at + l.offset, counted(l.width * l.rows), 0, l.width * l.rows);
  for (auto& l : layout->levels)
    BOOST_TEST(
        (read(at + l.offset, l.width * l.rows) == counted(l.width * l.rows)));
  // Reads all levels at once, with the gaps between them.
  BOOST_TEST(read(at, layout->bytes / 4)[layout->levels[3].offset / 4] == 1);
}

BOOST_FIXTURE_TEST_CASE(an_array_is_destroyed_after_the_work_before_it,
                        with_used_array) {
  BOOST_REQUIRE(unit.destroy_array(array_id{1}).ok());
  BOOST_TEST(!unit.destroy_array(array_id{1}).ok());
  BOOST_TEST(arrays_here() == 1U);
  hold(0);
  BOOST_TEST(done.wait() == CUDA_SUCCESS);
  outcome all;
  dev->when_done(std::nullopt, all.tell());
  BOOST_TEST(all.wait() == CUDA_SUCCESS);
  // The array may be destroyed before or after the read is reported.
  auto until = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  while (arrays_here() != 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  BOOST_TEST(arrays_here() == 0U);
}

// The driver puts variables where what was dropped lay, so what is dropped late
// in one worker must not be dropped earlier in the next one.
BOOST_FIXTURE_TEST_CASE(nothing_is_placed_before_earlier_objects_are_dropped,
                        with_used_array) {
  BOOST_REQUIRE(unit.destroy_array(array_id{1}).ok());
  BOOST_TEST(arrays_here() == 1U);
  auto left_by_module = std::async(std::launch::async, [&] {
    (void)dev->load_module(module_id{1}, {});
    return arrays_here();
  });
  hold(0);
  BOOST_TEST(left_by_module.get() == 0U);
  BOOST_TEST(done.wait() == CUDA_SUCCESS);
}

// The driver would wait for that stream, on the thread that calls the program.
BOOST_FIXTURE_TEST_CASE(an_array_stays_while_a_stream_waits_for_the_program,
                        with_used_array) {
  outcome started, ended;
  std::function<void()> go_on;
  BOOST_REQUIRE(unit.destroy_array(array_id{1}).ok());
  BOOST_REQUIRE(dev->enqueue_host(legacy_stream,
                                  [&](std::function<void()> x) {
                                    go_on = std::move(x);
                                    started.tell()(CUDA_SUCCESS);
                                  })
                    .ok());
  dev->when_done(legacy_stream, ended.tell());
  hold(0);
  BOOST_TEST(done.wait() == CUDA_SUCCESS);
  // The same thread reports this later.
  BOOST_TEST(started.wait() == CUDA_SUCCESS);
  BOOST_TEST(arrays_here() == 1U);
  go_on();
  hold(0); // the fake driver runs nothing by itself
  BOOST_TEST(ended.wait() == CUDA_SUCCESS);
  array(2, floats(8, 8, 0));
  BOOST_TEST(arrays_here() == 1U);
}

BOOST_AUTO_TEST_CASE(
    an_object_gets_its_former_value_or_the_restore_is_refused) {
  array(1, floats(8, 8, 0));
  texture_spec what;
  what.array = 1;
  auto first = unit.create_texture(texture_id{1}, what);
  BOOST_REQUIRE(first.ok());
  BOOST_TEST(*first == 1U);
  BOOST_TEST(unit.name_texture(texture_id{1}, 1).ok());
  // On the former device objects were made in another order, so this value is
  // found a few objects later.
  auto second = unit.create_texture(texture_id{2}, what);
  BOOST_REQUIRE(second.ok());
  BOOST_TEST(unit.name_texture(texture_id{2}, 9).ok());
  BOOST_TEST(objects() == 2U);
  auto third = unit.create_texture(texture_id{3}, what);
  BOOST_REQUIRE(third.ok());
  BOOST_TEST(*third == 2U);
  // Another object has the value, or the driver's values begin elsewhere.
  BOOST_TEST(!unit.name_texture(texture_id{3}, 9).ok());
  call<void(unsigned long long)>("fake_first_object")(1000);
  auto fourth = unit.create_texture(texture_id{4}, what);
  BOOST_REQUIRE(fourth.ok());
  auto refused = unit.name_texture(texture_id{4}, 3);
  BOOST_REQUIRE(!refused.ok());
  BOOST_TEST(refused.why().what.find("cannot be restored here") !=
             std::string::npos);
  BOOST_TEST(objects() == 4U);
  for (auto id : {1U, 2U, 3U, 4U})
    BOOST_TEST(unit.destroy_texture(texture_id{id}).ok());
  BOOST_TEST(objects() == 0U);
  BOOST_TEST(!unit.destroy_texture(texture_id{1}).ok());
}

BOOST_AUTO_TEST_SUITE_END()
