#include "actors/worker/execute/state_copier.hpp"

#include "actors/link/log.hpp"
#include "actors/state/contents_pump.hpp"
#include "actors/worker/execute/state_capture.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <unistd.h>

namespace vgpu {

using namespace std::chrono_literals;

/// Is one state that is copied in rounds.
class state_copier::rounds {
public:
  rounds(session_objects& session, std::shared_ptr<snapshot_base> to,
         copy_rooms& by_way_of, bool snapshot, std::function<void()> ring)
      : session_(session), to_(std::move(to)), by_way_of_(by_way_of),
        keeps_(snapshot), ring_(std::move(ring)) {}

  const std::shared_ptr<snapshot_base>& base() const noexcept { return to_; }
  bool keeps() const noexcept { return keeps_; }

  /// Makes the marks of a round. Later the devices list the changes before
  /// them.
  void begin_round();
  /// Returns true when the session should stand still for the rest, and after
  /// rest() when the file has everything.
  result<bool> go_on();
  /// Copies or keeps the rest while the devices are idle.
  status rest();
  /// Waits until the file has everything. Precondition: rest() succeeded.
  status finish();
  bool has_room() const noexcept { return !rooms_.empty(); }
  std::chrono::nanoseconds delayed() const { return pump_.waited(); }

private:
  using clock = std::chrono::steady_clock;
  /// Says what the pump's jobs are.
  enum class stage : std::uint8_t {
    marking, // the marks of a round
    copying, // the changes before them
    kept     // copies that devices keep: the session has gone on
  };
  /// Holds the changes of one device.
  struct change {
    std::uint64_t bytes = 0;
    std::uint64_t granules = 0;
  };

  /// Limits the time for which the session stands still for the rest, if
  /// possible.
  static constexpr std::chrono::milliseconds rest_for{20};
  static constexpr unsigned most_rounds = 12;
  /// Below this many bytes the rate says little.
  static constexpr std::uint64_t telling_bytes = std::uint64_t{32} << 20;

  device::change_unit& changes(std::size_t device) const {
    return *session_.devices[device].can.change;
  }
  std::vector<snapshot_base::range> ranges() const;
  bool tells_at_marks() const;
  bool changed(const snapshot_base::piece& x) const;
  std::vector<change> count_changes() const;
  void list_changed();
  void feed();
  status note(const contents_pump::job& x, bool at_rest);
  status drain(bool at_rest);
  bool may_rest();
  bool is_little(std::uint64_t rest);
  bool make_rooms(const std::vector<change>& of);
  status keep();
  status keep_on(std::size_t device);
  bool has_images() const;
  status image_on();
  status image_piece(std::span<const std::byte> bytes, std::uint64_t at);

