#include "nodes/support/etcd_client.hpp"

#include "actors/manager/election/etcd_codec.hpp"

#include <boost/asio/connect.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <thread>

namespace vgpu {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

/// Gives the largest answer in bytes. It exceeds every record of ours.
constexpr std::uint64_t largest_answer = std::uint64_t{8} << 20;
constexpr std::size_t most_members = 16;
/// Gives the room of a new buffer, in bytes: that of most answers.
constexpr std::size_t least_room = 4096;

/// An exchange sends one question and receives its answer. It connects first,
/// unless there is a connection. Only the client's thread uses it.
class exchange final : public std::enable_shared_from_this<exchange> {
public:
  using stream = std::unique_ptr<beast::tcp_stream>;
  /// Gets the answer, and the connection if it can be used again.
  using then = std::function<void(etcd::answer, stream)>;

  exchange(asio::io_context& io, etcd_member to, etcd::question what,
           const std::string& prefix, then done)
      : io_(io), resolver_(io), to_(std::move(to)), what_(std::move(what)),
        done_(std::move(done)) {
    auto post = etcd::encode(what_, prefix);
    request_ = {http::verb::post, post.path, 11, std::move(post.body)};
    request_.set(http::field::host, to_.authority);
    request_.set(http::field::content_type, "application/json");
    request_.prepare_payload();
  }

  void begin(stream used, std::chrono::steady_clock::time_point until) {
    until_ = until;
    used_ = used != nullptr;
    stream_ = std::move(used);
    if (used_)
      return write();
    connect();
  }

  /// Drops the answer, because nothing waits for it any more.
  void give_up() {
    done_ = nullptr;
    resolver_.cancel();
    if (stream_)
      stream_->close();
  }

private:
  void connect() {
    used_ = false;
    resolver_.async_resolve(
        to_.host, to_.port,
        [self = shared_from_this()](error_code error, auto found) {
          if (error || !self->done_)
            return self->fail(error);
          self->stream_ = std::make_unique<beast::tcp_stream>(self->io_);
          self->stream_->expires_at(self->until_);
          self->stream_->async_connect(found, [self](error_code why,
                                                     const auto&) {
            if (why || !self->done_)
              return self->fail(why);
            self->stream_->socket().set_option(asio::ip::tcp::no_delay{true});
            self->write();
          });
        });
  }

  void write() {
    stream_->expires_at(until_);
    http::async_write(*stream_, request_,
                      [self = shared_from_this()](error_code error, auto) {
                        if (error || !self->done_)
                          return self->fail(error);
                        self->read();
                      });
  }

  /// Reads the head of the answer. The parser makes room for as many bytes as
  /// the head announces before it compares them with the limit, so the head is
  /// checked before the parser sees the body.
  void read() {
    parser_.emplace();
    parser_->body_limit(largest_answer);
    // A buffer without room has no address, which the parser hands on.
    buffer_.reserve(least_room);
    http::async_read_header(
        *stream_, buffer_, *parser_,
        [self = shared_from_this()](error_code error, auto) {
          if (error || !self->done_)
            return self->fail(error);
          self->read_body();
        });
  }

  void read_body() {
    if (auto told = parser_->content_length(); told && *told > largest_answer)
      return give_up_on("its answer announces " + std::to_string(*told) +
                        " bytes; " + std::to_string(largest_answer) +
                        " are taken at most");
    http::async_read(*stream_, buffer_, *parser_,
                     [self = shared_from_this()](error_code error, auto) {
                       if (error || !self->done_)
                         return self->fail(error);
                       self->finish();
                     });
  }

  void finish() {
    const auto& got = parser_->get();
    auto answer = etcd::decode(what_, got.result_int(), got.body());
    auto again = got.keep_alive() ? std::move(stream_) : nullptr;
    if (again)
      again->expires_never();
    std::exchange(done_, nullptr)(std::move(answer), std::move(again));
  }

  void fail(error_code why) {
    if (!done_)
      return;
    // The member may have closed an idle connection. The question is repeated,
    // since it may be asked twice.
    if (used_ && why != beast::error::timeout) {
      stream_.reset();
      buffer_.clear();
      return connect();
    }
    give_up_on(why.message());
  }

  /// Answers with a failure, and closes the connection.
  void give_up_on(const std::string& why) {
    std::exchange(done_, nullptr)(etcd::failed{to_.authority + ": " + why},
                                  nullptr);
  }

