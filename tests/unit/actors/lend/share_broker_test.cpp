// Which callers get what a session lends, and which do not.
#include "actors/lend/share_broker.hpp"
#include "schema/base/cuda_fault.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <poll.h>
#include <unistd.h>

using namespace vgpu;

namespace {

using namespace std::chrono_literals;

std::size_t descriptors_in_use() {
  std::filesystem::directory_iterator all{"/proc/self/fd"};
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

bool is_listened_to(const share_secret& secret) {
  std::ifstream all{"/proc/net/unix"};
  auto name = "@" + share_socket_name(secret);
  for (std::string line; std::getline(all, line);)
    if (line.ends_with(name))
      return true;
  return false;
}

/// Returns the number as the names of sockets spell it.
std::string digits_of(std::uint64_t x) {
  char out[17];
  std::snprintf(out, sizeof(out), "%016llx",
                static_cast<unsigned long long>(x));
  return out;
}

struct lending {
  share_secret secret{0x1234, static_cast<std::uint64_t>(::getpid())};
  std::unique_ptr<share_broker> broker = open();
  share_key key{share_kind::memory, 0x2000'0000'0000};
  std::uint64_t serial = 7;
  share_name name{secret, key.number, serial};

  std::unique_ptr<share_broker> open() {
    auto got = share_broker::open(secret);
    BOOST_REQUIRE(got.ok());
    return std::move(*got);
  }

  /// Returns a file with some text, by which the test recognises it.
  device::shared_object something() {
    auto file = make_sealed_memory("lent", 4096);
    BOOST_REQUIRE(file.ok());
    BOOST_REQUIRE(::pwrite(file->get(), "lent", 4, 0) == 4);
    return {{4096}, {std::make_shared<unique_fd>(std::move(*file))}};
  }

  void lend() { BOOST_REQUIRE(broker->lend(key, serial, something()).ok()); }

  static CUresult code_of(const result<borrowed_thing>& x) {
    return x ? CUDA_SUCCESS : cuda_code(x.why());
  }

  unique_fd stranger() {
    auto socket = connect_abstract(share_socket_name(secret));
    BOOST_REQUIRE(socket.ok());
    return std::move(*socket);
  }

  /// Returns whether the broker ends the connection, with or without an answer.
  static bool is_dismissed(const unique_fd& socket, std::size_t words = 0) {
    auto left = words == 0 ? 1 : 2;
    while (left-- > 0) {
      pollfd one{socket.get(), POLLIN, 0};
      if (::poll(&one, 1, 10'000) != 1)
        return false;
      auto in = receive_packet(socket.get());
      if (!in || !*in)
        return false;
      if ((*in)->closed)
        return true;
      if ((*in)->words.size() != words || !(*in)->descriptors.empty())
        return false;
    }
    return false;
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(what_is_lent, lending)

BOOST_AUTO_TEST_CASE(who_reads_the_sockets_name_gets_nothing) {
  lend();
  auto listed = share_socket_name(secret);
  for (auto half : {secret.high, secret.low}) {
    BOOST_TEST(listed.find(digits_of(half)) == listed.npos);
    BOOST_TEST(listed.find(std::to_string(half)) == listed.npos);
  }
  // Half of it leads to no socket.
  BOOST_TEST(listed != share_socket_name({secret.high, secret.low + 1}));
  BOOST_TEST(listed != share_socket_name({secret.high + 1, secret.low}));
  for (auto guess : {std::uint64_t{0}, secret.low, secret.high + 1}) {
    auto forged = name;
    forged.session.high = guess;
    BOOST_TEST(code_of(borrow(share_kind::memory, forged, connect_abstract)) ==
               CUDA_ERROR_INVALID_VALUE);
  }
  BOOST_TEST(code_of(borrow(share_kind::memory, name, connect_abstract)) ==
             CUDA_SUCCESS);
}

BOOST_AUTO_TEST_CASE(who_finds_the_socket_must_show_all_of_the_secret) {
  lend();
  constexpr std::uint64_t magic = 0x3130455241485356;
  for (auto shown : {share_secret{}, share_secret{secret.high, 0},
                     share_secret{0, secret.low}}) {
    auto socket = stranger();
    const std::uint64_t question[] = {
        magic,      shown.high, shown.low, static_cast<std::uint64_t>(key.kind),
        key.number, serial};
    BOOST_REQUIRE(send_packet(socket.get(), question).ok());
    BOOST_TEST(is_dismissed(socket, 1));
  }
}

/// The name is the first half of the SHA-256 of "VSHARE01" and the secret, as
/// sha256sum gives it.
BOOST_AUTO_TEST_CASE(a_sockets_name_is_a_digest_of_the_secret) {
  BOOST_TEST(share_socket_name({3, 4}) ==
             "vgpu-share-19795f8111c8d86b9f48877dc96a9060");
  BOOST_TEST(share_socket_name({4, 3}) != share_socket_name({3, 4}));
}

BOOST_AUTO_TEST_CASE(a_caller_with_the_right_name_gets_the_object) {
  lend();
  auto got = borrow(share_kind::memory, name, connect_abstract);
  BOOST_REQUIRE(got.ok());
  BOOST_TEST(got->object.words == std::vector<std::uint64_t>{4096},
             boost::test_tools::per_element());
  BOOST_REQUIRE(got->object.descriptors.size() == 1u);
  char text[4];
  BOOST_REQUIRE(::pread(got->object.descriptors[0]->get(), text, 4, 0) == 4);
  BOOST_TEST(std::string(text, 4) == "lent");
  // The object can be borrowed more than once.
  BOOST_TEST(borrow(share_kind::memory, name, connect_abstract).ok());
}

BOOST_AUTO_TEST_CASE(a_slightly_wrong_name_is_refused) {
  lend();
  auto refused = [](share_kind kind, const share_name& x) {
    return code_of(borrow(kind, x, connect_abstract)) ==
           CUDA_ERROR_INVALID_VALUE;
  };
  BOOST_TEST(refused(share_kind::event, name));
  auto x = name;
  ++x.number;
  BOOST_TEST(refused(share_kind::memory, x));
  x = name;
  ++x.serial; // a former or later object
  BOOST_TEST(refused(share_kind::memory, x));
  x = name;
  ++x.session.low; // no such socket
  BOOST_TEST(refused(share_kind::memory, x));
  BOOST_TEST(refused(static_cast<share_kind>(99), name));
}

BOOST_AUTO_TEST_CASE(an_object_is_lent_until_it_is_withdrawn) {
  auto before = descriptors_in_use();
  lend();
  BOOST_TEST(borrow(share_kind::memory, name, connect_abstract).ok());
  broker->withdraw(key);
  broker->withdraw(key);
  BOOST_TEST(!borrow(share_kind::memory, name, connect_abstract).ok());
  // The broker may be closing its side of the last connection.
  for (auto until = std::chrono::steady_clock::now() + 120s;
       descriptors_in_use() != before &&
       std::chrono::steady_clock::now() < until;)
    std::this_thread::yield();
  BOOST_TEST(descriptors_in_use() == before);
}

BOOST_AUTO_TEST_CASE(a_broker_leaves_nothing_behind) {
  auto before = descriptors_in_use();
  BOOST_TEST(is_listened_to(secret));
  share_secret another{secret.high, secret.low + 1};
  {
    auto second = share_broker::open(another);
    BOOST_REQUIRE(second.ok());
    BOOST_REQUIRE((*second)->lend(key, serial, something()).ok());
    BOOST_TEST(is_listened_to(another));
    // A name belongs to one broker.
    BOOST_TEST(!share_broker::open(another).ok());
  }
  BOOST_TEST(!is_listened_to(another));
  BOOST_TEST(descriptors_in_use() == before);
}

BOOST_AUTO_TEST_CASE(the_number_of_lent_objects_is_bounded) {
  auto one = something();
  for (std::size_t i = 0; i < share_broker::most_lent; ++i)
    BOOST_REQUIRE(broker->lend({share_kind::memory, i}, 1, one).ok());
  share_key more{share_kind::memory, share_broker::most_lent};
  BOOST_TEST(cuda_code(broker->lend(more, 1, one)) == CUDA_ERROR_OUT_OF_MEMORY);
  BOOST_TEST(broker->lend({share_kind::memory, 3}, 2, one).ok());
  broker->withdraw({share_kind::memory, 5});
  BOOST_TEST(broker->lend(more, 1, one).ok());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(hostile_callers, lending)

BOOST_AUTO_TEST_CASE(malformed_requests_get_nothing) {
  lend();
  std::vector<std::uint64_t> good{
      0x3130455241485356, secret.high,
      secret.low,         static_cast<std::uint64_t>(key.kind),
      key.number,         serial};
  auto ask = [&](const std::vector<std::uint64_t>& words,
                 std::span<const int> with = {}) {
    auto socket = stranger();
    BOOST_REQUIRE(send_packet(socket.get(), words, with).ok());
    return is_dismissed(socket, 1);
  };
  for (std::size_t i = 0; i < good.size(); ++i)
    for (auto bit : {0, 17, 63}) {
      auto bad = good;
      bad[i] ^= std::uint64_t{1} << bit;
      BOOST_TEST(ask(bad));
    }
  for (std::size_t size = 1; size < good.size(); ++size)
    BOOST_TEST(ask({good.begin(), good.begin() + static_cast<long>(size)}));
  auto longer = good;
  longer.resize(8'000, ~std::uint64_t{0});
  BOOST_TEST(ask(longer));
  // Unexpected descriptors are closed.
  auto before = descriptors_in_use();
  std::vector<int> many(60, STDERR_FILENO);
  auto bad = good;
  bad[2] ^= 1;
  BOOST_TEST(ask(bad, many));
  BOOST_TEST(descriptors_in_use() <= before + 1);
  // A packet that is not a whole number of words.
  auto socket = stranger();
  BOOST_REQUIRE(::write(socket.get(), "hello", 5) == 5);
  BOOST_TEST(is_dismissed(socket));
  BOOST_TEST(borrow(share_kind::memory, name, connect_abstract).ok());
}

BOOST_AUTO_TEST_CASE(silent_callers_do_not_keep_others_out) {
  lend();
  std::vector<unique_fd> silent;
  for (std::size_t i = 0; i < share_broker::most_callers; ++i)
    silent.push_back(stranger());
  BOOST_TEST(borrow(share_kind::memory, name, connect_abstract).ok());
  for (auto& x : silent)
    BOOST_TEST(is_dismissed(x));
}

BOOST_AUTO_TEST_SUITE_END()
