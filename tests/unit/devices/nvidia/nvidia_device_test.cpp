// The nvidia device's own logic, on a fake driver.
#include "devices/nvidia/driver/image_names.hpp"
#include "schema/base/cuda_fault.hpp"
#include "tests/unit/devices/nvidia/nvidia_fixture.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace vgpu;
using namespace vgpu::device;
using namespace vgpu::test;

// -- modules that are linked at run time --------------------------------------

BOOST_FIXTURE_TEST_SUITE(linking, with_device)

/// Returns containers of these sizes, headers included, one after the other.
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
  // The fake driver loads nothing, and the failure names the linking.
  BOOST_REQUIRE(!got.ok());
  BOOST_TEST(got.why().what.find("parts cannot be linked") !=
             std::string::npos);
  // The driver loads an image that a toolchain linked as a whole.
  got = dev->load_module(module_id{1}, containers({32, 64}));
  BOOST_TEST(linked(&bytes) - parts == 2);
  BOOST_TEST(got.why().what.find("a module cannot be loaded") !=
             std::string::npos);
}

/// Returns a container with one text, as programs' parts are.
std::vector<std::byte> container_of(std::string_view text) {
  std::uint64_t entry[8] = {0x0000'0040'0101'0001, text.size()};
  std::uint64_t head[] = {0x0010'0001'BA55'ED50, sizeof entry + text.size()};
  auto out = containers({16});
  auto add = [&out](std::span<const std::byte> x) {
    out.insert(out.end(), x.begin(), x.end());
  };
  add(std::as_bytes(std::span{head}));
  add(std::as_bytes(std::span{entry}));
  add(std::as_bytes(std::span{text}));
  return out;
}

BOOST_AUTO_TEST_CASE(a_part_of_text_is_linked_as_text) {
  auto texts = call<std::uint64_t()>("fake_linked_texts");
  auto before = texts();
  (void)dev->load_module(module_id{1}, container_of(".version 8.0 "));
  BOOST_TEST(texts() - before == 1);
}

BOOST_AUTO_TEST_SUITE_END()

// -- options of the compiler, hints of launches
// ------------------------------------------------------------------

BOOST_FIXTURE_TEST_SUITE(options, with_device)

std::span<const std::byte> as_image(std::string_view text) {
  return std::as_bytes(std::span{text});
}

BOOST_AUTO_TEST_CASE(a_programs_options_reach_the_compiler) {
  auto option = call<std::uint64_t(int)>("fake_compiled_with");
  jit_settings how{{{CU_JIT_MAX_REGISTERS, 32}}, {{"given", base}}};
  auto got = dev->load_module(module_id{1}, as_image("talkative"), how);
  BOOST_TEST(option(CU_JIT_MAX_REGISTERS) == 32U);
  BOOST_TEST(option(CU_JIT_GLOBAL_SYMBOL_COUNT) == 1U);
  BOOST_REQUIRE(!got.ok());
  BOOST_TEST(got.why().what == "the driver's words");
  // A part is given to a linker with the same options.
  how.options[CU_JIT_MAX_REGISTERS] = 40;
  auto checked = dev->check_part(as_image(".version 8.0 "), how);
  BOOST_TEST(checked.ok());
  BOOST_TEST(option(CU_JIT_MAX_REGISTERS) == 40U);
}

BOOST_AUTO_TEST_CASE(a_launch_with_a_refused_hint_is_made_without_it) {
  auto attributes = call<unsigned()>("fake_launched_with");
  auto loaded = dev->load_module(module_id{1}, as_image("delay with a kernel"));
  BOOST_REQUIRE(loaded.ok());
  launch_hint one;
  one.attribute = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  launch what{.module = module_id{1},
              .grid = {},
              .block = {},
              .cluster = {1, 1, 1},
              .parameters = {}};
  BOOST_TEST(dev->enqueue_launch(legacy_stream, what).ok());
  BOOST_TEST(attributes() == 1U);
  what.hints = {&one, 1};
  BOOST_TEST(dev->enqueue_launch(legacy_stream, what).ok());
  BOOST_TEST(attributes() == 1U); // the second try
  what.cluster = {0, 0, 0};
  BOOST_TEST(dev->enqueue_launch(legacy_stream, what).ok());
  BOOST_TEST(attributes() == 1U);
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

BOOST_AUTO_TEST_CASE(a_missing_driver_is_named) {
  choose_driver("/nowhere/libcuda.so.1");
  auto found = nvidia::find_driver();
  BOOST_REQUIRE(!found.ok());
  BOOST_TEST(cuda_code(found.why()) == CUDA_ERROR_NO_DEVICE);
  BOOST_TEST(found.why().what.find("/nowhere/libcuda.so.1") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_relative_path_is_refused) {
  BOOST_TEST(!nvidia::open_driver("libcuda.so.1").ok());
}

BOOST_FIXTURE_TEST_CASE(properties_survive_a_round_trip_as_text, fake) {
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
  // An attribute that the driver does not know is absent. One that does not
  // hold for a vGPU is 0.
  BOOST_TEST(!x.attributes.contains(7));
  BOOST_TEST(x.attributes.at(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS) == 0);
  // Neither does one that announces calls that a vGPU refuses.
  for (auto which :
       {CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED})
    BOOST_TEST(x.attributes.at(which) == 0);
}

BOOST_AUTO_TEST_CASE(other_text_is_refused_as_properties) {
  BOOST_TEST(!read_properties("attribute 1 2\n").ok());
  BOOST_TEST(!read_properties("device 1 xx name\n").ok());
  BOOST_TEST(read_properties("")->empty());
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

BOOST_AUTO_TEST_CASE(nothing_is_done_before_its_stream) {
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

BOOST_AUTO_TEST_CASE(quick_work_is_reported_by_the_asking_thread) {
  BOOST_REQUIRE(dev->create_event(event_id{1}, false).ok());
  auto told_by = [&](auto ask) {
    BOOST_REQUIRE(dev->record_event(event_id{1}, legacy_stream).ok());
    std::thread::id by;
    outcome done;
    ask([&, tell = done.tell()](CUresult how) {
      by = std::this_thread::get_id();
      tell(how);
    });
    BOOST_TEST(done.wait() == CUDA_SUCCESS);
    return by;
  };
  auto stream = [&](auto x) { dev->when_done(legacy_stream, x); };
  auto all = [&](auto x) { dev->when_done(std::nullopt, x); };
  auto event = [&](auto x) { dev->when_recorded(event_id{1}, x); };
  std::array<std::byte, 64> from{}, to{};
  auto read = [&](auto x) {
    auto at = reinterpret_cast<device_address>(from.data());
    (void)dev->enqueue_read(legacy_stream, to, at, x);
  };
  auto here = std::this_thread::get_id();
  BOOST_TEST((told_by(stream) == here));
  BOOST_TEST((told_by(all) == here));
  BOOST_TEST((told_by(event) == here));
  BOOST_TEST((told_by(read) == here));
}

BOOST_AUTO_TEST_CASE(behind_a_pending_wait_the_other_thread_reports) {
  BOOST_REQUIRE(dev->create_stream(stream_id{2}, true, 0).ok());
  for (auto id : {1u, 2u})
    BOOST_REQUIRE(dev->create_event(event_id{id}, false).ok());
  hold(1);
  BOOST_REQUIRE(dev->record_event(event_id{1}, legacy_stream).ok());
  BOOST_REQUIRE(dev->record_event(event_id{2}, stream_id{2}).ok());
  outcome before, behind;
  dev->when_recorded(event_id{1}, before.tell());
  std::thread::id by;
  dev->when_done(stream_id{2}, [&, tell = behind.tell()](CUresult how) {
    by = std::this_thread::get_id();
    tell(how);
  });
  BOOST_TEST(behind.wait() == CUDA_SUCCESS);
  BOOST_TEST((by != std::this_thread::get_id()));
  BOOST_TEST(!before.told());
  hold(0);
  BOOST_TEST(before.wait() == CUDA_SUCCESS);
}

/// Returns whether a thread of this process sleeps (proc(5), stat).
bool sleeps(pid_t thread) {
  std::ifstream file{"/proc/self/task/" + std::to_string(thread) + "/stat"};
  std::string line;
  std::getline(file, line);
  auto state = line.rfind(')') + 2;
  return state < line.size() && line[state] == 'S';
}

/// A read of stream 2 whose bytes have arrived. Its completion runs until the
/// asking thread has had to wait.
struct with_slow_reader : with_device {
  struct reading {
    std::atomic<bool> begun = false, asking = false, told = false;
  };

  with_slow_reader() {
    BOOST_REQUIRE(dev->create_stream(stream_id{2}, false, 0).ok());
    BOOST_REQUIRE(dev->create_event(event_id{1}, false).ok());
  }
  ~with_slow_reader() { dev.reset(); }

  void read_slowly() {
    now = std::make_shared<reading>();
    auto from = reinterpret_cast<device_address>(source.data());
    auto slow = [its = now, asker = ::gettid()](CUresult) {
      its->begun = true;
      its->begun.notify_all();
      its->asking.wait(false);
      // The asking thread waits for this read, or has overtaken it and waits
      // for the next one.
      while (!sleeps(asker))
        std::this_thread::yield();
      its->told = true;
    };
    BOOST_REQUIRE(dev->enqueue_read(stream_id{2},
                                    std::as_writable_bytes(std::span{target}),
                                    from, slow)
                      .ok());
    BOOST_REQUIRE(dev->record_event(event_id{1}, stream_id{2}).ok());
    now->begun.wait(false);
    now->asking = true;
    now->asking.notify_all();
  }
  /// Returns whether the read was reported before this request.
  bool comes_behind(auto ask) {
    read_slowly();
    outcome done;
    auto behind = false;
    ask([&, tell = done.tell()](CUresult how) {
      behind = now->told;
      tell(how);
    });
    BOOST_TEST(done.wait() == CUDA_SUCCESS);
    return behind;
  }

  std::vector<char> source = std::vector<char>(1 << 20, 'a'), target = source;
  std::shared_ptr<reading> now;
};

BOOST_FIXTURE_TEST_CASE(nothing_is_reported_before_an_earlier_read,
                        with_slow_reader) {
  BOOST_TEST(comes_behind([&](auto x) { dev->when_recorded(event_id{1}, x); }));
  BOOST_TEST(comes_behind([&](auto x) { dev->when_done(stream_id{2}, x); }));
  BOOST_TEST(comes_behind([&](auto x) { dev->when_done(legacy_stream, x); }));
  BOOST_TEST(comes_behind([&](auto x) { dev->when_done(std::nullopt, x); }));
  for (auto stream : {stream_id{2}, legacy_stream}) {
    read_slowly();
    BOOST_TEST(dev->idle(stream));
    BOOST_TEST(now->told);
  }
  read_slowly();
  BOOST_TEST(*dev->query_event(event_id{1}));
  BOOST_TEST(now->told);
}

BOOST_AUTO_TEST_CASE(created_streams_are_waited_for) {
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

BOOST_AUTO_TEST_CASE(a_fault_ends_all_waits_and_stays) {
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
  BOOST_TEST(cuda_code(dev->record_event(event_id{1}, legacy_stream)) ==
             CUDA_ERROR_ILLEGAL_ADDRESS);
}

BOOST_AUTO_TEST_CASE(a_refused_module_is_not_a_device_fault) {
  std::string text = ".version 9.0\n";
  BOOST_TEST(
      !dev->load_module(module_id{1}, std::as_bytes(std::span{text})).ok());
  BOOST_TEST(dev->error() == CUDA_SUCCESS);
}

BOOST_AUTO_TEST_CASE(a_lost_device_ends_all_waits) {
  hold(1);
  BOOST_REQUIRE(dev->create_event(event_id{1}, false).ok());
  BOOST_REQUIRE(dev->record_event(event_id{1}, legacy_stream).ok());
  outcome waiting;
  dev->when_done(legacy_stream, waiting.tell());
  dev->inject(injected_fault::lost);
  BOOST_TEST(waiting.wait() == CUDA_ERROR_DEVICE_UNAVAILABLE);
  BOOST_TEST(cuda_code(dev->map(base, g)) == CUDA_ERROR_DEVICE_UNAVAILABLE);
}

BOOST_AUTO_TEST_CASE(closing_ends_all_waits) {
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

BOOST_AUTO_TEST_CASE(large_writes_copy_their_bytes_at_once) {
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
  hold(0); // the fake driver runs nothing by itself
  BOOST_TEST(after.wait() == CUDA_SUCCESS);
}

/// Bytes that the program sends late go into memory that the device uses, while
/// the stream that copies them stands still.
BOOST_AUTO_TEST_CASE(a_copy_takes_what_was_written_while_its_stream_stood) {
  outcome started, after;
  std::function<void()> go_on;
  std::mutex mutex;
  alignas(4096) static std::array<char, 4096> room{};
  std::vector<char> target(room.size());
  auto at = [](void* x) { return reinterpret_cast<device_address>(x); };
  BOOST_REQUIRE(dev->attach_host(at(room.data()), room.size()).ok());
  BOOST_REQUIRE(dev->enqueue_host(legacy_stream,
                                  [&](std::function<void()> x) {
                                    {
                                      std::lock_guard guard{mutex};
                                      go_on = std::move(x);
                                    }
                                    started.tell()(CUDA_SUCCESS);
                                  })
                    .ok());
  BOOST_REQUIRE(dev->enqueue_copy(legacy_stream, {at(target.data())},
                                  {at(room.data())}, {room.size(), 1, 1})
                    .ok());
  dev->when_done(legacy_stream, after.tell());
  BOOST_TEST(started.wait() == CUDA_SUCCESS);
  room.fill('x');
  std::lock_guard guard{mutex};
  go_on();
  hold(0);
  BOOST_TEST(after.wait() == CUDA_SUCCESS);
  BOOST_TEST(std::count(target.begin(), target.end(), 'x') ==
             static_cast<long>(target.size()));
  BOOST_TEST(dev->detach_host(at(room.data()), room.size()).ok());
}

BOOST_AUTO_TEST_SUITE_END()

// -- images -------------------------------------------------------------------

BOOST_AUTO_TEST_SUITE(images)

BOOST_AUTO_TEST_CASE(only_variables_of_module_scope_are_named) {
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
  auto names_in = [](std::string_view x) {
    return nvidia::names_of(std::as_bytes(std::span{x}), 75);
  };
  auto names = names_in(text);
  std::set<std::string> expected{"plain", "$str", "table", "last"};
  BOOST_TEST(names.variables == expected, boost::test_tools::per_element());
  BOOST_TEST(names.prints);
  BOOST_TEST(!names.allocates);
  BOOST_TEST(names_in(".extern .func (.param .b64 r) malloc (.param .b64 n);")
                 .allocates);
}

BOOST_AUTO_TEST_CASE(all_forms_of_an_image_name_the_same_variables) {
  auto of = [](const char* name, unsigned arch = 75) {
    std::ifstream in{std::string{DEVICE_CODE} + "/" + name, std::ios::binary};
    std::string bytes{std::istreambuf_iterator<char>{in}, {}};
    BOOST_REQUIRE(!bytes.empty());
    return nvidia::names_of(std::as_bytes(std::span{bytes}), arch);
  };
  auto ptx = of("kernels.ptx");
  BOOST_TEST(!ptx.variables.empty());
  for (auto* form : {"kernels.default.fatbin", "kernels.speed.fatbin",
                     "kernels.size.fatbin", "kernels.cubin"}) {
    for (auto arch : {75u, 90u}) {
      auto names = of(form, arch);
      for (auto& x : ptx.variables)
        if (x.front() != '$')
          BOOST_TEST(names.variables.contains(x), form << " lacks " << x);
      BOOST_TEST(names.prints == ptx.prints);
    }
  }
}

BOOST_AUTO_TEST_CASE(hostile_bytes_name_nothing_and_do_no_harm) {
  std::string elf{"\x7f"
                  "ELF",
                  4};
  elf.resize(64, '\xff');
  BOOST_TEST(
      nvidia::names_of(std::as_bytes(std::span{elf}), 75).variables.empty());
  std::string open_comment = "/* .global .b32 x;";
  BOOST_TEST(nvidia::names_of(std::as_bytes(std::span{open_comment}), 75)
                 .variables.empty());
}

BOOST_AUTO_TEST_SUITE_END()
