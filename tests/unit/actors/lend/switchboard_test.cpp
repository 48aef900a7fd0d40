// To whom a node connects its workers, and what it does with nonsense.
#include "actors/lend/switchboard.hpp"
#include "actors/link/unix_socket.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

using namespace vgpu;
namespace data_of = boost::unit_test::data;

namespace {

std::string unique(std::string_view prefix) {
  return std::string{prefix} + std::to_string(::getpid());
}

/// Is another worker, which accepts at a socket.
struct served {
  std::string name;
  unique_fd listener = std::move(*listen_abstract(name));

  /// Returns whether what was sent over this connection arrives.
  bool gets(int connection) const {
    const std::array<std::uint64_t, 1> word{4711};
    auto there = accept_own(listener.get());
    if (!there || !send_packet(connection, word))
      return false;
    auto in = receive_packet(there.get());
    return in && *in && (*in)->words == std::vector<std::uint64_t>{4711};
  }
};

struct joined {
  switchboard node;
  unique_fd line = std::move(*node.open_line());
};

/// Waits until the other end of a line is closed.
bool ends(int line) {
  pollfd item{line, POLLIN, 0};
  constexpr int patience_ms = 60'000;
  if (::poll(&item, 1, patience_ms) != 1)
    return false;
  auto in = receive_packet(line);
  return in && *in && (*in)->closed;
}

} // namespace

BOOST_AUTO_TEST_SUITE(switchboards)

BOOST_DATA_TEST_CASE_F(joined, a_worker_is_connected_to_others,
                       data_of::make({broker_socket_prefix,
                                      desk_socket_prefix}),
                       prefix) {
  served other{unique(prefix)};
  auto connect = connector_over(std::move(line));
  auto first = connect(other.name);
  BOOST_REQUIRE(first.ok());
  BOOST_TEST(other.gets(first->get()));
  auto second = connect(other.name);
  BOOST_REQUIRE(second.ok());
  BOOST_TEST(other.gets(second->get()));
}

BOOST_FIXTURE_TEST_CASE(each_worker_has_a_line_of_its_own, joined) {
  served other{unique(broker_socket_prefix)};
  auto first = connector_over(std::move(line));
  auto second = connector_over(std::move(*node.open_line()));
  auto by_second = second(other.name);
  auto by_first = first(other.name);
  BOOST_REQUIRE((by_first.ok() && by_second.ok()));
  BOOST_TEST(other.gets(by_second->get()));
  BOOST_TEST(other.gets(by_first->get()));
}

BOOST_FIXTURE_TEST_CASE(nobody_listens, joined) {
  auto connect = connector_over(std::move(line));
  auto got = connect(unique(broker_socket_prefix));
  BOOST_REQUIRE(!got.ok());
  BOOST_TEST((got.why().kind == fault_kind::missing));
  served other{unique(broker_socket_prefix)};
  BOOST_TEST(connect(other.name).ok());
}

BOOST_DATA_TEST_CASE_F(joined, nothing_else_is_reached,
                       data_of::make({"vgpu-worker-", "vgpu-client-", "X",
                                      "vgpu-shared-", "/vgpu-share-"}),
                       prefix) {
  served other{unique(prefix)};
  auto connect = connector_over(std::move(line));
  auto got = connect(other.name);
  BOOST_REQUIRE(!got.ok());
  BOOST_TEST((got.why().kind == fault_kind::refused));
  // The line still works.
  served broker{unique(broker_socket_prefix)};
  BOOST_TEST(connect(broker.name).ok());
}

BOOST_FIXTURE_TEST_CASE(a_name_is_no_longer_than_an_address, joined) {
  auto connect = connector_over(std::move(line));
  for (auto name : {std::string{}, std::string(108, 'a')}) {
    auto got = connect(name);
    BOOST_REQUIRE(!got.ok());
    BOOST_TEST((got.why().kind == fault_kind::usage));
  }
}

BOOST_FIXTURE_TEST_CASE(nonsense_is_refused, joined) {
  const std::vector<std::uint64_t> too_long(64, 0x6161616161616161);
  const std::vector<std::uint64_t> zeros(2);
  for (auto& words : {too_long, zeros}) {
    BOOST_REQUIRE(send_packet(line.get(), words).ok());
    pollfd item{line.get(), POLLIN, 0};
    BOOST_REQUIRE(::poll(&item, 1, -1) == 1);
    auto in = receive_packet(line.get());
    BOOST_REQUIRE((in && *in && !(*in)->closed));
    BOOST_TEST((*in)->words.size() == 1u);
    BOOST_TEST((*in)->descriptors.empty());
  }
}

BOOST_FIXTURE_TEST_CASE(a_descriptor_ends_the_line_and_no_other, joined) {
  served other{unique(broker_socket_prefix)};
  auto connect = connector_over(std::move(*node.open_line()));
  const std::array<std::uint64_t, 1> word{1};
  BOOST_REQUIRE(send_packet(line.get(), word, std::array{STDIN_FILENO}).ok());
  BOOST_TEST(ends(line.get()));
  BOOST_TEST(connect(other.name).ok());
}

BOOST_FIXTURE_TEST_CASE(a_worker_that_reads_no_answer_ends_its_line, joined) {
  served other{unique(broker_socket_prefix)};
  auto connect = connector_over(std::move(*node.open_line()));
  const std::array<std::uint64_t, 1> word{1};
  // Neither queue takes packets without end, and the node waits for nobody.
  while (send_packet(line.get(), word).ok() || errno == EAGAIN) {
    pollfd item{line.get(), POLLOUT, 0};
    BOOST_REQUIRE(::poll(&item, 1, -1) == 1);
  }
  BOOST_TEST(connect(other.name).ok());
}

BOOST_AUTO_TEST_CASE(a_line_ends_with_its_node) {
  auto node = std::make_unique<switchboard>();
  auto line = std::move(*node->open_line());
  auto other = std::move(*node->open_line());
  node.reset();
  BOOST_TEST(ends(line.get()));
  auto connect = connector_over(std::move(other));
  auto got = connect(unique(broker_socket_prefix));
  BOOST_REQUIRE(!got.ok());
  BOOST_TEST((got.why().kind == fault_kind::lost));
  BOOST_TEST(!connect(unique(broker_socket_prefix)).ok());
}

BOOST_AUTO_TEST_SUITE_END()
