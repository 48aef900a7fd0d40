#include "tests/unit/schema/log/log_fixture.hpp"

#include <boost/test/unit_test.hpp>

#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <random>
#include <set>
#include <thread>
#include <vector>

using namespace vgpu;
using test::log_fixture;

BOOST_FIXTURE_TEST_SUITE(call_log, log_fixture)

BOOST_AUTO_TEST_CASE(an_empty_log_has_nothing_to_read) {
  log_reader reader{server, doorbell.get(), 0};
  auto got = reader.next();
  BOOST_REQUIRE(got.ok());
  BOOST_TEST(!got->has_value());
}

BOOST_AUTO_TEST_CASE(records_come_in_order_with_their_payload) {
  auto first = append(call::mem_alloc{.address = 1, .bytes = 2});
  auto second = append(call::write{}, 0, 1001);
  log_reader reader{server, doorbell.get(), 0};
  auto a = reader.next();
  BOOST_REQUIRE((a.ok() && a->has_value()));
  BOOST_TEST(((*a)->call == first));
  auto b = reader.next();
  BOOST_REQUIRE((b.ok() && b->has_value()));
  BOOST_TEST(((*b)->call == second));
  BOOST_TEST((*b)->payload.size() == 1001u);
  BOOST_TEST(((*b)->payload[1000] == std::byte{1000 % 256}));
  BOOST_TEST(!reader.next()->has_value());
}

/// Returns the record at this position, as a replay reads it.
static record record_at(const session_area& area, std::uint64_t position,
                        std::vector<std::uint64_t>& scratch) {
  auto* at = area.log_data() + (position & (area.log_capacity() - 1));
  auto got = parse_record({at, std::size_t{1} << 12}, position, scratch);
  BOOST_REQUIRE((got.ok() && got->has_value()));
  return **got;
}

BOOST_AUTO_TEST_CASE(a_short_result_is_kept_where_the_record_has_room) {
  program.header().protection_level =
      static_cast<std::uint32_t>(protection::journal);
  auto empty = [](auto) {};
  auto kept = call::append(writer, call::read{}, 0, 1, 4, empty, {});
  auto without = call::append(writer, call::read{}, 0, 1, 0, empty, {});
  auto longer = call::append(writer, call::read{}, 0, 1, 8, empty, {});
  std::vector<std::byte> result{std::byte{1}, std::byte{2}, std::byte{3},
                                std::byte{4}};
  for (auto call : {kept, without, longer})
    server.note_result(call, 77, result);
  // The program has the first one, whatever comes later.
  std::vector<std::byte> later{4, std::byte{9}};
  server.note_result(kept, 78, later);
  std::vector<std::uint64_t> scratch;
  auto got = record_at(server, kept.value, scratch);
  BOOST_TEST(got.digest == 77u);
  BOOST_TEST(std::ranges::equal(got.payload, result));
  got = record_at(server, without.value, scratch);
  BOOST_TEST(got.digest == 77u);
  BOOST_TEST(got.payload.empty());
  got = record_at(server, longer.value, scratch);
  BOOST_TEST(got.digest == 77u);
  BOOST_TEST(std::ranges::count(got.payload, std::byte{0}) == 8);
}

BOOST_AUTO_TEST_CASE(an_unprotected_log_keeps_no_result) {
  auto call = call::append(writer, call::read{}, 0, 1, 4, [](auto) {}, {});
  program.header().protection_level =
      static_cast<std::uint32_t>(protection::none);
  std::vector<std::byte> result{4, std::byte{9}};
  server.note_result(call, 77, result);
  std::vector<std::uint64_t> scratch;
  auto got = record_at(server, call.value, scratch);
  BOOST_TEST(got.digest == 0u);
  BOOST_TEST(std::ranges::count(got.payload, std::byte{0}) == 4);
}

BOOST_AUTO_TEST_CASE(an_uncommitted_record_holds_up_those_behind_it) {
  auto place = writer.reserve(2, 0, {});
  append(call::device_sync{});
  log_reader reader{server, doorbell.get(), 0};
  BOOST_TEST(!reader.next()->has_value());
  writer.commit(place, 0);
  BOOST_TEST(reader.next()->has_value());
  BOOST_TEST(reader.next()->has_value());
}

