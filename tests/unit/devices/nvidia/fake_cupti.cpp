// A fake of NVIDIA's CUPTI on the fake driver. It records copies and kernels,
// and hands records over as late as a test wants. Tests use its C entry points
// fake_cupti_*.
#include <cuda.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using code = int;
constexpr code success = 0;
constexpr code invalid_parameter = 1;
constexpr code max_limit_reached = 12;
constexpr code multiple_subscribers = 39;

/// Mirrors CUpti_CallbackData.
struct call_data {
  std::uint32_t site;
  const char* name;
  const void* arguments;
  const void* outcome;
  const char* symbol;
  CUcontext context;
  std::uint32_t context_number;
  std::uint64_t* correlation_data;
  std::uint32_t correlation;
};
using told = void (*)(void*, std::uint32_t, std::uint32_t, const call_data*);
using requested = void (*)(std::uint8_t**, std::size_t*, std::size_t*);
using completed = void (*)(CUcontext, std::uint32_t, std::uint8_t*, std::size_t,
                           std::size_t);

struct layout {
  std::uint32_t kind;
  std::size_t bytes, correlation;
};
constexpr layout kernel{10, 216, 92};
constexpr layout copy{1, 96, 44};
constexpr layout overhead{17, 48, 24}; // a kind that nobody asked for

struct record {
  layout how;
  std::uint32_t correlation;
  std::uint64_t began, ended;
};

std::mutex lock;
told tell = nullptr;
void* user = nullptr;
std::uint64_t (*now)() = nullptr;
requested request = nullptr;
completed complete = nullptr;
std::set<std::uint32_t> calls, kinds;
std::uint32_t last_correlation = 0;
std::vector<record> records;
std::uint64_t clock_difference = 0; // from the GPU's clock to `now`
std::map<std::string, code> failures;
unsigned lost = 0, untimed = 0, flushes = 0;
bool busy = false;

code failure(const char* name) {
  std::lock_guard guard{lock};
  auto found = failures.find(name);
  return found == failures.end() ? success : found->second;
}

void call_back(std::uint32_t call, std::uint32_t site,
               std::uint32_t correlation, const CUresult* how) {
  std::unique_lock held{lock};
  if (tell == nullptr || !calls.contains(call))
    return;
  auto to = tell;
  auto* of = user;
  held.unlock();
  call_data x{};
  x.site = site;
  x.outcome = how;
  x.correlation = correlation;
  to(of, 1, call, &x);
}

std::uint32_t entered(std::uint32_t call) {
  auto correlation = [] {
    std::lock_guard guard{lock};
    return ++last_correlation;
  }();
  call_back(call, 0, correlation, nullptr);
  return correlation;
}

void left(std::uint32_t call, std::uint32_t correlation, CUresult how) {
  call_back(call, 1, correlation, &how);
}

void executed(std::uint32_t call, std::uint32_t correlation,
              std::uint64_t began, std::uint64_t ended) {
  std::lock_guard guard{lock};
  auto how = call == 307 || call == 652 ? kernel : copy;
  if (!kinds.contains(how.kind))
    return;
  if (lost != 0 && lost-- != 0)
    return;
  if (clock_difference == 0 && now != nullptr)
    clock_difference = now() - ended;
  record x{how, correlation, began + clock_difference,
           ended + clock_difference};
  if (untimed != 0 && untimed-- != 0)
    x.began = x.ended = 0;
  records.push_back(x);
}

struct {
  decltype(&entered) on_enter;
  decltype(&left) on_leave;
  decltype(&executed) on_execution;
} const hooks{&entered, &left, &executed};

/// Hands over one buffer of records, on a thread of its own.
void hand_over(std::vector<record>& all) {
  std::uint8_t* buffer = nullptr;
  std::size_t bytes = 0, most = 0, valid = 0;
  request(&buffer, &bytes, &most);
  if (buffer == nullptr)
    return all.clear();
  auto put = [&](layout how, std::uint32_t correlation, std::uint64_t began,
                 std::uint64_t ended) {
    auto* at = buffer + valid;
    std::memset(at, 0, how.bytes);
    std::memcpy(at, &how.kind, 4);
    std::memcpy(at + 16, &began, 8);
    std::memcpy(at + 24, &ended, 8);
    std::memcpy(at + how.correlation, &correlation, 4);
    valid += how.bytes;
  };
  put(overhead, 1, 2, 3);
  while (!all.empty() && bytes - valid >= kernel.bytes) {
    auto& x = all.back();
    put(x.how, x.correlation, x.began, x.ended);
    all.pop_back();
  }
  std::thread{[&] { complete(nullptr, 0, buffer, bytes, valid); }}.join();
}

