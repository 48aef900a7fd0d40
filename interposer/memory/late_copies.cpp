#include "interposer/memory/late_copies.hpp"

#include "interposer/memory/memory_part.hpp"
#include "interposer/session/on_occasion.hpp"
#include "interposer/session/own_thread.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"
#include "interposer/session/session_part.hpp"
#include "interposer/session/uncancelled.hpp"
#include "interposer/stream/host_call.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <exception>
#include <utility>

namespace vgpu::interposer {

using namespace std::chrono_literals;

/// Represents a copy for which its stream waits.
class late_copy_list::copy final : public stream_task {
public:
  copy(late_copy_list& list, place& in, std::unique_ptr<event> reached,
       std::unique_ptr<copy_steps> what)
      : list_(list), in_(in), reached_(std::move(reached)),
        what_(std::move(what)) {}
  copy(const copy&) = delete;
  copy& operator=(const copy&) = delete;
  ~copy() override {
    if (reached_ != nullptr)
      list_.give(in_, std::move(reached_));
    list_.ended();
  }

  event& reached() noexcept { return *reached_; }

  stream* step(CUresult status) noexcept override {
    if (status != CUDA_SUCCESS)
      return nullptr;
    try {
      // The stream has come here, but a replay knows that only from the log.
      if (reached_ != nullptr) {
        (void)wait(*in_.side, *reached_);
        list_.give(in_, std::move(reached_));
      }
      return what_->step(*in_.side) ? in_.side.get() : nullptr;
    } catch (const std::exception& e) {
      report_exception(e.what());
      return nullptr;
    }
  }

private:
  late_copy_list& list_;
  place& in_;
  // The event before the copy; null after the first step
  std::unique_ptr<event> reached_;
  const std::unique_ptr<copy_steps> what_;
};

/// Represents a copy that stands in its stream and lacks its bytes.
class late_copy_list::write final : public stream_task {
public:
  write(late_copy_list& list, std::uint8_t device)
      : list_(list), device_(device) {}
  write(const write&) = delete;
  write& operator=(const write&) = delete;
  ~write() override { list_.ended(); }

  /// Appends the parts behind the task. Where the stream has come to the task
  /// meanwhile, this also sends the bytes.
  void append(stream& in, std::vector<late_part> parts) {
    std::vector<call_number> numbers;
    numbers.reserve(parts.size());
    for (auto& x : parts)
      numbers.push_back(here().send(x.what, device_));
    for (auto number : numbers)
      in.copied(number);
    std::lock_guard guard{mutex_};
    parts_ = std::move(parts);
    numbers_ = std::move(numbers);
    if (is_due_)
      send();
  }

  stream* step(CUresult status) noexcept override {
    std::lock_guard guard{mutex_};
    is_due_ = status == CUDA_SUCCESS;
    return nullptr;
  }

  /// Sends the bytes after the end of the task, because the worker may take
  /// more of them only when the stream comes to the copy's parts.
  void continued() noexcept override {
    std::lock_guard guard{mutex_};
    try {
      if (is_due_)
        send();
    } catch (const std::exception& e) {
      report_exception(e.what());
    }
  }

private:
  /// Sends the bytes of all parts that are appended. Precondition: the mutex is
  /// held.
  void send() {
    for (std::size_t i = 0; i < parts_.size();)
      if (auto sent = send_long(i); sent != 0)
        i += sent;
      else
        send_one(i++);
    parts_.clear();
  }

  void send_one(std::size_t which) {
    const auto& x = parts_[which];
    auto width = x.what.size.width;
    auto height = x.what.size.height;
    here().send(call::late_bytes{numbers_[which].value}, device_,
                static_cast<std::uint32_t>(width * height),
                [&](std::span<std::byte> into) {
                  for (std::uint64_t row = 0; row < height; ++row)
                    std::memcpy(into.data() + row * width,
                                reinterpret_cast<const std::byte*>(
                                    x.from + row * x.pitch),
                                width);
                });
  }