BOOST_AUTO_TEST_CASE(a_second_reader_sees_the_same_calls_again) {
  for (int i = 0; i < 100; ++i)
    append(call::mem_free{.address = static_cast<device_address>(i)});
  for (int round = 0; round < 2; ++round) {
    log_reader reader{server, doorbell.get(), 0};
    for (std::uint64_t i = 0; i < 100; ++i) {
      auto got = reader.next();
      BOOST_REQUIRE((got.ok() && got->has_value()));
      (void)call::decode((*got)->message, [&]<class T>(const T& x, int) {
        if constexpr (std::is_same_v<T, call::mem_free>)
          BOOST_TEST(x.address == i);
      });
    }
  }
}

BOOST_AUTO_TEST_CASE(ranges_hold_whole_records_and_parse_to_the_same) {
  std::vector<call_number> calls;
  for (std::uint32_t i = 0; i < 50; ++i)
    calls.push_back(append(call::write{}, 0, i * 10));
  log_reader reader{server, doorbell.get(), 0};
  std::vector<std::uint64_t> scratch;
  std::size_t seen = 0;
  for (;;) {
    auto position = reader.position();
    auto range = reader.next_range(1000);
    BOOST_REQUIRE(range.ok());
    if (range->empty())
      break;
    for (auto rest = *range; !rest.empty();) {
      auto got = parse_record(rest, position, scratch);
      BOOST_REQUIRE((got.ok() && got->has_value()));
      BOOST_TEST(((*got)->call == calls.at(seen++)));
      rest = rest.subspan((*got)->end - position);
      position = (*got)->end;
    }
  }
  BOOST_TEST(seen == calls.size());
}

BOOST_AUTO_TEST_CASE(the_doorbell_rings_only_for_a_sleeping_reader) {
  log_reader reader{server, doorbell.get(), 0};
  append(call::device_sync{});
  pollfd item{doorbell.get(), POLLIN, 0};
  BOOST_TEST(::poll(&item, 1, 0) == 0);
  BOOST_TEST(!reader.fall_asleep()); // there is a record
  BOOST_TEST(reader.next()->has_value());
  BOOST_TEST(reader.fall_asleep());
  append(call::device_sync{});
  BOOST_TEST(::poll(&item, 1, 0) == 1);
  reader.awake();
  BOOST_TEST(::poll(&item, 1, 0) == 0);
}

BOOST_AUTO_TEST_CASE(a_snapshot_pays_in_proportion_to_what_it_writes) {
  constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;
  constexpr auto large = 16384 * mebibyte;
  // A session without a snapshot so far may have a small one.
  BOOST_TEST(snapshot_after(large, 0) == 512 * mebibyte);
  BOOST_TEST(snapshot_after(large, 100 * mebibyte) == 512 * mebibyte);
  BOOST_TEST(snapshot_after(large, 1000 * mebibyte) == 4000 * mebibyte);
  BOOST_TEST(snapshot_after(large, 3000 * mebibyte) == large / 2);
  BOOST_TEST(snapshot_after(large, ~std::uint64_t{0}) == large / 2);
  BOOST_TEST(snapshot_after(64 * mebibyte, 0) == 32 * mebibyte);
}

BOOST_AUTO_TEST_CASE(a_journal_says_when_a_snapshot_pays) {
  constexpr std::uint64_t pays = 4 << 20;
  program.header().snapshot_after = pays;
  while (fills_at == 0)
    append(call::write{}, 0, 1 << 20);
  BOOST_TEST(fills_at > pays);
  BOOST_TEST(fills_at < pays + (3 << 20));
}

BOOST_AUTO_TEST_CASE(a_journal_that_fills_says_so_once_until_it_is_trimmed) {
  log_reader reader{server, doorbell.get(), 0};
  auto write_on = [&] {
    append(call::write{}, 0, 1 << 20);
    BOOST_REQUIRE(reader.next()->has_value());
    server.publish_executed(reader.position());
  };
  auto until_it_fills = [&] {
    for (fills_at = 0; fills_at == 0;)
      write_on();
    return fills_at;
  };
  BOOST_TEST(until_it_fills() > minimum_log / 2);
  BOOST_TEST(program.header().trimmed.load() == 0u);
  fills_at = 0;
  write_on();
  BOOST_TEST(fills_at == 0u);
  // Many times the log's capacity passes through while snapshots cover it, and
  // the level stays `journal`.
  for (int i = 0; i < 8; ++i) {
    auto covered = reader.position();
    server.publish_covered(covered);
    BOOST_TEST(until_it_fills() > minimum_log / 2);
    auto trimmed = program.header().trimmed.load();
    BOOST_TEST(trimmed <= covered);
    BOOST_TEST(trimmed + 9 * segment_bytes > covered);
  }
  BOOST_TEST(program.header().trimmed.load() > 2 * minimum_log);
  BOOST_TEST(program.header().protection_level.load() ==
             static_cast<std::uint32_t>(protection::journal));
}

