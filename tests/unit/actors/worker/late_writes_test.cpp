// Copies to the device whose bytes come when their stream has come to them: no
// other stream and not the thread that executes calls has to do anything so
// that they go on.
#include "actors/worker/session/late_writes.hpp"
#include "schema/base/cuda_fault.hpp"
#include "tests/unit/actors/session_fixture.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <future>
#include <optional>
#include <thread>

using namespace vgpu;

namespace {

constexpr std::size_t copy_bytes = 4096;
constexpr stream_id one_stream{10};

std::vector<std::byte> bytes_like(int value, std::size_t count = copy_bytes) {
  return std::vector<std::byte>(count, static_cast<std::byte>(value));
}

/// A session on a device whose streams share two channels, and whose driver
/// waits for all streams where a GPU's may.
struct late_session : a_session {
  late_session() {
    std::vector<std::unique_ptr<device::device>> devices;
    devices.push_back(device::open_cpu_device(
        {.memory = quota, .threads = 1, .channels = 2}, quota));
    exec.reset();
    exec = std::make_unique<executor>(std::move(devices), quota);
    exec->serve(std::make_shared<unheard>());
    auto shadow = exec->host_shadow();
    BOOST_REQUIRE_MESSAGE(shadow.ok(), shadow.why().what);
    allocate(at, 3 * granule_bytes);
    call_it(call::stream_create{{one_stream}, 1, 0});
    call_it(
        call::stream_create{{stream_id{11}}, call::stream_create::apart, 0});
  }

  /// A call as it lies in the log.
  struct written {
    std::vector<std::uint64_t> words;
    std::vector<std::byte> payload;
    record what;
  };
  template <class Call>
  written write(const Call& x, std::vector<std::byte> payload = {}) {
    written out;
    out.words.resize(call::message_words(x));
    call::encode(x, 0, out.words);
    out.payload = std::move(payload);
    number += 8;
    out.what = {.call = {number},
                .end = number + 8,
                .slot = 0,
                .message = out.words,
                .payload = out.payload};
    return out;
  }
  /// Executes a call, and returns its number.
  std::uint64_t execute(const written& x) {
    BOOST_REQUIRE(exec->execute(x.what, nullptr));
    return x.what.call.value;
  }

