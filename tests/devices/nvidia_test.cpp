// The nvidia device's own logic, on a stand-in for the driver.
#define BOOST_TEST_MODULE nvidia
#include "devices/memory_unit.hpp"
#include "devices/nvidia/driver.hpp"
#include "devices/nvidia/image_names.hpp"
#include "devices/nvidia/nvidia_device.hpp"
#include "devices/nvidia/window.hpp"
#include "devices/texture_unit.hpp"

#include <boost/test/unit_test.hpp>

#include <dlfcn.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>

using namespace vgpu;
using namespace vgpu::device;

namespace {

constexpr auto base = first_window + 5 * window_bytes;
constexpr auto g = granule_bytes;

void choose_driver(const std::string& path) {
  ::setenv("VGPU_NVIDIA_DRIVER", path.c_str(), 1);
}

/// A completion that can be waited for.
class outcome {
public:
  completion tell() {
    return [this](CUresult x) {
      std::lock_guard guard{mutex_};
      value_ = x;
      wake_.notify_all();
    };
  }
  CUresult wait() {
    std::unique_lock guard{mutex_};
    wake_.wait(guard, [&] { return value_.has_value(); });
    return *value_;
  }
  bool told() {
    std::lock_guard guard{mutex_};
    return value_.has_value();
  }

private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::optional<CUresult> value_;
};

/// The stand-in, as the only driver there is.
struct fake {
  fake() {
    choose_driver(FAKE_DRIVER);
    api = *nvidia::open_driver(FAKE_DRIVER);
    call<void()>("fake_reset")();
  }
  ~fake() { call<void(int)>("fake_fail")(0); }

  template <class F>
  static F* call(const char* name) {
    static auto* library = ::dlopen(FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<F*>(::dlsym(library, name));
  }
  static void hold(int x) { call<void(int)>("fake_hold")(x); }
  static void fail(CUresult x) {
    call<void(int)>("fake_fail")(static_cast<int>(x));
  }
  static std::uint64_t created() {
    return call<std::uint64_t()>("fake_created")();
  }

  nvidia::driver_ptr api;
};

struct with_window : fake {
  with_window() : before(created()), memory(api, 0) {
    BOOST_REQUIRE(memory.reserve(base).ok());
  }
  std::uint64_t here() const { return created() - before; }

  std::uint64_t before;
  nvidia::window memory;
};

/// The first device takes stdout and stderr; the tests' reports go there too.
class kept_descriptors {
public:
  ~kept_descriptors() {
    for (auto fd : {STDOUT_FILENO, STDERR_FILENO}) {
      ::dup2(copies_[fd - 1], fd);
      ::close(copies_[fd - 1]);
    }
  }

private:
  int copies_[2] = {::dup(STDOUT_FILENO), ::dup(STDERR_FILENO)};
};

struct with_device : fake {
  with_device() {
    kept_descriptors kept;
    auto opened = open_nvidia_device(0);
    BOOST_REQUIRE(opened.ok());
    dev = std::move(*opened);
    BOOST_REQUIRE(dev->reserve_window(base).ok());
  }
  ~with_device() { hold(0); }