  /// Sends consecutive long parts by several threads, and returns their number;
  /// 0 where there are not enough of them.
  std::size_t send_long(std::size_t first) {
    auto bytes = [&](std::uint64_t offset) {
      return call::late_bytes{numbers_[first + offset / max_payload].value};
    };
    auto most = here().longest_payload(bytes(0)) / max_payload;
    std::size_t count = 0;
    for (; first + count < parts_.size() && count < most; ++count) {
      const auto& x = parts_[first + count];
      if (x.what.size.width != max_payload || x.what.size.height != 1 ||
          x.from != parts_[first].from + count * max_payload)
        break;
    }
    if (count < 2)
      return 0;
    here().send_parts(bytes, device_,
                      {reinterpret_cast<const std::byte*>(parts_[first].from),
                       count * max_payload});
    return count;
  }

  late_copy_list& list_;
  const std::uint8_t device_;
  std::mutex mutex_;
  bool is_due_ = false;
  std::vector<late_part> parts_;
  std::vector<call_number> numbers_;
};

/// Represents what is done in one step, without any work of a device.
class late_copy_list::action final : public stream_task {
public:
  action(late_copy_list& list, std::function<void()> what)
      : list_(list), what_(std::move(what)) {}
  action(const action&) = delete;
  action& operator=(const action&) = delete;
  ~action() override { list_.ended(); }