  static call::late_write copy_to(stream_id in, device_address to) {
    return {.stream = {in}, .to = {to}, .size = {copy_bytes, 1, 1}};
  }
  /// Tells whether the device's memory has this value.
  static bool holds(device_address from, int value) {
    auto* begin = reinterpret_cast<const std::byte*>(from);
    return std::all_of(begin, begin + copy_bytes, [&](std::byte x) {
      return x == static_cast<std::byte>(value);
    });
  }
  void wait_for(stream_id in) {
    std::promise<void> done;
    exec->on(0).when_done(in, [&](CUresult) { done.set_value(); });
    done.get_future().get();
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(late_writes_of_sessions, late_session)

BOOST_AUTO_TEST_CASE(more_streams_than_channels_wait_for_bytes) {
  constexpr std::uint64_t count = 24;
  std::vector<std::uint64_t> functions, copies;
  for (std::uint64_t i = 0; i < count; ++i) {
    stream_id in{20 + i};
    call_it(call::stream_create{{in}, 1, 0});
    functions.push_back(execute(write(call::host_call{{in}})));
    copies.push_back(execute(write(copy_to(in, at + i * copy_bytes))));
  }
  BOOST_TEST(!exec->may_stop());
  for (std::uint64_t i = 0; i < count; ++i) {
    execute(
        write(call::late_bytes{copies[i]}, bytes_like(static_cast<int>(i))));
    call_it(call::host_done{functions[i]});
  }
  BOOST_TEST(exec->may_stop());
  for (std::uint64_t i = 0; i < count; ++i) {
    wait_for({20 + i});
    BOOST_TEST(holds(at + i * copy_bytes, static_cast<int>(i)));
  }
}

/// The driver waits for all streams when it pins memory, and the log brings the
/// bytes for which a stream waits only after that call.
BOOST_AUTO_TEST_CASE(bytes_arrive_while_the_driver_waits_for_all_streams) {
  auto function = execute(write(call::host_call{{one_stream}}));
  auto copy = execute(write(copy_to(one_stream, at)));
  auto pins = write(call::host_alloc{host_window, granule_bytes});
  auto bytes = write(call::late_bytes{copy}, bytes_like(7));
  auto ends = write(call::host_done{function});
  std::thread executing{[&] { (void)exec->execute(pins.what, nullptr); }};
  exec->look_ahead(bytes.what, nullptr);
  exec->look_ahead(ends.what, nullptr);
  executing.join();
  execute(bytes);
  execute(ends);
  wait_for(one_stream);
  BOOST_TEST(holds(at, 7));
  BOOST_TEST(exec->may_stop());
  BOOST_TEST((exec->error() == CUDA_SUCCESS));
}

/// A replay may see bytes before it has executed their copy.
BOOST_AUTO_TEST_CASE(bytes_wait_for_a_copy_that_is_executed_later) {
  auto function = write(call::host_call{{one_stream}});
  auto copy = write(copy_to(one_stream, at));
  auto bytes = write(call::late_bytes{copy.what.call.value}, bytes_like(3));
  auto ends = write(call::host_done{function.what.call.value});
  exec->look_ahead(bytes.what, nullptr);
  exec->look_ahead(ends.what, nullptr);
  for (auto* x : {&function, &copy})
    execute(*x);
  execute(bytes);
  BOOST_TEST(!exec->on(0).idle(one_stream));
  execute(ends);
  wait_for(one_stream);
  BOOST_TEST(holds(at, 3));
  BOOST_TEST((exec->error() == CUDA_SUCCESS));
}

/// A replay sees a function's end before it has come to the function. It ends
/// in its turn, or where a later call waits for all streams.
BOOST_AUTO_TEST_CASE(a_function_seen_to_end_holds_its_stream_at_first) {
  auto function = write(call::host_call{{one_stream}});
  auto ends = write(call::host_done{function.what.call.value});
  exec->look_ahead(ends.what, nullptr);
  execute(function);
  BOOST_TEST(!exec->on(0).idle(one_stream));
  exec->look_again();
  wait_for(one_stream);
  execute(ends);
  BOOST_TEST(exec->may_stop());
}

/// Their stream waits for the program, so that a driver would never end a call
/// that makes the device use more memory.
BOOST_AUTO_TEST_CASE(more_copies_than_rooms_need_no_more_memory) {
  constexpr std::uint64_t large = late_rooms::largest, count = 8, streams = 16;
  std::vector<std::uint64_t> functions, copies;
  std::vector<written> log; // keeps bytes until they are taken
  for (std::uint64_t s = 0; s < streams; ++s) {
    stream_id in{20 + s};
    call_it(call::stream_create{{in}, 1, 0});
    functions.push_back(execute(write(call::host_call{{in}})));
    for (std::uint64_t i = 0; i < count; ++i)
      copies.push_back(execute(write(call::late_write{
          .stream = {in}, .to = {at}, .size = {large, 1, 1}})));
  }
  for (std::uint64_t s = 0; s < streams; ++s) {
    call_it(call::host_done{functions[s]});
    for (std::uint64_t i = 0; i < count; ++i) {
      log.push_back(write(call::late_bytes{copies[s * count + i]},
                          bytes_like(static_cast<int>(s + i), large)));
      execute(log.back());
    }
    wait_for({20 + s});
    BOOST_TEST(holds(at, static_cast<int>(s + count - 1)));
    BOOST_TEST(holds(at + large - copy_bytes, static_cast<int>(s + count - 1)));
    log.clear();
  }
  BOOST_TEST(exec->may_stop());
  BOOST_TEST((exec->error() == CUDA_SUCCESS));
}

BOOST_AUTO_TEST_CASE(rows_with_gaps_arrive) {
  call_it(call::fill{.stream = {one_stream},
                     .to = {at},
                     .value = 1,
                     .element_bytes = 1,
                     .size = {granule_bytes, 1, 1}});
  auto copy = execute(write(call::late_write{
      .stream = {one_stream}, .to = {at, 16, 0}, .size = {4, 3, 1}}));
  std::vector<std::byte> rows;
  for (auto row : {5, 6, 7})
    rows.insert(rows.end(), 4, static_cast<std::byte>(row));
  execute(write(call::late_bytes{copy}, rows));
  wait_for(one_stream);
  BOOST_TEST(word(0, 0) == 0x05050505U);
  BOOST_TEST(word(0, 1) == 0x01010101U);
  BOOST_TEST(word(0, 4) == 0x06060606U);
  BOOST_TEST(word(0, 8) == 0x07070707U);
}

BOOST_AUTO_TEST_CASE(a_copy_refuses_other_bytes_than_its_own) {
  auto copy = execute(write(copy_to(one_stream, at)));
  execute(write(call::late_bytes{copy}, bytes_like(1, copy_bytes / 2)));
  BOOST_TEST((exec->error() == CUDA_ERROR_INVALID_VALUE));
  BOOST_TEST(!exec->may_stop());
  execute(write(call::late_bytes{copy}, bytes_like(1)));
  BOOST_TEST(exec->may_stop());
}

BOOST_AUTO_TEST_CASE(empty_and_too_large_copies_are_refused) {
  for (auto size : {call::extent{0, 1, 1}, call::extent{8, 1, 2},
                    call::extent{(4 << 20) + 1, 1, 1}}) {
    (void)execute(write(call::late_write{.stream = {one_stream},
                                         .to = {at, size.width, size.width},
                                         .size = size}));
    BOOST_TEST((exec->error() == CUDA_ERROR_INVALID_VALUE));
    BOOST_TEST(exec->may_stop());
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(rooms_of_late_writes, late_session)

/// Beyond the bound the copies of a stream share a room, and each one fills it
/// only when its stream has come to it.
BOOST_AUTO_TEST_CASE(copies_of_a_stream_share_a_room_beyond_the_bound) {
  constexpr std::size_t small = 64 << 10;
  constexpr stream_id other{12};
  late_rooms rooms{2 * small};
  std::vector<late_rooms::place> got;
  for (auto in : {one_stream, one_stream, one_stream, other, other}) {
    auto x = rooms.take(exec->on(0), in, small);
    BOOST_REQUIRE(x.ok());
    got.push_back(*x);
  }
  BOOST_TEST(!got[0].shared);
  BOOST_TEST(!got[1].shared);
  BOOST_TEST((got[0].at != got[1].at));
  BOOST_TEST(got[2].shared);
  BOOST_TEST((got[2].at == got[1].at));
  // A stream without a room gets one in any case.
  BOOST_TEST(!got[3].shared);
  BOOST_TEST((got[4].at == got[3].at));
  got.clear();
  auto again = rooms.take(exec->on(0), one_stream, small);
  BOOST_REQUIRE(again.ok());
  BOOST_TEST(!again->shared);
}

BOOST_AUTO_TEST_CASE(a_shared_room_is_filled_when_the_stream_is_there) {
  late_rooms rooms{0};
  auto own = rooms.take(exec->on(0), one_stream, copy_bytes);
  auto shared = rooms.take(exec->on(0), one_stream, copy_bytes);
  BOOST_REQUIRE((own.ok() && shared.ok()));
  late_write_gate first{*own, copy_bytes, 1}, second{*shared, copy_bytes, 1};
  auto one = bytes_like(1), two = bytes_like(2);
  auto kept = std::make_shared<int>();
  first.give(one, nullptr);
  second.give(two, nullptr);
  second.give(two, kept);
  auto gone_on = 0;
  first.reached([&] { ++gone_on; });
  BOOST_TEST(gone_on == 1);
  BOOST_TEST(holds(first.address(), 1));
  BOOST_TEST(kept.use_count() == 2);
  second.reached([&] { ++gone_on; });
  BOOST_TEST(gone_on == 2);
  BOOST_TEST(holds(second.address(), 2));
  BOOST_TEST(kept.use_count() == 1);
}

/// A copy of rows passes through a room that holds less than a row, or some
/// rows.
BOOST_AUTO_TEST_CASE(a_copy_passes_a_small_room_in_pieces) {
  constexpr std::uint64_t width = 10, height = 5;
  std::vector<std::byte> given(width * height);
  for (std::size_t i = 0; i < given.size(); ++i)
    given[i] = static_cast<std::byte>(i);
  for (std::size_t bytes : {4, 10, 25, 50, 64}) {
    auto room = std::shared_ptr<std::byte>(new std::byte[bytes],
                                           [](std::byte* x) { delete[] x; });
    late_write_gate gate{{room, bytes, false}, width, height};
    std::vector<std::byte> got(given.size());
    auto gone_on = std::size_t{0};
    auto has_owner = std::make_shared<int>();
    auto take = [&](const late_write_gate::piece& x) {
      for (std::uint64_t row = 0; row < x.height; ++row)
        std::copy_n(room.get() + row * x.width, x.width,
                    got.begin() +
                        static_cast<std::ptrdiff_t>((x.y + row) * width + x.x));
    };
    gate.reached([&] { ++gone_on; });
    BOOST_TEST(gone_on == 0U);
    gate.give(given, has_owner);
    for (const auto& x : gate.pieces()) {
      BOOST_TEST((x.width * x.height <= bytes));
      take(x);
      if (gone_on != gate.pieces().size())
        gate.reached([&] { ++gone_on; });
    }
    BOOST_TEST(gone_on == gate.pieces().size());
    BOOST_TEST(got == given);
    BOOST_TEST(has_owner.use_count() == 1);
  }
}

BOOST_AUTO_TEST_CASE(a_room_is_kept_for_streams_that_have_none) {
  constexpr std::size_t small = 64 << 10;
  late_rooms rooms;
  BOOST_REQUIRE(rooms.prepare(exec->on(0)).ok());
  BOOST_TEST(!rooms.lacks());
  std::vector<late_rooms::place> got;
  for (auto i = 0; i < 100; ++i) {
    auto x = rooms.take(exec->on(0), one_stream, small);
    BOOST_REQUIRE(x.ok());
    got.push_back(*x);
  }
  BOOST_TEST(got.back().shared);
  BOOST_TEST(rooms.lacks());
  auto other = rooms.take(exec->on(0), stream_id{12}, small);
  BOOST_REQUIRE(other.ok());
  BOOST_TEST(!other->shared);
  BOOST_REQUIRE(rooms.prepare(exec->on(0)).ok());
  BOOST_TEST(!rooms.lacks());
  auto more = rooms.take(exec->on(0), one_stream, small);
  BOOST_REQUIRE(more.ok());
  BOOST_TEST(!more->shared);
}

BOOST_AUTO_TEST_SUITE_END()
