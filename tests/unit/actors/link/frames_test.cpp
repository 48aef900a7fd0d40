// Messages and payloads in ZeroMQ frames, including frames that a stranger
// made.
#include "actors/link/data_head.hpp"
#include "actors/link/frames.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

using namespace vgpu;

namespace {

std::vector<std::byte> bytes_of(std::size_t count) {
  std::vector<std::byte> out(count);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = static_cast<std::byte>(i * 7 + 1);
  return out;
}

std::vector<std::uint64_t> message() {
  return data::encode({{3}, {4}, data::calls{100, 200}});
}

/// Returns the message at an odd address, as ZeroMQ's receive buffer may have
/// it.
zmq::message_t shifted(const zmq::message_t& what, std::size_t by) {
  auto memory =
      std::make_shared<std::vector<std::uint64_t>>((what.size() + by + 15) / 8);
  auto* at = reinterpret_cast<std::byte*>(memory->data()) + by;
  std::memcpy(at, what.data(), what.size());
  return lend_frame({at, what.size()}, memory);
}

bool is_the_message(const parcel& in) {
  auto words = in.words();
  auto head = data::decode(
      {reinterpret_cast<const std::uint64_t*>(words.begin()), words.size()});
  auto* calls = head ? std::get_if<data::calls>(&head->body) : nullptr;
  return calls != nullptr && calls->from == 100 && calls->to == 200;
}

bool is_aligned(const void* at) {
  return reinterpret_cast<std::uintptr_t>(at) % sizeof(std::uint64_t) == 0;
}

} // namespace

BOOST_AUTO_TEST_SUITE(frames)

BOOST_AUTO_TEST_CASE(a_payload_survives_in_any_frame_at_any_address) {
  for (std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{4}, std::size_t{8},
        std::size_t{129}, lent_from - 1, lent_from, 3 * lent_from + 5}) {
    auto payload = std::make_shared<std::vector<std::byte>>(bytes_of(size));
    for (std::size_t by = 0; by < 8; ++by) {
      dispatch out;
      put_frames(out, message(), *payload, payload);
      BOOST_TEST((out.bulk.size() != 0) == (size >= lent_from));
      parcel in{"peer", shifted(out.head, by), std::move(out.bulk)};
      BOOST_TEST(is_the_message(in));
      BOOST_TEST(std::equal(in.bulk().begin(), in.bulk().end(),
                            payload->begin(), payload->end()));
      if (size != 0 && size < lent_from)
        BOOST_TEST(is_aligned(in.bulk().data()));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_lent_payload_is_dropped_after_it_was_sent) {
  auto payload = std::make_shared<std::vector<std::byte>>(bytes_of(lent_from));
  {
    dispatch out;
    put_frames(out, message(), *payload, payload);
    BOOST_TEST(payload.use_count() == 2);
    BOOST_TEST(out.bulk.data() == payload->data());
  }
  BOOST_TEST(payload.use_count() == 1);
}

/// The message's reader reports what is wrong with it.
BOOST_AUTO_TEST_CASE(a_truncated_message_has_no_payload) {
  dispatch out;
  put_frames(out, message());
  for (std::size_t size = 0; size < out.head.size(); ++size) {
    parcel in{"peer", zmq::message_t{out.head.data(), size}, {}};
    BOOST_TEST(in.bulk().size() == 0u);
    BOOST_TEST(in.words().size() == size / 8);
    BOOST_TEST(!is_the_message(in));
  }
}

BOOST_AUTO_TEST_CASE(no_table_of_segments_reaches_beyond_its_frame) {
  for (auto count : {0xffffffffU, 0xfffffffeU, 1U << 31, 511U, 4U, 1U})
    for (auto size : {0xffffffffU, 1U << 30, 2U, 0U}) {
      std::vector<std::uint32_t> words(16, size);
      words[0] = count;
      parcel in{"peer", zmq::message_t{words.data(), words.size() * 4}, {}};
      BOOST_TEST(in.words().size() * 8 + in.bulk().size() == words.size() * 4);
      BOOST_TEST(!is_the_message(in));
    }
}

BOOST_AUTO_TEST_SUITE_END()