void hand_all_over() {
  std::unique_lock held{lock};
  auto all = std::exchange(records, {});
  held.unlock();
  while (!all.empty())
    hand_over(all);
}

} // namespace

extern "C" {

code cuptiSubscribe(void** out, told by, void* of) {
  if (auto x = failure("cuptiSubscribe"); x != success)
    return x;
  std::lock_guard guard{lock};
  if (tell != nullptr)
    return multiple_subscribers;
  tell = by;
  user = of;
  *out = &tell;
  return success;
}
code cuptiUnsubscribe(void*) {
  std::lock_guard guard{lock};
  tell = nullptr;
  calls.clear();
  return success;
}
code cuptiEnableCallback(std::uint32_t on, void*, std::uint32_t domain,
                         std::uint32_t call) {
  std::lock_guard guard{lock};
  if (domain != 1)
    return invalid_parameter;
  if (on != 0)
    calls.insert(call);
  else
    calls.erase(call);
  return success;
}
code cuptiActivityRegisterTimestampCallback(std::uint64_t (*read)()) {
  std::lock_guard guard{lock};
  now = read;
  return success;
}
code cuptiActivityRegisterCallbacks(requested r, completed c) {
  std::lock_guard guard{lock};
  request = r;
  complete = c;
  return success;
}
code cuptiActivityEnable(std::uint32_t kind) {
  if (auto x = failure("cuptiActivityEnable"); x != success)
    return x;
  std::lock_guard guard{lock};
  kinds.insert(kind);
  return success;
}
code cuptiActivityDisable(std::uint32_t kind) {
  std::lock_guard guard{lock};
  kinds.erase(kind);
  return success;
}
code cuptiActivityFlushAll(std::uint32_t flag) {
  {
    std::lock_guard guard{lock};
    ++flushes;
    if (busy && flag == 0)
      return success;
  }
  hand_all_over();
  return success;
}
code cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid,
                                void** at) {
  auto* next = buffer;
  if (*at != nullptr) {
    std::uint32_t kind = 0;
    std::memcpy(&kind, *at, 4);
    auto how = kind == kernel.kind ? kernel
               : kind == copy.kind ? copy
                                   : overhead;
    next = static_cast<std::uint8_t*>(*at) + how.bytes;
  }
  if (next >= buffer + valid)
    return max_limit_reached;
  *at = next;
  return success;
}

/// Returns what the fake driver is to call.
const void* fake_cupti_hooks() {
  return &hooks;
}
/// Resets what tests set. A subscriber stays, as in CUPTI.
void fake_cupti_reset() {
  std::lock_guard guard{lock};
  failures.clear();
  records.clear();
  lost = untimed = flushes = 0;
  busy = false;
}
/// Makes a function return this code, or succeed again.
void fake_cupti_fail(const char* function, int with) {
  std::lock_guard guard{lock};
  failures[function] = with;
}
/// Loses the next records.
void fake_cupti_lose(unsigned count) {
  std::lock_guard guard{lock};
  lost = count;
}
/// Makes the next records without times.
void fake_cupti_untime(unsigned count) {
  std::lock_guard guard{lock};
  untimed = count;
}
/// Makes flushes bring nothing, unless they are forced, as while a record is
/// incomplete.
void fake_cupti_busy(int on) {
  std::lock_guard guard{lock};
  busy = on != 0;
}
/// Hands all records over, as CUPTI does with full buffers.
void fake_cupti_hand_over() {
  hand_all_over();
}
unsigned fake_cupti_flushes() {
  std::lock_guard guard{lock};
  return flushes;
}
/// Returns how many kinds of activities and calls are recorded.
unsigned fake_cupti_enabled() {
  std::lock_guard guard{lock};
  return static_cast<unsigned>(kinds.size() + calls.size());
}
}