BOOST_AUTO_TEST_CASE(a_full_journal_waits_until_it_is_covered_or_lowered) {
  struct gave_up {};
  auto write_on = [&](int count) {
    for (int i = 0; i < count; ++i)
      call::append(
          writer, call::write{}, 0, 0, 1 << 20, [](auto) {},
          [] { throw gave_up{}; });
  };
  write_on(12);
  auto half = program.header().tail.load();
  server.publish_executed(half);
  BOOST_CHECK_THROW(write_on(12), gave_up);
  server.publish_covered(half);
  write_on(4);
  // The level is lowered once.
  BOOST_TEST(server.lower_protection());
  BOOST_TEST(!server.lower_protection());
  server.publish_executed(program.header().tail.load());
  write_on(12);
}

BOOST_AUTO_TEST_CASE(large_payloads_arrive_whole_round_the_logs_end_too) {
  program.header().protection_level =
      static_cast<std::uint32_t>(protection::none);
  std::vector<std::byte> bytes((3 << 20) + 5);
  std::mt19937 random{7};
  for (auto& x : bytes)
    x = static_cast<std::byte>(random());
  log_reader reader{server, doorbell.get(), 0};
  for (std::uint64_t sent = 0; sent < 3 * minimum_log; sent += bytes.size()) {
    auto call = call::append(writer, call::write{}, 0, 0, bytes, {});
    append(call::device_sync{});
    auto got = reader.next();
    BOOST_REQUIRE((got.ok() && got->has_value()));
    BOOST_TEST(((*got)->call == call));
    BOOST_TEST(std::ranges::equal((*got)->payload, bytes));
    BOOST_TEST(reader.next()->has_value());
    server.publish_executed(reader.position());
  }
}

BOOST_AUTO_TEST_CASE(each_byte_of_the_log_lies_in_one_file_once) {
  std::set<std::pair<std::size_t, std::uint64_t>> stripes;
  auto capacity = program.log_capacity();
  for (std::uint64_t at = 0; at < capacity;) {
    auto place = program.log_at(at);
    BOOST_TEST(place.bytes == log_stripe(capacity));
    BOOST_TEST(place.offset + place.bytes <= capacity / log_files);
    BOOST_TEST(stripes.emplace(place.file, place.offset).second);
    // The mapping shows the bytes written to the file.
    auto byte = std::byte(at / log_stripe(capacity) + 1);
    BOOST_REQUIRE(::pwrite(place.fd, &byte, 1,
                           static_cast<off_t>(place.offset + 7)) == 1);
    BOOST_TEST((program.log_data()[at + 7] == byte));
    BOOST_TEST((server.log_data()[at + 7 + capacity] == byte));
    BOOST_TEST(program.log_at(at + 7).bytes == place.bytes - 7);
    BOOST_TEST(program.log_at(at + capacity).offset == place.offset);
    at += place.bytes;
  }
  BOOST_TEST(stripes.size() == log_files);
}

/// Returns the byte at `at` of round `round`.
std::byte byte_of(std::uint64_t round, std::uint64_t at) {
  return std::byte((round * 31 + at * 7 + (at >> 12)) & 0xff);
}

