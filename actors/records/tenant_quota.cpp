#include "actors/records/tenant_quota.hpp"

#include "schema/base/sizes.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>

namespace vgpu {

namespace {

/// Is less than any share that somebody asks for. Sums of fractions differ by
/// less from what people add up.
constexpr double rounding = 1e-9;

/// Adds, and stays at the largest number, because what a peer asks for may
/// exceed it.
std::uint64_t sum_of(std::uint64_t x, std::uint64_t y) {
  auto most = std::numeric_limits<std::uint64_t>::max();
  return y > most - x ? most : x + y;
}

std::uint64_t product_of(std::uint64_t x, std::uint64_t y) {
  auto most = std::numeric_limits<std::uint64_t>::max();
  return y != 0 && x > most / y ? most : x * y;
}

double share_of(const session_record& x) {
  return x.spec.share * x.spec.gpus;
}

/// Describes one limit of a tenant, in words.
struct limit_texts {
  const char* what;   // "GPUs"
  const char* option; // of `vgpu tenant set`
  std::string most;
  std::string used;
  std::string asked;
};

fault beyond(const std::string& tenant, bool added, const std::string& waiting,
             const limit_texts& x) {
  return {fault_kind::refused,
          "tenant '" + tenant + "' may have " + x.most + " " + x.what +
              ", has " + x.used + waiting + ", and asks for " + x.asked +
              " more; ask for less, end a session (sessions that wait count), "
              "or let an admin raise it: `vgpu tenant " +
              (added ? "set " : "add ") + tenant + " " + x.option + "`"};
}

} // namespace

std::string decimal(double x) {
  char out[32] = {};
  std::snprintf(out, sizeof(out), "%g", x);
  return out;
}

std::string tenant_of(const std::string& proven) {
  return proven.empty() ? default_tenant : proven;
}

status check_limits(const control::tenant_limits& x) {
  // Written so that NaN is refused as well.
  if (!(x.share >= 0))
    return fault{fault_kind::usage,
                 "share " + decimal(x.share) + ": give 0 or more, or none"};
  if (x.priority < -control::largest_priority ||
      x.priority > control::largest_priority)
    return fault{fault_kind::usage, "priority " + std::to_string(x.priority) +
                                        ": give -1000 to 1000"};
  return {};
}

std::string text_of(const control::tenant_limits& x) {
  std::string out;
  auto add = [&](const std::string& each) {
    out += (out.empty() ? "" : ", ") + each;
  };
  if (x.gpus != control::unlimited)
    add(std::to_string(x.gpus) + " GPUs");
  if (x.memory != control::unlimited)
    add(show_size(x.memory) + " of memory");
  if (x.share != control::unlimited_share)
    add("a share of " + decimal(x.share));
  if (x.sessions != control::unlimited)
    add(std::to_string(x.sessions) + " sessions");
  if (x.priority != control::largest_priority)
    add("priority " + std::to_string(x.priority));
  return out.empty() ? "no limits" : "at most " + out;
}

std::uint64_t tenant_use::memory_of(const session_record& x) noexcept {
  return product_of(x.spec.memory != 0 ? x.spec.memory : x.quota, x.spec.gpus);
}

tenant_use::tenant_use(const control::tenant& row) noexcept
    : gpus_(row.gpus), memory_(row.memory), share_(row.share),
      sessions_(row.sessions), waiting_(row.waiting) {}

void tenant_use::add(const session_record& x) {
  ++sessions_;
  waiting_ += x.stage == session_stage::waiting ? 1 : 0;
  gpus_ = sum_of(gpus_, x.spec.gpus);
  memory_ = sum_of(memory_, memory_of(x));
  share_ += share_of(x);
}

/// Returns how many of the sessions wait, for a text.
std::string tenant_use::suffix() const {
  return " in " + std::to_string(sessions_) + " sessions, of which " +
         std::to_string(waiting_) + " wait";
}

status tenant_use::admit(const std::string& name,
                         const control::tenant_limits& limits, bool added,
                         const session_record& more) const {
  auto memory = memory_of(more);
  if (limits.memory != control::unlimited && memory == 0)
    return fault{fault_kind::refused,
                 "the memory of tenant '" + name + "' is limited to " +
                     show_size(limits.memory) + " in all, of which " +
                     show_size(memory_) +
                     " are taken, so each of its vGPUs must say how much it "
                     "needs: `vgpu run --memory SIZE`"};
  if (sum_of(sessions_, 1) > limits.sessions)
    return beyond(name, added, " (" + std::to_string(waiting_) + " wait)",
                  {"sessions", "--sessions N", std::to_string(limits.sessions),
                   std::to_string(sessions_), "1"});
  if (sum_of(gpus_, more.spec.gpus) > limits.gpus)
    return beyond(name, added, suffix(),
                  {"GPUs", "--gpus N", std::to_string(limits.gpus),
                   std::to_string(gpus_), std::to_string(more.spec.gpus)});
  if (sum_of(memory_, memory) > limits.memory)
    return beyond(name, added, suffix(),
                  {"of memory", "--memory SIZE", show_size(limits.memory),
                   show_size(memory_), show_size(memory)});
  // Written so that NaN, which a peer may have sent, is refused as well.
  if (!(share_ + share_of(more) <= limits.share + rounding))
    return beyond(name, added, suffix(),
                  {"of GPUs' shares", "--share F", decimal(limits.share),
                   decimal(share_), decimal(share_of(more))});
  return {};
}

void tenant_use::tell(control::tenant& to) const {
  to.gpus = gpus_;
  to.memory = memory_;
  to.share = share_;
  to.sessions = sessions_;
  to.waiting = waiting_;
}

} // namespace vgpu