  stream* step(CUresult status) noexcept override {
    try {
      if (status == CUDA_SUCCESS)
        what_();
    } catch (const std::exception& e) {
      report_exception(e.what());
    }
    return nullptr;
  }

private:
  late_copy_list& list_;
  const std::function<void()> what_;
};

late_copy_list::place& late_copy_list::place_of(context& in) {
  std::lock_guard one{making_};
  {
    std::lock_guard guard{mutex_};
    for (auto& x : places_)
      if (&x->in == &in && x->context_id == in.id.load())
        return *x;
  }
  std::unique_ptr<place> made{
      new place{in, in.id.load(), make_hidden_stream(in), {}}};
  std::lock_guard guard{mutex_};
  return *places_.emplace_back(std::move(made));
}

void late_copy_list::prepare(context& in) {
  if (!host_calls().may_change(0, ~std::uint64_t{0}))
    on_occasion<occasion::first_use>([&] { (void)place_of(in.root); });
}

std::unique_ptr<event> late_copy_list::take_event(place& x) {
  {
    std::lock_guard guard{mutex_};
    if (!x.idle.empty()) {
      auto out = std::move(x.idle.back());
      x.idle.pop_back();
      return out;
    }
  }
  return make_event(x.in, CU_EVENT_DISABLE_TIMING);
}

void late_copy_list::give(place& x, std::unique_ptr<event> what) {
  std::lock_guard guard{mutex_};
  x.idle.push_back(std::move(what));
}

CUresult late_copy_list::add(stream& in, std::uint64_t begin, std::uint64_t end,
                             std::unique_ptr<copy_steps> what) {
  auto& where = place_of(in.owner);
  auto reached = take_event(where);
  begun();
  auto made =
      std::make_shared<copy>(*this, where, std::move(reached), std::move(what));
  if (auto code = record(made->reached(), in); code != CUDA_SUCCESS)
    return code;
  return host_calls().add_task(in, std::move(made), begin, end);
}

CUresult late_copy_list::add_write(stream& in, std::vector<late_part> parts) {
  begun();
  auto made = std::make_shared<write>(*this, in.device());
  if (auto code = host_calls().add_task(in, made, 0, 0); code != CUDA_SUCCESS)
    return code;
  made->append(in, std::move(parts));
  return CUDA_SUCCESS;
}

CUresult late_copy_list::add_action(stream& in, std::uint64_t begin,
                                    std::uint64_t end,
                                    std::function<void()> what) {
  begun();
  return host_calls().add_task(
      in, std::make_shared<action>(*this, std::move(what)), begin, end);
}

late_room::late_room(std::vector<reply_arena::range> pieces,
                     std::size_t piece_bytes, std::atomic<std::size_t>& used)
    : pieces_(std::move(pieces)), piece_bytes_(piece_bytes), used_(used) {
  used_ += pieces_.size() * piece_bytes_;
}

late_room::~late_room() {
  used_ -= pieces_.size() * piece_bytes_;
}

void late_room::keep_forever() noexcept {
  for (auto& x : pieces_)
    x.keep_forever();
}

namespace {

/// Describes rooms of a size, and how much of the arena rooms may occupy when
/// one of these is added. The first streams get large rooms, which need the
/// program less often; many others still get a small one.
struct room_size {
  std::size_t pieces;
  std::size_t piece_bytes;
  std::size_t until;
};
constexpr std::size_t mebi = std::size_t{1} << 20;
constexpr std::array room_sizes{room_size{2, 4 * mebi, 16 * mebi},
                                room_size{1, mebi, 24 * mebi},
                                room_size{1, mebi / 8, 32 * mebi}};
static_assert(room_sizes.back().until <= arena_bytes / 2);

/// Takes ranges of the arena that are free now, or none.
std::vector<reply_arena::range> take_pieces(const room_size& x) {
  std::vector<reply_arena::range> out;
  while (out.size() < x.pieces)
    if (auto range = here().arena().try_take(x.piece_bytes); range)
      out.push_back(std::move(*range));
    else
      return {};
  return out;
}

} // namespace

std::shared_ptr<late_room> late_copy_list::room_of(stream& in) {
  std::lock_guard guard{mutex_};
  std::erase_if(room_of_, [](auto& x) { return x.second.expired(); });
  auto& slot = room_of_[in.id];
  if (auto has = slot.lock(); has)
    return has;
  for (const auto& x : room_sizes)
    if (rooms_ + x.pieces * x.piece_bytes <= x.until)
      if (auto pieces = take_pieces(x); !pieces.empty()) {
        auto made = std::make_shared<late_room>(std::move(pieces),
                                                x.piece_bytes, rooms_);
        slot = made;
        return made;
      }
  return nullptr;
}

bool late_copy_list::may_read(std::size_t bytes) {
  constexpr std::size_t most = 128 * mebi;
  if (reads_.fetch_add(bytes) + bytes <= most || !here().apart())
    return true;
  reads_ -= bytes;
  return false;
}

void late_copy_list::begun() {
  std::lock_guard guard{mutex_};
  pending_.fetch_add(1);
  session_part::get().before_release.arm();
}

void late_copy_list::ended() {
  std::lock_guard guard{mutex_};
  pending_.fetch_sub(1);
  session_part::get().before_release.disarm();
  none_.notify_all();
}

void late_copy_list::wait_for_none() {
  if (pending_ == 0 || runs_host_functions()) [[likely]]
    return;
  uncancelled through;
  std::unique_lock guard{mutex_};
  while (pending_ != 0)
    if (none_.wait_for(guard, 100ms) == std::cv_status::timeout) {
      guard.unlock();
      here().idle()();
      guard.lock();
    }
}

void late_copy_list::forget(const context& of) {
  wait_for_none();
  std::vector<std::unique_ptr<place>> gone;
  {
    std::lock_guard guard{mutex_};
    for (auto& x : places_)
      if (&x->in == &of)
        gone.push_back(std::move(x));
    std::erase(places_, nullptr);
  }
  for (auto& x : gone) {
    retire_hidden_stream(*x->side);
    for (auto& idle : x->idle)
      retire_event(*idle);
  }
}

late_copy_list& late_copies() noexcept {
  return memory_part::get().late_copies;
}

} // namespace vgpu::interposer