BOOST_AUTO_TEST_CASE(a_run_is_written_by_several_threads_and_read_in_order) {
  server.lower_protection();
  call::write what;
  auto words = call::message_words(what);
  constexpr std::uint32_t bytes = 300'001;
  auto most = writer.longest_run(words, bytes);
  BOOST_TEST(most >= 4u);
  BOOST_TEST(most * bytes <= program.log_capacity() / 4);
  log_reader reader{server, doorbell.get(), 0};
  // Several times round the log.
  for (std::uint64_t round = 0; round < 40; ++round) {
    auto count = 1 + round % most;
    std::vector<std::byte> payload(count * bytes);
    for (std::uint64_t i = 0; i < payload.size(); ++i)
      payload[i] = byte_of(round, i);
    auto places = writer.reserve_run(words, bytes, count, {});
    BOOST_REQUIRE(places.size() == count);
    auto write = [&](std::size_t first) {
      for (auto i = first; i < count; i += 2) {
        call::encode(what, 0, places[i].message());
        writer.write(places[i], std::span{payload}.subspan(i * bytes, bytes));
        writer.commit(places[i], 0);
      }
    };
    std::thread other{write, 1};
    write(0);
    other.join();
    for (std::uint64_t i = 0; i < count; ++i) {
      auto got = reader.next();
      BOOST_REQUIRE((got.ok() && got->has_value()));
      BOOST_TEST(((*got)->call == places[i].call()));
      BOOST_REQUIRE((*got)->payload.size() == bytes);
      auto same = std::equal((*got)->payload.begin(), (*got)->payload.end(),
                             payload.begin() + static_cast<long>(i * bytes));
      BOOST_TEST(same);
      server.publish_executed(reader.position());
    }
  }
}

std::size_t resident_pages(const session_area& area, std::uint64_t begin,
                           std::uint64_t end) {
  std::vector<unsigned char> pages((end - begin) / page_bytes);
  BOOST_REQUIRE(::mincore(area.log_data() + begin, end - begin, pages.data()) ==
                0);
  return static_cast<std::size_t>(
      std::count_if(pages.begin(), pages.end(), [](auto x) { return x & 1; }));
}

BOOST_AUTO_TEST_CASE(pages_are_prepared_and_given_back_between_copies) {
  constexpr auto ahead = 3 * segment_bytes;
  writer.prepare(ahead + 1);
  BOOST_TEST(resident_pages(program, 0, ahead) == ahead / page_bytes);
  BOOST_TEST(resident_pages(program, ahead, minimum_log) == 0u);
  append(call::write{}, 0, max_payload / 2);
  append(call::write{}, 0, max_payload / 2);
  server.lower_protection();
  server.publish_executed(writer.tail());
  writer.prepare(2 * segment_bytes);
  BOOST_TEST(program.header().trimmed.load() ==
             writer.tail() / segment_bytes * segment_bytes);
  BOOST_TEST(resident_pages(program, 0, program.header().trimmed.load()) == 0u);
  // It prepares no more than the log has room for.
  writer.prepare(~std::uint64_t{0});
  BOOST_TEST(resident_pages(program, 0, minimum_log) <=
             (minimum_log / 4 + 2 * segment_bytes) / page_bytes);
}