  session_objects& session_;
  std::shared_ptr<snapshot_base> to_;
  copy_rooms& by_way_of_;
  bool keeps_;
  std::function<void()> ring_;
  /// Hold what the devices keep; one for each device, or none.
  std::vector<std::unique_ptr<device::contents_room>> rooms_{};
  std::vector<std::uint64_t> room_for_{}; // granules
  // The pump uses the rooms.
  contents_pump pump_{to_->file(), to_->mapped(), by_way_of_, ring_};
  std::deque<contents_pump::job> todo_{};
  std::vector<std::uint64_t> marks_ =
      std::vector<std::uint64_t>(session_.devices.size(), 1);
  stage stage_ = stage::marking;
  status outcome_{};           // of the kept copies
  std::uint64_t of_round_ = 0; // bytes
  unsigned rounds_ = 0;
  clock::time_point began_{};
  double bytes_a_second_ = 1e9;
  /// Holds the image that is being written.
  std::optional<state_image> image_{};
};

// -- what changed -------------------------------------------------------------

/// Splits memory into pieces of one granule each, because changes are tracked
/// by granule.
std::vector<snapshot_base::range> state_copier::rounds::ranges() const {
  std::vector<snapshot_base::range> out;
  for (auto& slot : session_.devices)
    for (auto& [first, size] : slot.contents())
      for (auto address = first, bytes = size; bytes != 0;) {
        auto piece = std::min(bytes, granule_bytes - address % granule_bytes);
        out.emplace_back(address, static_cast<std::uint32_t>(piece));
        address += piece;
        bytes -= piece;
      }
  return out;
}

bool state_copier::rounds::tells_at_marks() const {
  return std::ranges::any_of(session_.devices, [](auto& slot) {
    return slot.can.change->tells_at_marks();
  });
}

bool state_copier::rounds::changed(const snapshot_base::piece& x) const {
  return x.mark == 0 || changes(device_at(x.chunk.address))
                            .changed_since(x.chunk.address, x.mark);
}

/// Counts what a round would copy now, for each device.
std::vector<state_copier::rounds::change>
state_copier::rounds::count_changes() const {
  std::vector<change> out(session_.devices.size());
  auto last = ~device_address{0};
  for (auto& [address, x] : to_->pieces()) {
    if (!changed(x))
      continue;
    auto& of = out[device_at(address)];
    of.bytes += x.chunk.bytes;
    auto granule = address / granule_bytes;
    of.granules += granule != std::exchange(last, granule);
  }
  return out;
}

// -- rounds -------------------------------------------------------------------

void state_copier::rounds::begin_round() {
  ++rounds_;
  for (std::size_t d = 0; d < marks_.size(); ++d) {
    contents_pump::job mark{.from = &changes(d), .marks = true};
    mark.chunk.address = window_of(d);
    pump_.add(mark);
  }
  stage_ = stage::marking;
}

void state_copier::rounds::list_changed() {
  stage_ = stage::copying;
  of_round_ = 0;
  for (auto& [address, x] : to_->pieces()) {
    if (!changed(x))
      continue;
    auto device = device_at(address);
    todo_.push_back(
        {.from = &changes(device), .chunk = x.chunk, .mark = marks_[device]});
    of_round_ += x.chunk.bytes;
  }
  began_ = clock::now();
}

void state_copier::rounds::feed() {
  for (; !todo_.empty() && !pump_.full(); todo_.pop_front())
    pump_.add(todo_.front());
}

/// Records a finished job. Memory may have been freed before it was copied, but
/// not `at_rest`.
status state_copier::rounds::note(const contents_pump::job& x, bool at_rest) {
  if (x.marks)
    marks_[device_at(x.chunk.address)] = x.mark;
  else if (x.done)
    to_->note(x.chunk, x.mark);
  return x.seen || x.marks || at_rest ? x.done : status{};
}

status state_copier::rounds::drain(bool at_rest) {
  while (auto done = pump_.wait()) {
    if (auto ok = note(*done, at_rest); !ok)
      return ok;
    feed();
  }
  return {};
}

/// Returns whether the session should stand still now.
bool state_copier::rounds::may_rest() {
  auto changes = count_changes();
  std::uint64_t rest = 0;
  for (auto& x : changes)
    rest += x.bytes;
  // In the first round nothing is copied yet, so no rate is known.
  auto little = rounds_ > 1 && is_little(rest);
  return make_rooms(changes) || little;
}

bool state_copier::rounds::is_little(std::uint64_t rest) {
  auto took = std::chrono::duration<double>{clock::now() - began_}.count();
  if (of_round_ >= telling_bytes && took > 0)
    bytes_a_second_ = static_cast<double>(of_round_) / took;
  auto most = bytes_a_second_ * std::chrono::duration<double>{rest_for}.count();
  // The first round takes longer than the second, because its file has no pages
  // yet.
  auto grows = rounds_ > 2 && rest > of_round_ / 4 * 3;
  return static_cast<double>(rest) <= most || rounds_ >= most_rounds || grows;
}

result<bool> state_copier::rounds::go_on() {
  while (auto done = pump_.take())
    if (auto ok = note(*done, stage_ == stage::kept); !ok)
      return ok.why();
  feed();
  if (stage_ == stage::kept)
    return pump_.under_way() == 0;
  if (has_images()) {
    if (auto ok = image_on(); !ok)
      return ok.why();
    ring_();
    return false;
  }
  if (pump_.under_way() != 0)
    return false;
  if (stage_ == stage::copying) {
    begin_round();
  } else {
    to_->keep(ranges());
    if (may_rest())
      return true;
    list_changed();
    feed();
  }
  ring_();
  return false;
}

status state_copier::rounds::rest() {
  auto began = clock::now();
  todo_.clear();
  auto ok = drain(false);
  if (ok && (keeps_ || tells_at_marks())) {
    begin_round();
    ok = drain(true);
  }
  if (!ok)
    return ok;
  to_->keep(ranges());
  list_changed();
  while (ok && has_images())
    ok = image_on();
  auto marked = clock::now();
  if (ok)
    ok = keep();
  spdlog::debug("{} bytes changed: {} us for marks, {} us for copies",
                of_round_, (marked - began) / 1us,
                (clock::now() - marked) / 1us);
  return ok;
}

status state_copier::rounds::finish() {
  feed();
  if (auto ok = drain(true); !ok) {
    outcome_ = ok;
    todo_.clear();
    while (pump_.wait())
      ; // the rooms are in use until then
  }
  rooms_.clear();
  return outcome_;
}

// -- what devices keep --------------------------------------------------------

/// Makes room on the devices for everything that changed, if that is allowed
/// and saves the session time. The memory is that of the session's quota which
/// the session does not use.
bool state_copier::rounds::make_rooms(const std::vector<change>& of) {
  rooms_.clear();
  room_for_.clear();
  auto takes = std::chrono::duration<double>{0};
  for (std::size_t d = 0; d < of.size(); ++d)
    takes += std::chrono::duration<double>{
        static_cast<double>(of[d].bytes) /
        static_cast<double>(changes(d).kept_a_second())};
  // A replay that finds no memory gives this worker up, so none is taken.
  auto replays = session_.position < session_.replay_until;
  if (!keeps_ || replays || takes > rest_for)
    return false;
  for (std::size_t d = 0; d < of.size(); ++d) {
    // More may change until the session stands still.
    auto granules = of[d].granules + of[d].granules / 8 + 16;
    granules =
        std::min(granules, session_.devices[d].state.unused() / granule_bytes);
    auto room = granules < std::max<std::uint64_t>(of[d].granules, 1)
                    ? result<std::unique_ptr<device::contents_room>>{cuda_fault(
                          CUDA_ERROR_OUT_OF_MEMORY,
                          "its quota leaves no room for copies")}
                    : changes(d).make_room(granules);
    if (!room) {
      rooms_.clear();
      return false;
    }
    rooms_.push_back(std::move(*room));
    room_for_.push_back(granules);
  }
  return true;
}

/// Has the devices keep what is to be copied, as far as there is room, and
/// copies the rest.
status state_copier::rounds::keep() {
  for (std::size_t d = 0; d < rooms_.size(); ++d)
    if (auto ok = keep_on(d); !ok) {
      spdlog::info("changed memory is copied at rest: {}", ok.why().what);
      for (auto& x : todo_)
        x.kept = nullptr;
      break;
    }
  auto later = std::stable_partition(todo_.begin(), todo_.end(),
                                     [](auto& x) { return x.kept == nullptr; });
  std::deque<contents_pump::job> kept{later, todo_.end()};
  todo_.erase(later, todo_.end());
  feed();
  if (auto ok = drain(true); !ok)
    return ok;
  // The pump begins when calls are executed again: what is left to describe
  // uses the same device, and must not wait for long copies.
  stage_ = stage::kept;
  todo_ = std::move(kept);
  return {};
}

status state_copier::rounds::keep_on(std::size_t device) {
  std::vector<device_address> granules;
  for (auto& x : todo_) {
    auto granule = x.chunk.address / granule_bytes * granule_bytes;
    if (device_at(granule) != device)
      continue;
    auto known = !granules.empty() && granules.back() == granule;
    if (!known && granules.size() == room_for_[device])
      break;
    if (!known)
      granules.push_back(granule);
    x.kept = rooms_[device].get();
  }
  return rooms_[device]->keep(granules);
}

// -- images -------------------------------------------------------------------

bool state_copier::rounds::has_images() const {
  return image_ || session_.images.size() != to_->images().size();
}

/// Writes one piece of an image that the file does not have yet.
status state_copier::rounds::image_on() {
  if (!image_)
    for (auto& [digest, bytes] : session_.images)
      if (!to_->images().contains(digest)) {
        image_.emplace(state_image{digest, bytes.size(), {}});
        break;
      }
  auto& bytes = session_.images.at(image_->digest);
  auto& chunks = image_->chunks;
  auto at = chunks.empty() ? 0 : chunks.back().address + chunks.back().bytes;
  if (at != bytes.size()) {
    if (auto ok = image_piece(bytes, at); !ok)
      return ok;
    at += chunks.back().bytes;
  }
  if (at == bytes.size()) {
    to_->images().emplace(image_->digest, std::move(*image_));
    image_.reset();
  }
  return {};
}

status state_copier::rounds::image_piece(std::span<const std::byte> bytes,
                                         std::uint64_t at) {
  auto piece = std::min<std::uint64_t>(bytes.size() - at, state_chunk_bytes);
  state_chunk next{.address = at,
                   .bytes = static_cast<std::uint32_t>(piece),
                   .offset = to_->place(piece)};
  if (auto ok = store_contents(to_->file(), next, bytes.subspan(at, piece));
      !ok)
    return ok;
  image_->chunks.push_back(next);
  return {};
}

// -- state_copier -------------------------------------------------------------

bool state_copier::is_possible() const {
  return std::ranges::none_of(
      session_.devices, [](auto& slot) { return slot.can.change == nullptr; });
}

status state_copier::begin(int file, bool snapshot,
                           std::function<void()> ring) {
  constexpr std::size_t most_kept = 2; // of successive snapshots
  abandon();
  auto known = std::find_if(kept_.begin(), kept_.end(),
                            [&](auto& x) { return x->is_of(file); });
  std::shared_ptr<snapshot_base> to;
  if (known != kept_.end()) {
    to = std::move(*known);
    kept_.erase(known);
  }
  if (!to)
    to = take_over(file);
  if (!to || !to->is_whole()) {
    // The pages that an abandoned snapshot wrote stay, because fresh ones would
    // take longer than the writing.
    auto own = duplicate_of(file);
    if (!own)
      return cuda_fault(CUDA_ERROR_OPERATING_SYSTEM,
                        std::string{"a state's file has no descriptor: "} +
                            std::strerror(errno));
    to = std::make_shared<snapshot_base>(std::move(own));
  }
  if (auto ok = to->begin(); !ok)
    return ok;
  if (kept_.size() >= most_kept)
    kept_.erase(kept_.begin());
  round_ = std::make_shared<rounds>(session_, to, *copy_rooms_, snapshot,
                                    std::move(ring));
  round_->begin_round();
  return {};
}

void state_copier::note_restored(std::vector<state_chunk> contents,
                                 std::vector<std::uint64_t> marks) {
  std::ranges::sort(contents, {}, &state_chunk::address);
  restored_ = std::move(contents);
  restored_marks_ = std::move(marks);
}

/// Returns what a former worker's snapshot in the file has of the session's
/// memory; null where there is none.
std::shared_ptr<snapshot_base> state_copier::take_over(int file) const {
  if (restored_.empty())
    return nullptr;
  auto former = state_reader::open(file);
  auto own = duplicate_of(file);
  if (!former || !own)
    return nullptr;
  auto out = std::make_shared<snapshot_base>(std::move(own));
  out->take_over(former->index(), [&](auto& x) { return mark_of(x); });
  return out;
}

/// Returns the mark until which the session's memory was as this chunk, 0 where
/// it was not, and nothing outside of the windows, where variables lie.
std::optional<std::uint64_t> state_copier::mark_of(const state_chunk& x) const {
  auto device = device_at(x.address);
  if (device >= session_.devices.size() ||
      !session_.devices[device].in_window(x.address))
    return std::nullopt;
  auto same =
      std::ranges::lower_bound(restored_, x.address, {}, &state_chunk::address);
  return same != restored_.end() && same->address == x.address &&
                 same->bytes == x.bytes && same->form == x.form &&
                 same->hash == x.hash
             ? restored_marks_[device]
             : 0;
}

result<bool> state_copier::go_on() {
  return round_->go_on();
}

status state_copier::describe() {
  auto ok = describable_now(session_);
  if (ok)
    ok = round_->rest();
  if (!ok)
    return ok;
  description_ = std::make_shared<state_capture>(session_, *round_->base());
  return description_->describe();
}

result<std::uint64_t> state_copier::finish() {
  auto x = std::exchange(round_, nullptr);
  auto description = std::exchange(description_, nullptr);
  if (auto ok = x->finish(); !ok)
    return ok.why();
  delayed_ = x->delayed();
  auto bytes = description->finish();
  if (bytes && x->keeps())
    kept_.push_back(x->base());
  return bytes;
}

void state_copier::abandon() noexcept {
  description_.reset();
  round_.reset();
}

bool state_copier::has_room() const noexcept {
  return round_ && round_->has_room();
}

bool state_copier::give_back_room() {
  if (!has_room())
    return false;
  // Its outcome is finish()'s.
  (void)round_->finish();
  return true;
}

} // namespace vgpu
