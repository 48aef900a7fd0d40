#include "interposer/nvml/nvml_view.hpp"

#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"
#include "schema/base/own_environment.hpp"
#include "schema/wire/specification.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include <signal.h>
#include <unistd.h>

namespace vgpu::interposer {

namespace {

/// Within this time the sample is reused, because monitors make many queries at
/// once.
constexpr std::chrono::milliseconds one_moment{20};

/// Tells whether a process has just ended, which its client may not know yet,
/// or is in another PID namespace, so that its id means nothing here.
bool is_not_here(const viewed_process& x) {
  return ::kill(static_cast<pid_t>(x.pid), 0) != 0 && errno == ESRCH;
}

void add(viewed_device& to, const device_use& x) {
  to.total += x.quota;
  to.used += x.used;
  to.busy = std::min(to.busy + x.busy, 100u);
  to.processes.push_back({x.pid, x.busy, x.used});
}

} // namespace

bool nvml_view::has_session() const {
  return opened_ || process::now() != phase::fresh;
}

bool nvml_view::may_watch() const {
  if (const auto* told = setting("VGPU_WATCH");
      told != nullptr && std::string_view{told} == "1")
    return !group_.empty();
  control::specification asked;
  return control::set_from_environment(asked).ok() &&
         group_.size() == asked.gpus;
}

/// Updates the group's devices. A device that no program uses any more keeps
/// its size.
void nvml_view::sample_group() {
  if (auto now = clock::now(); now - sampled_ < one_moment)
    return;
  auto seen = watch_group();
  sampled_ = clock::now();
  if (!seen)
    seen = group_view{};
  for (const auto& facts : seen->devices)
    if (std::none_of(group_.begin(), group_.end(),
                     [&](auto& x) { return x.facts.uuid == facts.uuid; }))
      group_.push_back({facts, 0, 0, 0, {}});
  for (auto& x : group_) {
    auto total = x.total;
    x = {std::move(x.facts), 0, 0, 0, {}};
    for (const auto& use : seen->uses)
      if (seen->devices[use.device].uuid == x.facts.uuid)
        add(x, use);
    if (x.processes.empty())
      x.total = total;
  }
}

CUresult nvml_view::open() {
  auto code = process::open_session();
  opened_ = code == CUDA_SUCCESS;
  return code;
}

CUresult nvml_view::count(unsigned& out) {
  std::lock_guard guard{mutex_};
  if (!has_session()) {
    sample_group();
    out = static_cast<unsigned>(group_.size());
    if (may_watch())
      return CUDA_SUCCESS;
  }
  if (auto code = open(); code != CUDA_SUCCESS)
    return code;
  out = static_cast<unsigned>(process::the_session().leased_devices().size());
  return CUDA_SUCCESS;
}

CUresult nvml_view::device(unsigned index, viewed_device& out) {
  std::lock_guard guard{mutex_};
  if (has_session())
    return own_device(index, out);
  sample_group();
  if (index >= group_.size())
    return CUDA_ERROR_INVALID_DEVICE;
  out = group_[index];
  return CUDA_SUCCESS;
}

CUresult nvml_view::processes(unsigned index,
                              std::vector<viewed_process>& out) {
  std::lock_guard guard{mutex_};
  sample_group();
  if (!has_session() && index >= group_.size())
    return CUDA_ERROR_INVALID_DEVICE;
  if (!has_session())
    out = group_[index].processes;
  else if (auto code = own_processes(index, out); code != CUDA_SUCCESS)
    return code;
  std::erase_if(out, is_not_here);
  return CUDA_SUCCESS;
}

CUresult nvml_view::own_device(unsigned index, viewed_device& out) {
  // In the child of a fork, the parent's session is not usable.
  if (auto code = open(); code != CUDA_SUCCESS)
    return code;
  auto& session = process::the_session();
  const auto& all = session.leased_devices();
  if (index >= all.size())
    return CUDA_ERROR_INVALID_DEVICE;
  out.facts = all[index];
  out.total = std::min(session.quota(), out.facts.total_memory);
  out.busy = session.busy_of_leased(index);
  // Nothing can have been allocated before cuInit.
  if (process::now() == phase::running)
    out.used = session.used_of_leased(index);
  return CUDA_SUCCESS;
}

CUresult nvml_view::own_processes(unsigned index,
                                  std::vector<viewed_process>& out) {
  viewed_device it;
  if (auto code = own_device(index, it); code != CUDA_SUCCESS)
    return code;
  for (const auto& x : group_)
    if (x.facts.uuid == it.facts.uuid)
      out = x.processes;
  // The client may not know this process yet, or may have ended.
  auto own = static_cast<unsigned>(::getpid());
  auto me = std::find_if(out.begin(), out.end(),
                         [own](auto& x) { return x.pid == own; });
  if (me == out.end())
    me = out.insert(me, viewed_process{own, it.busy, 0});
  me->used = it.used;
  return CUDA_SUCCESS;
}

} // namespace vgpu::interposer