BOOST_AUTO_TEST_CASE(prepared_pages_hold_what_is_written_to_them) {
  server.lower_protection();
  log_reader reader{server, doorbell.get(), 0};
  std::vector<std::byte> payload(700'001);
  // Several times round the log, and now and then beyond the prepared pages.
  for (std::uint64_t round = 0; round < 100; ++round) {
    for (std::uint64_t i = 0; i < payload.size(); ++i)
      payload[i] = byte_of(round, i);
    if (round % 3 == 0)
      writer.prepare(round % 2 == 0 ? 2 * segment_bytes : segment_bytes / 2);
    call::append(writer, call::write{}, 0, 0, payload, {});
    auto got = reader.next();
    BOOST_REQUIRE((got.ok() && got->has_value()));
    auto same = std::equal((*got)->payload.begin(), (*got)->payload.end(),
                           payload.begin(), payload.end());
    BOOST_TEST(same);
    BOOST_TEST(!reader.ready());
    server.publish_executed(reader.position());
  }
}

BOOST_AUTO_TEST_CASE(pages_are_prepared_while_others_write) {
  server.lower_protection();
  log_reader reader{server, doorbell.get(), 0};
  std::atomic<bool> ends{false};
  std::thread ahead{[&] {
    while (!ends)
      writer.prepare(2 * segment_bytes);
  }};
  std::vector<std::byte> payload(400'003);
  auto all_same = true;
  for (std::uint64_t round = 0; round < 60; ++round) {
    for (std::uint64_t i = 0; i < payload.size(); ++i)
      payload[i] = byte_of(round, i);
    call::append(writer, call::write{}, 0, 0, payload, {});
    auto got = reader.next();
    all_same = all_same && got && *got &&
               std::equal((*got)->payload.begin(), (*got)->payload.end(),
                          payload.begin(), payload.end());
    server.publish_executed(reader.position());
  }
  ends = true;
  ahead.join();
  BOOST_TEST(all_same);
}

BOOST_AUTO_TEST_CASE(a_forwarder_knows_whether_to_wait_for_more) {
  log_reader reader{server, doorbell.get(), 0};
  constexpr std::uint64_t limit = 8192;
  BOOST_TEST(reader.may_grow(limit));
  append(call::mem_free{});
  BOOST_TEST(reader.may_grow(limit));
  append(call::device_sync{}, 3);
  BOOST_TEST(!reader.may_grow(limit)); // a caller waits for it
  BOOST_TEST(reader.next_range(limit)->size() == writer.tail());
  BOOST_TEST(reader.may_grow(limit));
  append(call::write{}, 0, limit);
  BOOST_TEST(!reader.may_grow(limit)); // the range is full
  (void)reader.next_range(limit);
  auto place = writer.reserve(2, 0, {});
  writer.commit(place, 0);
  BOOST_TEST(reader.may_grow(limit));
  // may_grow() leaves it to next_range() to report damage.
  *(place.message().data() - 2) = 3;
  BOOST_TEST(!reader.may_grow(limit));
  BOOST_TEST(!reader.next_range(limit).ok());
}

BOOST_AUTO_TEST_CASE(a_long_run_has_its_room_made_file_by_file) {
  log_fixture large{std::uint64_t{128} << 20};
  std::atomic<std::size_t> spread{0};
  log_writer spreading{large.program, large.doorbell.get(), [](auto) {},
                       [&](std::size_t parts, auto& job) {
                         BOOST_TEST(parts == log_files);
                         ++spread;
                         std::vector<std::thread> threads;
                         for (std::size_t i = 0; i < parts; ++i)
                           threads.emplace_back(job, i);
                         for (auto& x : threads)
                           x.join();
                       }};
  large.server.lower_protection();
  log_reader reads{large.server, large.doorbell.get(), 0};
  auto words = call::message_words(call::write{});
  auto count = spreading.longest_run(words, max_payload);
  std::vector<std::byte> payload(max_payload, std::byte{1});
  // Several times round the log.
  for (int round = 0; round < 20; ++round) {
    for (auto& place : spreading.reserve_run(words, max_payload, count,
                                             [] { std::abort(); })) {
      call::encode(call::write{}, 0, place.message());
      spreading.write(place, payload);
      spreading.commit(place, 0);
    }
    for (std::size_t i = 0; i < count; ++i)
      BOOST_REQUIRE(reads.next()->has_value());
    // No bytes of an earlier round are left where the next record will be.
    BOOST_TEST(!reads.next()->has_value());
    large.server.publish_executed(reads.position());
  }
  BOOST_TEST(spread > 10u);
  // Pages given back occupy no memory.
  auto blocks = std::uint64_t{0};
  for (auto fd : large.program.descriptors()) {
    struct stat what {};
    BOOST_REQUIRE(::fstat(fd, &what) == 0);
    blocks += static_cast<std::uint64_t>(what.st_blocks) * 512;
  }
  auto kept = large.program.header().tail - large.program.header().trimmed;
  BOOST_TEST(blocks < kept + 8 * segment_bytes);
}

BOOST_AUTO_TEST_CASE(a_run_without_room_reserves_nothing_while_it_waits) {
  server.lower_protection();
  auto words = call::message_words(call::write{});
  auto most = writer.longest_run(words, max_payload / 8);
  auto bytes = most * record_bytes(words, max_payload / 8);
  log_reader reader{server, doorbell.get(), 0};
  auto stalls = 0;
  for (std::uint64_t filled = 0; stalls == 0; filled += bytes) {
    BOOST_REQUIRE(filled <= program.log_capacity());
    auto places = writer.reserve_run(words, max_payload / 8, most, [&] {
      // The reader can read all records before the run, which makes room.
      ++stalls;
      while (*reader.next())
        server.publish_executed(reader.position());
    });
    for (auto& place : places) {
      call::encode(call::write{}, 0, place.message());
      writer.commit(place, 0);
    }
  }
  BOOST_TEST(stalls == 1);
}

BOOST_AUTO_TEST_CASE(a_full_log_waits_for_its_reader_and_says_that_it_stalls) {
  program.header().protection_level =
      static_cast<std::uint32_t>(protection::none);
  struct gave_up {};
  auto until_full = [&] {
    for (;;)
      call::append(
          writer, call::write{}, 0, 0, 1 << 20, [](auto) {},
          [] { throw gave_up{}; });
  };
  BOOST_CHECK_THROW(until_full(), gave_up);
}

BOOST_AUTO_TEST_CASE(many_threads_append_and_every_record_arrives_once) {
  constexpr int threads = 4;
  constexpr std::uint64_t each = 5000;
  program.header().protection_level =
      static_cast<std::uint32_t>(protection::none);
  std::vector<std::thread> writers;
  for (int t = 0; t < threads; ++t)
    writers.emplace_back([this, t] {
      for (std::uint64_t i = 0; i < each; ++i)
        append(call::mem_alloc{.address = static_cast<device_address>(t),
                               .bytes = i},
               0, static_cast<std::uint32_t>(i % 3000));
    });
  std::vector<std::uint64_t> next(threads, 0);
  log_reader reader{server, doorbell.get(), 0};
  bool right = true;
  for (std::uint64_t seen = 0; seen < threads * each;) {
    auto got = reader.next();
    if (!got.ok()) {
      BOOST_ERROR(got.why().what);
      break;
    }
    if (!got->has_value()) {
      if (reader.fall_asleep()) {
        pollfd item{doorbell.get(), POLLIN, 0};
        ::poll(&item, 1, 1000);
        reader.awake();
      }
      continue;
    }
    ++seen;
    (void)call::decode((*got)->message, [&]<class T>(const T& x, int) {
      if constexpr (std::is_same_v<T, call::mem_alloc>)
        right = right && x.bytes == next.at(x.address)++;
    });
    server.publish_executed(reader.position());
  }
  for (auto& t : writers)
    t.join();
  BOOST_TEST(right);
  for (auto n : next)
    BOOST_TEST(n == each);
}

BOOST_AUTO_TEST_CASE(damage_of_any_kind_is_reported_and_never_followed) {
  std::mt19937_64 random{20260101};
  for (int round = 0; round < 2000; ++round) {
    log_fixture fresh;
    for (int i = 0; i < 4; ++i)
      fresh.append(call::write{}, 1, 64);
    auto end = fresh.program.header().tail.load();
    auto* bytes = fresh.program.log_data();
    for (int i = 0; i < 3; ++i)
      bytes[random() % end] = static_cast<std::byte>(random());
    log_reader reader{fresh.server, fresh.doorbell.get(), 0};
    for (int i = 0; i < 10; ++i) {
      auto got = reader.next();
      if (!got.ok() || !got->has_value())
        break;
      (void)call::decode((*got)->message, [](const auto&, std::uint8_t) {});
    }
    if (round == 50 && ::getenv("TSAN_OPTIONS") != nullptr)
      break;
  }
  // A record that contradicts itself, in one part after the other.
  auto parse = [](std::uint32_t size, std::uint16_t words, std::uint16_t slot,
                  std::uint32_t payload) {
    alignas(8) std::array<std::byte, 256> bytes{};
    auto& header = *reinterpret_cast<record_header*>(bytes.data());
    header.size = size;
    header.message_words = words;
    header.slot = slot;
    header.payload_bytes = payload;
    std::vector<std::uint64_t> scratch;
    return parse_record(bytes, 0, scratch);
  };
  BOOST_TEST(parse(40, 3, 0, 0).ok());
  BOOST_TEST(!parse(40, 2, 0, 0).ok());
  BOOST_TEST(!parse(41, 3, 0, 0).ok());
  BOOST_TEST(!parse(40, 3, 4096, 0).ok());
  BOOST_TEST(!parse(40, 0, 0, 24).ok());
  BOOST_TEST(!parse(512, 62, 0, 0).ok()); // longer than the bytes given
  BOOST_TEST(!parse(0xffff'fff8, 3, 0, 0).ok());
}

BOOST_AUTO_TEST_SUITE_END()
