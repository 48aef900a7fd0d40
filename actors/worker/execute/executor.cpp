#include "actors/worker/execute/executor.hpp"

#include "actors/link/log.hpp"
#include "actors/worker/execute/audit.hpp"
#include "actors/worker/execute/call_dispatch.hpp"
#include "actors/worker/execute/copy_box.hpp"
#include "actors/worker/execute/dispatch_order.hpp"
#include "actors/worker/execute/memory_lending.hpp"
#include "actors/worker/execute/state_capture.hpp"
#include "actors/worker/execute/state_objects.hpp"
#include "actors/worker/execute/state_restore.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

namespace vgpu {

namespace {

/// Names calls that enqueue work in a stream, which must first wait for earlier
/// work.
template <class Call>
concept joins_stream = requires(const Call& x) {
  x.stream.id;
}
&&Call::id != call::number::stream_create&& Call::id !=
    call::number::stream_destroy;

/// Names those whose work counts as pending.
template <class Call>
concept adds_work =
    joins_stream<Call> && Call::id != call::number::stream_window;

/// Returns how many pieces of work a call enqueues. A device takes only whole
/// rows of the program's bytes.
template <class Call>
std::uint64_t pieces_of(const Call& x) {
  using call::number;
  auto flat = true;
  if constexpr (Call::id == number::write || Call::id == number::read_host)
    flat = is_flat(x.to, x.size);
  if constexpr (Call::id == number::read || Call::id == number::read_host)
    flat = flat && is_flat(x.from, x.size);
  if constexpr (requires { x.size; })
    return flat ? 1 : rows(x.size);
  else
    return 1;
}

/// Returns the first address that a read reads.
template <reads_results Call>
device_address address_of(const Call& x) {
  if constexpr (requires { x.from.address; })
    return x.from.address;
  else
    return x.address;
}

template <class Call>
status execute_traced(dispatch_context& on, const Call& x) {
  if constexpr (brings_work<Call>) {
    work_recorder::traced during{on.session.work, on.slot.can.trace,
                                 on.slot.ordinal, on.what.call};
    return execute_call(on, x);
  } else {
    return execute_call(on, x);
  }
}

} // namespace

executor::executor(std::vector<std::unique_ptr<device::device>> devices,
                   std::uint64_t quota)
    : objects_(std::move(devices), quota), quota_(quota) {}

void executor::serve(std::shared_ptr<answer_sink> sink) {
  objects_.output->print_to(sink);
  objects_.sink = std::move(sink);
}

void executor::answers_into(std::span<std::byte> arena) {
  for (auto& x : objects_.devices)
    x.device->reads_into(arena);
}

// -- calls --------------------------------------------------------------------

/// `in_turn` brings work to the devices only in the session's turns.
executor::performed executor::perform(const record& what,
                                      const std::shared_ptr<const void>& owner,
                                      bool in_turn) {
  performed out;
  auto decoded = call::decode(
      what.message, [&]<class Call>(const Call& x, std::uint8_t ordinal) {
        out.waits = Call::kind == call::answer::sync;
        out.ends = Call::lasting == call::lasts::ends ||
                   Call::lasting == call::lasts::retires;
        if (ordinal >= objects_.devices.size()) {
          out.outcome = cuda_fault(CUDA_ERROR_INVALID_DEVICE, "no such device");
          return;
        }
        dispatch_context on{objects_, objects_.devices[ordinal], what, owner};
        perform(x, on, in_turn, out);
      });
  if (!decoded)
    out.outcome = decoded;
  return out;
}

template <class Call>
void executor::perform(const Call& x, dispatch_context& on, bool in_turn,
                       performed& out) {
  auto ordinal = on.slot.ordinal;
  if constexpr (brings_work<Call>)
    if (objects_.work.is_on()) [[unlikely]]
      objects_.work.receive(on.what.call);
  if constexpr (reads_results<Call>)
    if (in_turn && needs_cover(on, address_of(x))) {
      lacks_cover_ = out.held_back = true;
      return;
    }
  // In a replay, work may wait for what comes much later in the log.
  if constexpr (adds_work<Call>)
    if (in_turn && !on.is_replayed() &&
        objects_.pending.is_full({ordinal, x.stream.id}, ends_by_itself())) {
      out.held_back = true;
      return;
    }
  if constexpr (brings_work<Call>)
    if (in_turn && !objects_.gates.enter(ordinal, key_of(x))) {
      out.held_back = true;
      return;
    }
  out.outcome = audit_handles(on.state(), x);
  if constexpr (joins_stream<Call>)
    if (out.outcome)
      out.outcome = join_stream(on, x.stream.id);
  if constexpr (brings_work<Call>)
    if (auto charged = in_turn && objects_.gates.counts(ordinal);
        out.outcome && on.slot.host_meter && !charged)
      on.slot.host_meter->enqueued(x.stream.id, is_long_copy(x));
  if (out.outcome)
    out.outcome = execute_traced(on, x);
  if constexpr (brings_work<Call>)
    if (in_turn)
      objects_.gates.submitted(ordinal);
  if constexpr (adds_work<Call>)
    if (in_turn && out.outcome)
      objects_.pending.enqueued(on.device(), {ordinal, x.stream.id},
                                pieces_of(x));
  if constexpr (varies_results<Call>)
    objects_.cover.note_varying(on.what.end);
  if constexpr (moves_bytes<Call>)
    if (out.outcome)
      objects_.account.count(traffic_of(x));
  if (out.outcome && !on.refused)
    objects_.living.note(x, static_cast<std::uint8_t>(ordinal), on.what.call,
                         on.what.message);
}

/// Returns whether all enqueued work ends without a further call.
bool executor::ends_by_itself() const {
  return objects_.may_stop() && objects_.functions.open_waits.empty() &&
         !objects_.waits.any() && !objects_.known.any();
}

void executor::await_turn(std::chrono::nanoseconds at_most) {
  if (waits_for_room())
    objects_.pending.wait(at_most);
  else
    objects_.gates.wait(at_most);
}

/// Returns whether the program waits for a read whose results are not covered.
/// After a failure it gets the error.
bool executor::needs_cover(const dispatch_context& on,
                           device_address at) const {
  return !objects_.cover.admits() && !on.is_answered() &&
         objects_.health->error() == CUDA_SUCCESS &&
         !objects_.cover.is_left_out(at);
}

/// Returns whether the call found no memory on its device.
bool executor::lacks_memory(const performed& x) {
  return !x.outcome && cuda_code(x.outcome) == CUDA_ERROR_OUT_OF_MEMORY;
}

bool executor::execute(const record& what,
                       const std::shared_ptr<const void>& owner) {
  lacks_cover_ = false;
  auto done = perform(what, owner, true);
  // A snapshot may have memory that the session now needs, or a standby.
  if (lacks_memory(done) && copier_.give_back_room())
    done = perform(what, owner, true);
  if (lacks_memory(done) && ask_for_memory_ && ask_for_memory_())
    done = perform(what, owner, true);
  auto& outcome = done.outcome;
  if (done.held_back)
    return false;
  objects_.position = what.end;
  objects_.calls.fetch_add(1, std::memory_order_relaxed);
  if (outcome)
    return true;
  auto& health = *objects_.health;
  auto& sink = *objects_.sink;
  if (session_health::is_loss(cuda_code(outcome))) {
    (void)health.note(sink, cuda_code(outcome));
    return true;
  }
  if (what.digest != 0) // the program has a result of it
    objects_.checks->note_missing(
        what.call, "it fails when it is made again: " + outcome.why().what);
  if (done.waits || what.slot != 0) {
    spdlog::debug("call {} refused: {}", what.call.value, outcome.why().what);
    sink.answer({what.slot, what.call}, cuda_code(outcome), 0);
    return true;
  }
  spdlog::warn("call {} failed: {}", what.call.value, outcome.why().what);
  note_refused(what, done);
  return true;
}

/// A device that others use too may have no memory left for what the quota
/// allows. That harms nothing but the object that was to be made: the program
/// learns of it at its next wait, and goes on without the object. Its calls
/// for the object are refused as well, and the end of it is no error. A replay
/// must not miss an object that the program has used.
void executor::note_refused(const record& what, const performed& x) {
  auto code = cuda_code(x.outcome);
  auto is_new = what.end > objects_.replay_until;
  if (is_new && code == CUDA_ERROR_OUT_OF_MEMORY) {
    refused_late_ = true;
    objects_.health->note_late(code);
  } else if (is_new && refused_late_ &&
             (code == CUDA_ERROR_INVALID_VALUE ||
              code == CUDA_ERROR_INVALID_HANDLE)) {
    if (!x.ends)
      objects_.health->note_late(CUDA_ERROR_OUT_OF_MEMORY);
  } else {
    (void)objects_.health->note(*objects_.sink, code);
  }
}

void executor::look_ahead(const record& at, std::shared_ptr<const void> owner) {
  // An unreadable call is refused when its turn comes.
  (void)call::decode(at.message, [&]<class Call>(const Call& x, std::uint8_t) {
    // A replay first makes the work before host_ended.
    if constexpr (std::is_same_v<Call, call::host_done>)
      objects_.functions.calls->finish_early(x.call);
    else if constexpr (std::is_same_v<Call, call::host_ended>) {
      if (at.end > objects_.replay_until)
        objects_.functions.calls->finish_early(x.call);
    } else if constexpr (std::is_same_v<Call, call::late_bytes>)
      objects_.late_writes->give_early(x.call, at.payload, std::move(owner));
  });
}

std::uint64_t executor::executed() const {
  return objects_.pins->advance(objects_.position);
}

void executor::note_outcome() {
  for (auto& x : objects_.devices)
    x.device->when_done(std::nullopt, [health = objects_.health,
                                       sink = objects_.sink](CUresult result) {
      (void)health->note(*sink, result);
    });
}

// -- quota, accounts and errors -----------------------------------------------

void executor::allow(std::uint64_t quota) {
  if (quota <= quota_)
    return;
  quota_ = quota;
  objects_.allow(quota);
  if (tell_quota_)
    for (auto& x : objects_.devices)
      tell_quota_(*x.device, quota);
}

void executor::rest() {
  objects_.gates.rest();
  for (auto& x : objects_.devices)
    if (x.host_meter && x.host_meter->unseen())
      x.device->when_done(std::nullopt, [idle = x.idle_after(std::nullopt)](
                                            CUresult) { idle(); });
}

void executor::inject(std::size_t device, injected_fault what) {
  if (device < objects_.devices.size())
    objects_.devices[device].device->inject(what);
}

// -- states -------------------------------------------------------------------

/// Executes a state's calls out of the session's turns.
std::function<status(const record&)> executor::performer() {
  return [this](const record& what) {
    return perform(what, nullptr, false).outcome;
  };
}

status executor::may_checkpoint_process() const {
  return vgpu::may_checkpoint_process(objects_);
}

status executor::describable() const {
  return vgpu::describable(objects_);
}

bool executor::can_lend_to(std::span<const std::uint32_t> pgpus) const {
  return vgpu::can_lend_to(objects_, pgpus);
}

result<std::uint64_t>
executor::capture(int file, bool compress,
                  std::vector<device::shared_descriptor>* lent) {
  if (auto ok = describable_now(objects_); !ok)
    return ok.why();
  // An order that was given up may have written to the file until now. The file
  // keeps its memory, because fresh pages would take longer than the writing.
  if (auto ok = begin_state(file); !ok)
    return ok.why();
  state_capture it{objects_, file, compress};
  it.lend_into(lent);
  return it.run();
}

status executor::capture_for_dry_run(int file) {
  if (auto ok = begin_state(file); !ok)
    return ok.why();
  auto bytes = state_capture{objects_, file, false}.run_for_dry_run();
  return bytes ? status{} : bytes.why();
}

status executor::dry_run(int file) {
  auto from = state_reader::open(file);
  if (!from)
    return from.why();
  objects_.sink = std::make_shared<unheard>();
  objects_.host.stand_in();
  // The next worker has the largest quota that the session ever had. This
  // process got the one that its worker began with.
  allow(std::numeric_limits<std::uint64_t>::max());
  state_objects all{objects_, *from, performer()};
  auto ok = all.images();
  if (ok)
    ok = all.make_without_memory();
  return ok ? all.compare_variables() : ok;
}

result<std::shared_ptr<state_capture>> executor::begin_description(int file) {
  if (auto ok = begin_state(file); !ok)
    return ok.why();
  return std::make_shared<state_capture>(objects_, file, false);
}

executor::preparation executor::prepare(int file,
                                        const std::atomic<bool>& stop) {
  auto from = state_reader::open(file);
  if (!from)
    return {from.why(), {}};
  auto before = std::exchange(objects_.sink, std::make_shared<unheard>());
  awaits_state_ = true;
  state_objects all{objects_, *from, performer()};
  auto ok = all.images();
  if (ok)
    ok = all.make_ahead(stop);
  objects_.sink = std::move(before);
  if (!ok)
    return {ok, {}};
  return {{}, all.compare_variables()};
}

result<std::uint64_t> executor::restore(int file, restore_terms how) {
  auto from = state_reader::open(file);
  if (!from)
    return from.why();
  auto before = std::exchange(objects_.sink, std::make_shared<unheard>());
  state_restore it{objects_, std::move(*from), performer()};
  if (how.adopt && lies_in_memory(file))
    it.adopt_from(file);
  it.take_lent(std::move(how.lent));
  auto ok = it.run();
  objects_.sink = std::move(before);
  if (!ok)
    return ok.why();
  awaits_state_ = false;
  if (how.snapshots)
    note_restored(it.restored());
  objects_.restored_at = objects_.position;
  // The state named the addresses of variables, and they are the same here.
  objects_.tried_until = objects_.position;
  // Only a snapshot covers what was done before.
  objects_.cover.note_varying(objects_.position);
  return objects_.position;
}

bool executor::adopts_files() const {
  return std::ranges::any_of(
      objects_.devices, [](auto& slot) { return slot.can.file != nullptr; });
}

/// Marks the moment from which changes count.
void executor::note_restored(const std::vector<state_chunk>& contents) {
  std::vector<std::uint64_t> marks;
  for (auto& slot : objects_.devices) {
    // Without marks, the next snapshots copy everything.
    if (slot.can.change == nullptr)
      return;
    auto mark = slot.can.change->mark();
    if (!mark)
      return;
    marks.push_back(*mark);
  }
  copier_.note_restored(contents, std::move(marks));
}

} // namespace vgpu
