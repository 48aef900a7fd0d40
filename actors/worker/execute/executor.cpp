#include "actors/worker/execute/executor.hpp"

#include "actors/worker/execute/audit.hpp"
#include "actors/worker/execute/call_dispatch.hpp"
#include "actors/worker/execute/executor_shared.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

#include <sys/mman.h>

namespace vgpu {

std::shared_ptr<const void>
payload_pins::pin(std::shared_ptr<payload_pins> self, std::uint64_t position,
                  std::shared_ptr<const void> owner) {
  {
    std::lock_guard guard{self->lock_};
    self->held_.insert(position);
  }
  auto release = [self, position, owner](const void*) mutable {
    std::lock_guard guard{self->lock_};
    self->held_.erase(self->held_.find(position));
    owner.reset();
  };
  // Not null, so that its emptiness is not mistaken for "nothing held".
  return {static_cast<const void*>(self.get()), std::move(release)};
}

std::uint64_t payload_pins::advance(std::uint64_t position) {
  std::lock_guard guard{lock_};
  position_ = std::max(position_, position);
  return held_.empty() ? position_ : std::min(position_, *held_.begin());
}

executor::executor(std::vector<std::unique_ptr<device::device>> devices,
                   std::uint64_t quota)
    : devices_(std::move(devices)), host_calls_(std::make_shared<host_calls>()),
      consoles_(std::make_shared<consoles>()),
      recovery_(std::make_shared<recovery>()),
      health_(std::make_shared<health>()) {
  quota_ = quota;
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    auto window = window_of(i);
    if (auto ok = devices_[i]->reserve_window(window); !ok)
      throw std::runtime_error{ok.why().what};
    states_.emplace_back(window, quota);
    orders_.emplace_back();
    blocking_.emplace_back();
    times_.emplace_back();
    kept_for_good_.emplace_back();
    auto* own = dynamic_cast<const device::meter*>(devices_[i].get());
    timing_units_.push_back(
        dynamic_cast<device::timing_unit*>(devices_[i].get()));
    work_meters_.push_back(
        own == nullptr ? std::make_unique<work_meter>(timing_units_.back())
                       : nullptr);
    meters_.push_back(own == nullptr ? work_meters_.back().get() : own);
    texture_units_.push_back(
        dynamic_cast<device::texture_unit*>(devices_[i].get()));
    memory_units_.push_back(
        dynamic_cast<device::memory_unit*>(devices_[i].get()));
    value_units_.push_back(
        dynamic_cast<device::value_unit*>(devices_[i].get()));
    sharing_units_.push_back(
        dynamic_cast<device::sharing_unit*>(devices_[i].get()));
    condition_units_.push_back(
        dynamic_cast<device::condition_unit*>(devices_[i].get()));
    change_units_.push_back(
        dynamic_cast<device::change_unit*>(devices_[i].get()));
    file_units_.push_back(dynamic_cast<device::file_unit*>(devices_[i].get()));
    tensor_map_units_.push_back(
        dynamic_cast<device::tensor_map_unit*>(devices_[i].get()));
    devices_[i]->set_printer(
        [to = consoles_](console where, std::string_view text) {
          to->print(where, text);
        });
    devices_[i]->set_reporter([](std::string_view why) {
      spdlog::warn("work of the program failed: {}", why);
    });
  }
  look_beside();
}

executor::~executor() {
  // What looks at their memory, and then devices: their threads complete into
  // what the rest owns.
  copying_.reset();
  devices_.clear();
}

status executor::host_shadow() {
  if (host_bytes_ != 0)
    return {};
  auto* at = ::mmap(
      reinterpret_cast<void*>(host_window), window_bytes,
      PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (at == MAP_FAILED)
    return fault{CUDA_ERROR_OPERATING_SYSTEM,
                 "the addresses of the host window are taken in this process"};
  host_shadow_ = mapping{at, window_bytes};
  zero_copy_ = std::make_shared<zero_copy_shadow>();
  host_bytes_ = window_bytes;
  return {};
}

void executor::answers_into(std::span<std::byte> arena) {
  for (auto& x : devices_)
    x->reads_into(arena);
}

void executor::serve(std::shared_ptr<answer_sink> sink) {
  std::lock_guard guard{consoles_->lock};
  consoles_->sink = sink;
  sink_ = std::move(sink);
}

executor::performed executor::perform(const record& what,
                                      std::shared_ptr<const void> owner,
                                      bool in_turn) {
  performed out;
  auto decoded = call::decode(
      what.message, [&]<class Call>(const Call& x, std::uint8_t ordinal) {
        out.waits = Call::kind == call::answer::sync;
        if (ordinal >= devices_.size()) {
          out.outcome = fault{CUDA_ERROR_INVALID_DEVICE, "no such device"};
          return;
        }
        if constexpr (brings_work<Call>)
          if (in_turn && !gates_.enter(ordinal, key_of(x))) {
            out.held_back = true;
            return;
          }
        call_dispatch on{*this, what, std::move(owner), ordinal};
        out.outcome = audit_handles(on.state(), x);
        if (out.outcome)
          out.outcome = on.join(x);
        if constexpr (brings_work<Call>)
          if (auto charged = in_turn && gates_.counts(ordinal);
              out.outcome && work_meters_[ordinal] && !charged)
            work_meters_[ordinal]->enqueued(x.stream.id, is_long_copy(x));
        if (out.outcome)
          out.outcome = on(x);
        if constexpr (brings_work<Call>)
          if (in_turn)
            gates_.submitted(ordinal);
        if constexpr (moves_bytes<Call>)
          if (out.outcome)
            count(traffic_of(x));
        if (out.outcome)
          living_.note(x, ordinal, what.call, what.message);
      });
  if (!decoded)
    out.outcome = decoded;
  return out;
}

bool executor::execute(const record& what, std::shared_ptr<const void> owner) {
  auto [outcome, waits, held_back] = perform(what, std::move(owner), true);
  if (held_back)
    return false;
  position_ = what.end;
  calls_.fetch_add(1, std::memory_order_relaxed);
  if (outcome)
    return true;
  if (health::is_loss(outcome.code())) {
    (void)health_->note(*sink_, outcome.code());
    return true;
  }
  if (waits || what.slot != 0) {
    spdlog::debug("call {} refused: {}", what.call.value, outcome.why().what);
    sink_->answer({what.slot, what.call}, outcome.code(), 0);
    return true;
  }
  spdlog::warn("call {} failed: {}", what.call.value, outcome.why().what);
  (void)health_->note(*sink_, outcome.code());
  return true;
}

void executor::look_ahead(const record& at) {
  // What cannot be read is told of when its turn comes.
  (void)call::decode(at.message, [&]<class Call>(const Call& x, std::uint8_t) {
    if constexpr (std::is_same_v<Call, call::host_done>)
      host_calls_->finish_early(x.call);
  });
}

void executor::allow(std::uint64_t quota) {
  if (quota <= quota_)
    return;
  quota_ = quota;
  for (auto& x : states_)
    x.allow(quota);
  if (tell_quota_)
    for (auto& x : devices_)
      tell_quota_(*x, quota);
}

std::uint64_t executor::executed() const {
  return pins_->advance(position_);
}

CUresult executor::error() const noexcept {
  return static_cast<CUresult>(health_->error.load());
}

CUresult executor::lost() const noexcept {
  return static_cast<CUresult>(health_->lost.load());
}

void executor::when_lost(std::function<void()> call) {
  health_->when_lost = std::move(call);
}

void executor::inject(std::size_t device, device::injected_fault what) {
  if (device < devices_.size())
    devices_[device]->inject(what);
}

} // namespace vgpu