  asio::io_context& io_;
  asio::ip::tcp::resolver resolver_;
  etcd_member to_;
  etcd::question what_;
  then done_; // empty: nothing waits for the answer
  http::request<http::string_body> request_;
  std::optional<http::response_parser<http::string_body>> parser_;
  beast::flat_buffer buffer_;
  stream stream_;
  bool used_ = false;
  std::chrono::steady_clock::time_point until_;
};

class etcd_client final : public etcd_access {
public:
  etcd_client(std::vector<etcd_member> members, std::string prefix)
      : members_(std::move(members)), prefix_(std::move(prefix)),
        thread_([this] { io_.run(); }) {}

  ~etcd_client() override {
    asio::post(io_, [this] {
      if (current_)
        current_->give_up();
      current_.reset();
      idle_.reset();
      stay_.reset();
    });
    thread_.join();
  }

  void ask(std::uint64_t number, etcd::question what,
           std::chrono::milliseconds within, etcd_listener listener) override {
    asio::post(io_, [this, number, what = std::move(what), within,
                     listener = std::move(listener)] {
      begin(number, what, within, listener);
    });
  }

private:
  void begin(std::uint64_t number, const etcd::question& what,
             std::chrono::milliseconds within, const etcd_listener& listener) {
    // The outcome of the former question is unknown, since its member may be
    // slow.
    if (std::exchange(under_way_, true)) {
      current_->give_up();
      turn_to_next();
    }
    current_ = std::make_shared<exchange>(
        io_, members_[member_], what, prefix_,
        [this, number, listener](etcd::answer got, exchange::stream again) {
          under_way_ = false;
          idle_ = std::move(again);
          if (std::holds_alternative<etcd::failed>(got))
            turn_to_next();
          caf::anon_send(listener, std::make_shared<const etcd_answer>(
                                       etcd_answer{number, std::move(got)}));
        });
    current_->begin(std::move(idle_),
                    std::chrono::steady_clock::now() + within);
  }

  void turn_to_next() {
    idle_.reset();
    member_ = (member_ + 1) % members_.size();
  }

  const std::vector<etcd_member> members_;
  const std::string prefix_;
  asio::io_context io_{1};
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>>
      stay_{io_.get_executor()};
  // Only the thread uses these.
  std::size_t member_ = 0;
  bool under_way_ = false;
  std::shared_ptr<exchange> current_;
  exchange::stream idle_; // a connection to that member
  std::thread thread_;    // last, because it uses the other members
};

fault wrong(const std::string& part, const char* why) {
  return {fault_kind::usage,
          "'" + part + "': " + why +
              "; give http://HOST:PORT, or several separated by commas"};
}

result<etcd_member> parse_member(const std::string& part) {
  constexpr std::string_view scheme = "http://";
  if (part.starts_with("https://"))
    return wrong(part, "https is not supported");
  if (!part.starts_with(scheme))
    return wrong(part, "it does not begin with http://");
  auto rest = part.substr(scheme.size());
  if (rest.ends_with('/'))
    rest.pop_back();
  auto colon = rest.rfind(':');
  if (colon == rest.npos || colon == 0)
    return wrong(part, "it has no host and port");
  auto host = rest.substr(0, colon);
  auto port = rest.substr(colon + 1);
  std::uint16_t number = 0;
  auto [end, error] =
      std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc{} || end != port.data() + port.size() || number == 0)
    return wrong(part, "its port is not a number from 1 to 65535");
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  auto is_odd = [](unsigned char x) { return x <= ' ' || x > 126 || x == '/'; };
  if (host.empty() || std::any_of(host.begin(), host.end(), is_odd))
    return wrong(part, "its host is not a name or address");
  return etcd_member{host, port, rest};
}

} // namespace

result<std::vector<etcd_member>> parse_etcd_members(const std::string& text) {
  std::vector<etcd_member> out;
  for (std::size_t begin = 0; begin <= text.size();) {
    auto end = std::min(text.find(',', begin), text.size());
    auto member = parse_member(text.substr(begin, end - begin));
    if (!member)
      return member.why();
    out.push_back(std::move(*member));
    begin = end + 1;
  }
  if (out.size() > most_members)
    return fault{fault_kind::usage,
                 std::to_string(out.size()) + " members: give at most 16"};
  return out;
}

std::shared_ptr<etcd_access> make_etcd_client(std::vector<etcd_member> members,
                                              std::string prefix) {
  return std::make_shared<etcd_client>(std::move(members), std::move(prefix));
}

} // namespace vgpu
