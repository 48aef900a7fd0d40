// Who used how much: what nodes tell, kept and answered.
#include "actors/link/printable.hpp"
#include "actors/manager/manager_core.hpp"
#include "actors/records/records_json.hpp"

#include <array>
#include <cmath>
#include <string_view>

namespace vgpu {

namespace {

/// What running sessions used is written down so often. What was not yet, a
/// manager that dies hears from their nodes again.
constexpr auto save_every = std::chrono::seconds{10};
constexpr std::size_t longest_label = 128;

constexpr std::array<std::string_view, 4> kinds{"vm", "user", "program",
                                                "vgpu"};

std::string label(const std::string& x) {
  return printable(x).substr(0, longest_label);
}

/// The program's host, by the name that its client has: `client/HOST-NUMBER`.
std::string vm_of(const session_record& x) {
  auto begin = x.client.find('/');
  auto end = x.client.rfind('-');
  if (begin == std::string::npos || end == std::string::npos || end <= begin)
    return label(x.program.host);
  return label(x.client.substr(begin + 1, end - begin - 1));
}

} // namespace

void manager_core::open_account(const session_record& x) {
  usage_.open(x.id,
              {x.vgpu, vm_of(x), label(x.program.user), label(x.program.name)});
}

void manager_core::note_use(const control::session_load& x) {
  if (auto i = sessions_.find(x.session);
      i != sessions_.end() && !usage_.knows(x.session))
    open_account(i->second);
  if (!usage_.report(x.session, x.epoch, x.usage, options_.wall_time()) ||
      save_usage_at_)
    return;
  save_usage_at_ = now_ + save_every;
  due(*save_usage_at_);
}

/// Written down before the node hears that it may forget them.
void manager_core::take_last_words(
    const std::vector<control::session_load>& ended) {
  for (const auto& x : ended) {
    note_use(x);
    save_usage(x.session);
  }
}

void manager_core::save_usage(session_id only) {
  if (usage_.folded())
    return save_usage();
  for (const auto& line : usage_.take_lines(only))
    if (store_)
      store_->save_usage(line);
}

void manager_core::save_usage() {
  save_usage_at_.reset();
  auto all = usage_.folded();
  auto lines = usage_.take_lines();
  if (!store_)
    return;
  if (all)
    return store_->save_usage(usage_);
  for (const auto& line : lines)
    store_->save_usage(line);
}

std::string manager_core::usage_json() const {
  return to_line(usage_.summary(0, "user", options_.wall_time()));
}

void manager_core::handle(const std::string& peer,
                          const control::envelope& from,
                          const control::usage_request& x) {
  if (std::find(kinds.begin(), kinds.end(), x.by) == kinds.end())
    return refuse(
        peer, from,
        {CUDA_ERROR_INVALID_VALUE,
         "usage by '" + printable(x.by) + "': give vm, user, program or vgpu"});
  if (!std::isfinite(x.since) || x.since < 0)
    return refuse(
        peer, from,
        {CUDA_ERROR_INVALID_VALUE, "usage since " + std::to_string(x.since) +
                                       ": give seconds since 1970, or 0"});
  answer(peer, from.request,
         control::status_text{
             to_line(usage_.summary(x.since, x.by, options_.wall_time()))});
}

} // namespace vgpu