  std::unique_ptr<device::device> dev;
};

} // namespace

namespace {

/// Arrays lie at addresses that have no memory.
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

} // namespace

// -- memory that the program places by itself ---------------------------------

BOOST_FIXTURE_TEST_SUITE(placed_memory, with_device)

BOOST_AUTO_TEST_CASE(it_is_the_drivers_and_lies_where_the_program_wants_it) {
  auto& unit = dynamic_cast<memory_unit&>(*dev);
  auto before = created();
  BOOST_REQUIRE(unit.create_memory(memory_id{1}, 4 * g).ok());
  BOOST_TEST(created() - before == 4 * g);
  BOOST_TEST(unit.map_memory(base + 8 * g, 2 * g, memory_id{1}, 2 * g).ok());
  BOOST_TEST(unit.map_memory(base + 9 * g, g, memory_id{1}, 0).code() ==
             CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(
      unit.set_access(base + 8 * g, 2 * g, memory_access::read_write).ok());
  BOOST_TEST(unit.unmap_memory(base + 8 * g, 2 * g).ok());
  BOOST_TEST(unit.destroy_memory(memory_id{1}).ok());
  BOOST_TEST(created() == before);
  BOOST_TEST(!unit.destroy_memory(memory_id{1}).ok());
  BOOST_TEST(!unit.map_memory(base + 8 * g, g, memory_id{1}, 0).ok());
}

BOOST_AUTO_TEST_CASE(what_was_kept_at_these_addresses_goes) {
  auto& unit = dynamic_cast<memory_unit&>(*dev);
  BOOST_REQUIRE(dev->map(base, 4 * g).ok());
  BOOST_REQUIRE(unit.create_memory(memory_id{1}, 2 * g).ok());
  // In use: nothing is taken from under it.
  BOOST_TEST(!unit.map_memory(base, 2 * g, memory_id{1}, 0).ok());
  BOOST_REQUIRE(dev->unmap(base, 4 * g).ok());
  outcome done;
  dev->when_done(std::nullopt, done.tell());
  BOOST_REQUIRE_EQUAL(done.wait(), CUDA_SUCCESS);
  BOOST_TEST(unit.map_memory(base, 2 * g, memory_id{1}, 0).ok());
  BOOST_TEST(unit.unmap_memory(base, 2 * g).ok());
  BOOST_TEST(unit.destroy_memory(memory_id{1}).ok());
}

BOOST_AUTO_TEST_SUITE_END()

// -- modules that are linked at run time --------------------------------------

BOOST_FIXTURE_TEST_SUITE(linking, with_device)

/// Containers one behind the other: of these sizes, their headers included.
std::vector<std::byte> containers(const std::vector<std::uint64_t>& sizes) {
  std::vector<std::byte> out;
  for (auto size : sizes) {
    std::uint64_t words[] = {0x0010'0001'BA55'ED50, size - 16};
    auto header = std::as_bytes(std::span{words});
    out.insert(out.end(), header.begin(), header.end());
    out.resize(out.size() + size - 16);
  }
  return out;
}

BOOST_AUTO_TEST_CASE(parts_behind_an_empty_container_go_to_the_linker) {
  auto linked = call<std::uint64_t(std::uint64_t*)>("fake_linked");
  std::uint64_t before = 0;
  auto parts = linked(&before);
  auto got = dev->load_module(module_id{1}, containers({16, 64, 128}));
  std::uint64_t bytes = 0;
  BOOST_TEST(linked(&bytes) - parts == 2);
  BOOST_TEST(bytes - before == 64 + 128);
  // The stand-in loads nothing: that is told, and as what it is.
  BOOST_REQUIRE(!got.ok());
  BOOST_TEST(got.why().what.find("parts cannot be linked") !=
             std::string::npos);
  // What a toolchain linked is the driver's to load as a whole.
  got = dev->load_module(module_id{1}, containers({32, 64}));
  BOOST_TEST(linked(&bytes) - parts == 2);
  BOOST_TEST(got.why().what.find("a module cannot be loaded") !=
             std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

// -- finding the driver -------------------------------------------------------

BOOST_AUTO_TEST_SUITE(driver)

BOOST_AUTO_TEST_CASE(our_own_library_is_refused) {
  auto opened = nvidia::open_driver(OUR_LIBRARY);
  BOOST_REQUIRE(!opened.ok());
  BOOST_TEST(opened.why().what.find("vgpu's own") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_copy_of_our_own_library_is_refused) {
  auto copy = std::filesystem::temp_directory_path() /
              ("libcuda.so." + std::to_string(::getpid()));
  std::filesystem::copy_file(OUR_LIBRARY, copy);
  auto opened = nvidia::open_driver(copy);
  std::filesystem::remove(copy);
  BOOST_REQUIRE(!opened.ok());
  BOOST_TEST(opened.why().what.find("a copy of vgpu's own") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_driver_that_is_not_there_is_named) {
  choose_driver("/nowhere/libcuda.so.1");
  auto found = nvidia::find_driver();
  BOOST_REQUIRE(!found.ok());
  BOOST_TEST(found.why().code == CUDA_ERROR_NO_DEVICE);
  BOOST_TEST(found.why().what.find("/nowhere/libcuda.so.1") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_relative_path_is_refused) {
  BOOST_TEST(!nvidia::open_driver("libcuda.so.1").ok());
}

BOOST_FIXTURE_TEST_CASE(properties_survive_their_way_through_text, fake) {
  auto all = nvidia_properties();
  BOOST_REQUIRE(all.ok());
  auto again = read_properties(write_properties(*all));
  BOOST_REQUIRE(again.ok());
  BOOST_REQUIRE(again->size() == 1);
  auto& x = again->front();
  BOOST_TEST(x.name == "Fake GPU 9000");
  BOOST_TEST((x.uuid == all->front().uuid));
  BOOST_TEST(x.total_memory == std::uint64_t{1} << 40);
  BOOST_TEST((x.attributes == all->front().attributes));
  // What the driver does not know is absent; what does not hold here is 0.
  BOOST_TEST(!x.attributes.contains(7));
  BOOST_TEST(x.attributes.at(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS) == 0);
}

BOOST_AUTO_TEST_CASE(other_text_describes_no_gpus) {
  BOOST_TEST(!read_properties("attribute 1 2\n").ok());
  BOOST_TEST(!read_properties("device 1 xx name\n").ok());
  BOOST_TEST(read_properties("")->empty());
}

BOOST_AUTO_TEST_SUITE_END()

// -- memory -------------------------------------------------------------------

BOOST_FIXTURE_TEST_SUITE(windows, with_window)

BOOST_AUTO_TEST_CASE(only_whole_granules_of_the_window_are_backed) {
  BOOST_TEST(!memory.map(base + 1, g).ok());
  BOOST_TEST(!memory.map(base, g / 2).ok());
  BOOST_TEST(!memory.map(base - g, g).ok());
  BOOST_TEST(!memory.map(base + window_bytes - g, 2 * g).ok());
  BOOST_TEST(memory.map(base, g).ok());
  BOOST_TEST(memory.map(base, g).code() == CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(here() == g);
}

BOOST_AUTO_TEST_CASE(what_is_given_back_is_kept_and_used_again) {
  BOOST_REQUIRE(memory.map(base, 4 * g).ok());
  BOOST_REQUIRE(memory.retire(base, 4 * g).ok());
  BOOST_TEST(memory.map(base, 4 * g).ok()); // while it is still leaving
  memory.release(base, 4 * g);
  BOOST_TEST(here() == 4 * g);
  BOOST_TEST(!memory.map(base, g).ok()); // it is not gone
}

BOOST_AUTO_TEST_CASE(much_goes_back_to_the_device) {
  auto much = nvidia::window::kept_bytes * 4;
  BOOST_REQUIRE(memory.map(base, much).ok());
  BOOST_REQUIRE(memory.retire(base, much).ok());
  BOOST_TEST(here() == much);
  memory.release(base, much);
  BOOST_TEST(here() <= nvidia::window::kept_bytes);
}

BOOST_AUTO_TEST_CASE(the_last_granule_outlives_the_rest) {
  BOOST_REQUIRE(memory.map(base, 101 * g).ok());
  BOOST_REQUIRE(memory.retire(base, 100 * g).ok());
  memory.release(base, 100 * g);
  BOOST_TEST(here() == g);
}

BOOST_AUTO_TEST_CASE(a_part_of_a_piece_waits_for_the_rest) {
  BOOST_REQUIRE(memory.map(base, 100 * g).ok());
  BOOST_REQUIRE(memory.retire(base, 10 * g).ok());
  memory.release(base, 10 * g);
  BOOST_TEST(here() == 100 * g);
  BOOST_TEST(memory.map(base + 2 * g, 3 * g).ok()); // what waits is there
  BOOST_REQUIRE(memory.retire(base + 2 * g, 3 * g).ok());
  BOOST_REQUIRE(memory.retire(base + 10 * g, 90 * g).ok());
  memory.release(base + 10 * g, 90 * g);
  BOOST_TEST(here() >= 99 * g); // the three are still leaving
  memory.release(base + 2 * g, 3 * g);
  BOOST_TEST(here() == g); // kept
}

BOOST_AUTO_TEST_CASE(what_is_kept_makes_room_before_memory_is_refused) {
  BOOST_REQUIRE(memory.map(base, 8 * g).ok());
  BOOST_REQUIRE(memory.retire(base, 8 * g).ok());
  memory.release(base, 8 * g);
  BOOST_TEST(here() == 8 * g);
  call<void(std::uint64_t)>("fake_memory")(created());
  BOOST_TEST(memory.map(base + 100 * g, 6 * g).ok());
  BOOST_TEST(here() == 6 * g);
}

BOOST_AUTO_TEST_CASE(a_refusal_leaves_nothing_behind) {
  BOOST_REQUIRE(memory.map(base + 2 * g, g).ok());
  BOOST_REQUIRE(memory.retire(base + 2 * g, g).ok());
  call<void(std::uint64_t)>("fake_memory")(created() + 2 * g);
  auto ok = memory.map(base, 100 * g);
  BOOST_TEST(ok.code() == CUDA_ERROR_OUT_OF_MEMORY);
  memory.release(base + 2 * g, g);
  call<void(std::uint64_t)>("fake_memory")(std::uint64_t{1} << 40);
  BOOST_TEST(memory.map(base, 100 * g).ok());
  BOOST_TEST(here() == 100 * g);
}

BOOST_AUTO_TEST_SUITE_END()

// -- the device ---------------------------------------------------------------

BOOST_FIXTURE_TEST_SUITE(devices, with_device)

BOOST_AUTO_TEST_CASE(an_idle_stream_is_done_at_once) {
  outcome done;
  dev->when_done(legacy_stream, done.tell());
  BOOST_TEST(done.told());
  BOOST_TEST(done.wait() == CUDA_SUCCESS);
}

BOOST_AUTO_TEST_CASE(nothing_is_done_before_the_stream_is) {
  hold(1);
  BOOST_REQUIRE(dev->create_event(event_id{1}, false).ok());
  BOOST_REQUIRE(dev->record_event(event_id{1}, legacy_stream).ok());
  outcome stream, all, event;
  dev->when_done(legacy_stream, stream.tell());
  dev->when_done(std::nullopt, all.tell());
  dev->when_recorded(event_id{1}, event.tell());
  BOOST_TEST(!dev->idle(legacy_stream));
  BOOST_TEST(!*dev->query_event(event_id{1}));
  BOOST_TEST((!stream.told() && !all.told() && !event.told()));
  hold(0);
  BOOST_TEST(stream.wait() == CUDA_SUCCESS);
  BOOST_TEST(all.wait() == CUDA_SUCCESS);
  BOOST_TEST(event.wait() == CUDA_SUCCESS);
  BOOST_TEST(*dev->query_event(event_id{1}));
}

BOOST_AUTO_TEST_CASE(streams_of_its_own_are_waited_for_too) {
  BOOST_REQUIRE(dev->create_stream(stream_id{2}, true, 0).ok());
  BOOST_REQUIRE(dev->create_event(event_id{1}, false).ok());
  BOOST_REQUIRE(dev->record_event(event_id{1}, stream_id{2}).ok());
  outcome stream, all;
  dev->when_done(stream_id{2}, stream.tell());
  BOOST_TEST(stream.wait() == CUDA_SUCCESS);
  BOOST_REQUIRE(dev->record_event(event_id{1}, stream_id{2}).ok());
  BOOST_REQUIRE(dev->destroy_stream(stream_id{2}).ok());
  dev->when_done(std::nullopt, all.tell());
  BOOST_TEST(all.wait() == CUDA_SUCCESS);
}

BOOST_AUTO_TEST_CASE(a_record_is_not_mistaken_for_a_later_one) {
  hold(1);
  BOOST_REQUIRE(dev->create_event(event_id{1}, false).ok());
  BOOST_REQUIRE(dev->record_event(event_id{1}, legacy_stream).ok());
  BOOST_REQUIRE(dev->create_event(event_id{2}, false).ok());
  BOOST_REQUIRE(dev->record_event(event_id{2}, legacy_stream).ok());
  outcome first;
  dev->when_recorded(event_id{1}, first.tell());
  hold(0);
  BOOST_TEST(first.wait() == CUDA_SUCCESS);
  hold(1);
  BOOST_REQUIRE(dev->record_event(event_id{1}, legacy_stream).ok());
  outcome second;
  dev->when_recorded(event_id{1}, second.tell());
  BOOST_TEST(!second.told());
  hold(0);
  BOOST_TEST(second.wait() == CUDA_SUCCESS);
}

BOOST_AUTO_TEST_CASE(a_fault_reaches_all_who_wait_and_stays) {
  hold(1);
  BOOST_REQUIRE(dev->create_event(event_id{1}, false).ok());
  BOOST_REQUIRE(dev->record_event(event_id{1}, legacy_stream).ok());
  outcome waiting, later;
  dev->when_done(legacy_stream, waiting.tell());
  fail(CUDA_ERROR_ILLEGAL_ADDRESS);
  BOOST_TEST(waiting.wait() == CUDA_ERROR_ILLEGAL_ADDRESS);
  BOOST_TEST(dev->error() == CUDA_ERROR_ILLEGAL_ADDRESS);
  dev->when_done(legacy_stream, later.tell());
  BOOST_TEST(later.wait() == CUDA_ERROR_ILLEGAL_ADDRESS);
  BOOST_TEST(dev->record_event(event_id{1}, legacy_stream).code() ==
             CUDA_ERROR_ILLEGAL_ADDRESS);
}

BOOST_AUTO_TEST_CASE(a_refusal_is_no_fault) {
  std::string text = ".version 9.0\n";
  BOOST_TEST(
      !dev->load_module(module_id{1}, std::as_bytes(std::span{text})).ok());
  BOOST_TEST(dev->error() == CUDA_SUCCESS);
}

BOOST_AUTO_TEST_CASE(a_lost_device_lets_nobody_wait) {
  hold(1);
  BOOST_REQUIRE(dev->create_event(event_id{1}, false).ok());
  BOOST_REQUIRE(dev->record_event(event_id{1}, legacy_stream).ok());
  outcome waiting;
  dev->when_done(legacy_stream, waiting.tell());
  dev->inject(injected_fault::lost);
  BOOST_TEST(waiting.wait() == CUDA_ERROR_DEVICE_UNAVAILABLE);
  BOOST_TEST(dev->map(base, g).code() == CUDA_ERROR_DEVICE_UNAVAILABLE);
}

BOOST_AUTO_TEST_CASE(closing_tells_who_still_waits) {
  hold(1);
  BOOST_REQUIRE(dev->create_event(event_id{1}, false).ok());
  BOOST_REQUIRE(dev->record_event(event_id{1}, legacy_stream).ok());
  outcome waiting;
  dev->when_done(legacy_stream, waiting.tell());
  dev.reset();
  BOOST_TEST(waiting.wait() == CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

BOOST_AUTO_TEST_CASE(reads_arrive_through_pinned_memory_and_directly) {
  std::vector<char> source(9 << 20);
  for (std::size_t i = 0; i < source.size(); ++i)
    source[i] = static_cast<char>(i * 7);
  auto from = reinterpret_cast<device_address>(source.data());
  std::vector<char> target(source.size());
  auto read = [&](std::size_t bytes) {
    std::fill(target.begin(), target.end(), 0);
    outcome done;
    auto into = std::as_writable_bytes(std::span{target}).first(bytes);
    BOOST_REQUIRE(
        dev->enqueue_read(legacy_stream, into, from, done.tell()).ok());
    BOOST_TEST(done.wait() == CUDA_SUCCESS);
    BOOST_TEST(std::equal(source.begin(),
                          source.begin() + static_cast<long>(bytes),
                          target.begin()));
  };
  read(3);
  read(source.size());
  dev->reads_into(std::as_writable_bytes(std::span{target}));
  read(3);
  read(source.size());
}

BOOST_AUTO_TEST_CASE(large_writes_are_taken_at_once) {
  std::vector<char> source(9 << 20, 'x');
  std::vector<char> target(source.size());
  hold(1);
  BOOST_REQUIRE(
      dev->enqueue_write(legacy_stream,
                         reinterpret_cast<device_address>(target.data()),
                         std::as_bytes(std::span{source}), nullptr)
          .ok());
  std::fill(source.begin(), source.end(), 'y');
  outcome done;
  dev->when_done(legacy_stream, done.tell());
  hold(0);
  BOOST_TEST(done.wait() == CUDA_SUCCESS);
  BOOST_TEST(std::count(target.begin(), target.end(), 'x') ==
             static_cast<long>(target.size()));
}

BOOST_AUTO_TEST_CASE(a_host_function_stops_its_stream_until_it_ends) {
  outcome started, after;
  std::function<void()> go_on;
  std::mutex mutex;
  BOOST_REQUIRE(dev->enqueue_host(legacy_stream,
                                  [&](std::function<void()> x) {
                                    {
                                      std::lock_guard guard{mutex};
                                      go_on = std::move(x);
                                    }
                                    started.tell()(CUDA_SUCCESS);
                                  })
                    .ok());
  BOOST_REQUIRE(dev->create_event(event_id{1}, false).ok());
  BOOST_REQUIRE(dev->record_event(event_id{1}, legacy_stream).ok());
  dev->when_done(legacy_stream, after.tell());
  BOOST_TEST(started.wait() == CUDA_SUCCESS);
  BOOST_TEST(!after.told());
  std::lock_guard guard{mutex};
  go_on();
  hold(0); // the stand-in does not look by itself
  BOOST_TEST(after.wait() == CUDA_SUCCESS);
}

BOOST_AUTO_TEST_SUITE_END()

// -- images -------------------------------------------------------------------

BOOST_AUTO_TEST_SUITE(images)

BOOST_AUTO_TEST_CASE(variables_of_ptx_are_those_of_module_scope) {
  std::string_view text = R"(
    .version 8.0
    .target sm_70
    // .global .b32 commented;
    /* .const .b32 out; */
    .visible .global .align 4 .u32 plain;
    .global .align 1 .b8 $str[3] = {37, 100, 0};
    .visible .const .align 8 .b8 table[64];
    .extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
    .visible .entry k(.param .u64 p) {
      .reg .b32 %r<3>;
      .shared .align 4 .b8 inner[16];
      ld.global.u32 %r1, [plain];
      ret;
    }
    .weak .global .f32 last = 0f3F800000;
  )";
  auto names = nvidia::names_of(std::as_bytes(std::span{text}));
  std::set<std::string> expected{"plain", "$str", "table", "last"};
  BOOST_TEST(names.variables == expected, boost::test_tools::per_element());
  BOOST_TEST(names.prints);
}

BOOST_AUTO_TEST_CASE(all_forms_of_an_image_name_the_same) {
  auto of = [](const char* name) {
    std::ifstream in{std::string{DEVICE_CODE} + "/" + name, std::ios::binary};
    std::string bytes{std::istreambuf_iterator<char>{in}, {}};
    BOOST_REQUIRE(!bytes.empty());
    return nvidia::names_of(std::as_bytes(std::span{bytes}));
  };
  auto ptx = of("kernels.ptx");
  BOOST_TEST(!ptx.variables.empty());
  for (auto* form : {"kernels.default.fatbin", "kernels.speed.fatbin",
                     "kernels.size.fatbin", "kernels.cubin"}) {
    auto names = of(form);
    for (auto& x : ptx.variables)
      if (x.front() != '$')
        BOOST_TEST(names.variables.contains(x), form << " lacks " << x);
    BOOST_TEST(names.prints == ptx.prints);
  }
}

BOOST_AUTO_TEST_CASE(hostile_bytes_name_nothing_and_break_nothing) {
  std::string elf{"\x7f"
                  "ELF",
                  4};
  elf.resize(64, '\xff');
  BOOST_TEST(nvidia::names_of(std::as_bytes(std::span{elf})).variables.empty());
  std::string open_comment = "/* .global .b32 x;";
  BOOST_TEST(nvidia::names_of(std::as_bytes(std::span{open_comment}))
                 .variables.empty());
}

BOOST_AUTO_TEST_SUITE_END()

// -- arrays, textures and surfaces --------------------------------------------

BOOST_FIXTURE_TEST_SUITE(arrays, with_arrays)

BOOST_AUTO_TEST_CASE(any_range_of_an_array_is_cut_into_boxes) {
  constexpr std::size_t w = 7, h = 5, d = 3, n = w * h * d;
  auto at = array(1, floats(w, h, d));
  auto all = counted(n);
  write(at, all, 0, n);
  BOOST_TEST(read(at, n) == all, boost::test_tools::per_element());
  // From every element on, and of every length.
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
  // Rows of another length: bytes after bytes.
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
  // Beyond its end there is nothing.
  BOOST_TEST(
      !dev->enqueue_copy(legacy_stream, {b, 0, 0}, {a + 320, 0, 0}, {128, 1, 1})
           .ok());
}

BOOST_AUTO_TEST_CASE(levels_lie_one_behind_the_other) {
  auto shape = floats(8, 8, 0, 4);
  auto layout = layout_of(shape);
  BOOST_REQUIRE(layout);
  auto at = array(1, shape);
  for (auto& l : layout->levels)
    write(at + l.offset, counted(l.width * l.rows), 0, l.width * l.rows);
  for (auto& l : layout->levels)
    BOOST_TEST(
        (read(at + l.offset, l.width * l.rows) == counted(l.width * l.rows)));
  // All at once, with what lies between them.
  BOOST_TEST(read(at, layout->bytes / 4)[layout->levels[3].offset / 4] == 1);
}

BOOST_AUTO_TEST_CASE(an_array_goes_when_the_work_before_is_done) {
  auto at = array(1, floats(8, 8, 0));
  hold(1);
  std::vector<int> out(64);
  outcome done;
  BOOST_REQUIRE(dev->enqueue_read(legacy_stream,
                                  std::as_writable_bytes(std::span{out}), at,
                                  done.tell())
                    .ok());
  BOOST_REQUIRE(unit.destroy_array(array_id{1}).ok());
  BOOST_TEST(!unit.destroy_array(array_id{1}).ok());
  BOOST_TEST(arrays_here() == 1U);
  hold(0);
  BOOST_TEST(done.wait() == CUDA_SUCCESS);
  outcome all;
  dev->when_done(std::nullopt, all.tell());
  BOOST_TEST(all.wait() == CUDA_SUCCESS);
  BOOST_TEST(arrays_here() == 0U);
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
  // Objects were made in another order then: it is found a few further.
  auto second = unit.create_texture(texture_id{2}, what);
  BOOST_REQUIRE(second.ok());
  BOOST_TEST(unit.name_texture(texture_id{2}, 9).ok());
  BOOST_TEST(objects() == 2U);
  auto third = unit.create_texture(texture_id{3}, what);
  BOOST_REQUIRE(third.ok());
  BOOST_TEST(*third == 2U);
  // Another object has it, or the driver counts from elsewhere.
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
