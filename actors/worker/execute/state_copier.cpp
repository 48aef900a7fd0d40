#include "actors/worker/execute/state_copier.hpp"

#include "actors/state/contents_pump.hpp"
#include "actors/worker/execute/state_capture.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <optional>
#include <string>

#include <unistd.h>

namespace vgpu {

/// Is one state that is copied in rounds.
class state_copier::rounds {
public:
  rounds(session_objects& session, std::shared_ptr<snapshot_base> to,
         bool keeps, std::function<void()> ring)
      : session_(session), to_(std::move(to)), keeps_(keeps),
        ring_(std::move(ring)) {}

  const std::shared_ptr<snapshot_base>& base() const noexcept { return to_; }
  bool keeps() const noexcept { return keeps_; }

  /// Makes the marks of a round. Later the devices list the changes before
  /// them.
  void begin_round();
  /// Returns true when the session should stand still for the rest.
  result<bool> go_on();
  /// Copies the rest while the devices are idle. The result is final.
  status finish();

private:
  using clock = std::chrono::steady_clock;

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
  std::uint64_t changed_bytes() const;
  void list_changed();
  void feed();
  status note(const contents_pump::job& x, bool at_rest);
  status drain(bool at_rest);
  bool is_little();
  bool has_images() const;
  status image_on();
  status image_piece(std::span<const std::byte> bytes, std::uint64_t at);

  session_objects& session_;
  std::shared_ptr<snapshot_base> to_;
  bool keeps_;
  std::function<void()> ring_;
  contents_pump pump_{to_->file(), ring_};
  std::deque<contents_pump::job> todo_{};
  std::vector<std::uint64_t> marks_ =
      std::vector<std::uint64_t>(session_.devices.size(), 1);
  bool is_marked_ = false;
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

std::uint64_t state_copier::rounds::changed_bytes() const {
  std::uint64_t out = 0;
  for (auto& [address, x] : to_->pieces())
    out += changed(x) ? x.chunk.bytes : 0;
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
  is_marked_ = false;
}

void state_copier::rounds::list_changed() {
  is_marked_ = true;
  to_->keep(ranges());
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
  feed();
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
bool state_copier::rounds::is_little() {
  auto took = std::chrono::duration<double>{clock::now() - began_}.count();
  if (of_round_ >= telling_bytes && took > 0)
    bytes_a_second_ = static_cast<double>(of_round_) / took;
  auto rest = changed_bytes();
  auto most = bytes_a_second_ * std::chrono::duration<double>{rest_for}.count();
  // The first round takes longer than the second, because its file has no pages
  // yet.
  auto grows = rounds_ > 2 && rest > of_round_ / 4 * 3;
  return static_cast<double>(rest) <= most || rounds_ >= most_rounds || grows;
}

result<bool> state_copier::rounds::go_on() {
  while (auto done = pump_.take())
    if (auto ok = note(*done, false); !ok)
      return ok.why();
  feed();
  if (has_images()) {
    if (auto ok = image_on(); !ok)
      return ok.why();
    ring_();
    return false;
  }
  if (pump_.under_way() != 0)
    return false;
  if (is_marked_)
    begin_round();
  else if (rounds_ > 1 && is_little())
    return true;
  else
    list_changed();
  ring_();
  return false;
}

status state_copier::rounds::finish() {
  todo_.clear();
  auto ok = drain(false);
  if (ok && (keeps_ || tells_at_marks())) {
    begin_round();
    ok = drain(true);
  }
  if (!ok)
    return ok;
  list_changed();
  ok = drain(true);
  while (ok && has_images())
    ok = image_on();
  return ok;
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

status state_copier::begin(int file, bool keep, std::function<void()> ring) {
  constexpr std::size_t most_kept = 2; // of successive snapshots
  round_.reset();
  auto known = std::find_if(kept_.begin(), kept_.end(),
                            [&](auto& x) { return x->is_of(file); });
  std::shared_ptr<snapshot_base> to;
  if (known != kept_.end()) {
    to = std::move(*known);
    kept_.erase(known);
  }
  if (!to || !to->is_whole()) {
    auto own = duplicate_of(file);
    if (!own || ::ftruncate(own.get(), 0) != 0)
      return cuda_fault(CUDA_ERROR_OPERATING_SYSTEM,
                        std::string{"a state's file cannot be emptied: "} +
                            std::strerror(errno));
    to = std::make_shared<snapshot_base>(std::move(own));
  }
  if (auto ok = to->begin(); !ok)
    return ok;
  if (kept_.size() >= most_kept)
    kept_.erase(kept_.begin());
  round_ = std::make_shared<rounds>(session_, to, keep, std::move(ring));
  round_->begin_round();
  return {};
}

result<bool> state_copier::go_on() {
  return round_->go_on();
}

result<std::uint64_t> state_copier::finish() {
  auto x = std::exchange(round_, nullptr);
  if (auto ok = describable_now(session_); !ok)
    return ok.why();
  if (auto ok = x->finish(); !ok)
    return ok.why();
  auto bytes = state_capture{session_, *x->base()}.run();
  if (bytes && x->keeps())
    kept_.push_back(x->base());
  return bytes;
}

} // namespace vgpu
