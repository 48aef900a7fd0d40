// A library to preload into a program, which counts the program's calls of the
// driver, by CUPTI's callbacks, and holds the program where it begins a call of
// a chosen number, until its partner lets it go on.
//
//   STOP_AT_CALL  the number of the call, from 1 on, or 0 for none
//   STOP_FOLDER   the partner's folder. The file `calls` gets the number of the
//                 calls, and how long the longest one took, in nanoseconds,
//                 eight bytes each. Held, the program writes the call's number
//                 and name to the file `held` and reads a line from the pipe
//                 `go`: after how many calls it is to be held again, or 0 for
//                 never. A call's time counts from its end of being held
//
// Forked children count as the program; programs that it executes do not.
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

// From cupti_callbacks.h.
constexpr std::uint32_t driver_api = 1;
constexpr std::uint32_t enters = 0;
struct callback_data {
  std::uint32_t site;
  const char* function;
};
using callback = void (*)(void*, std::uint32_t, std::uint32_t, const void*);

/// Lies in the folder's file, which the program shares with forked children.
struct progress {
  std::atomic<std::uint64_t> calls;
  std::atomic<std::uint64_t> longest; // nanoseconds
  std::atomic<std::uint64_t> stop_at; // or 0
};

struct plan {
  std::string folder;
  progress* at = nullptr;
};

plan& ours() {
  static auto& x = *new plan;
  return x;
}

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::_Exit(125);
}

/// Makes a file, whole from the moment when it is there.
void tell(const std::string& text) {
  auto path = ours().folder + "/held", part = path + ".part";
  auto to =
      ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (to < 0 || ::write(to, text.data(), text.size()) !=
                    static_cast<::ssize_t>(text.size()))
    give_up(part.c_str());
  ::close(to);
  if (std::rename(part.c_str(), path.c_str()) != 0)
    give_up(path.c_str());
}

/// Holds the program, and returns after how many calls to hold it again.
std::uint64_t hold(std::uint64_t number, const char* name) {
  tell(std::to_string(number) + " " + name + "\n");
  auto path = ours().folder + "/go";
  // The program's signal handlers may interrupt these calls.
  auto again = [](auto call) {
    auto got = call();
    while (got < 0 && errno == EINTR)
      got = call();
    return got;
  };
  auto from = again([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); });
  if (from < 0)
    give_up(path.c_str());
  std::array<char, 16> answer{};
  // The next line may be there already.
  for (std::size_t i = 0; i + 1 < answer.size(); ++i)
    if (again([&] { return ::read(from, &answer[i], 1); }) != 1 ||
        answer[i] == '\n')
      break;
  ::close(from);
  return std::strtoull(answer.data(), nullptr, 10);
}

/// Counts a call, and holds the program at the chosen one.
void begin_call(const char* name) {
  auto& at = *ours().at;
  auto number = ++at.calls;
  auto stop_at = at.stop_at.load();
  // One thread of the program is held, and its others go on.
  if (stop_at == 0 || number < stop_at ||
      !at.stop_at.compare_exchange_strong(stop_at, 0))
    return;
  if (auto more = hold(number, name); more != 0)
    at.stop_at = at.calls + more;
}

void note_time(std::uint64_t took) {
  auto& longest = ours().at->longest;
  auto before = longest.load();
  while (took > before && !longest.compare_exchange_weak(before, took))
    continue;
}

void on_call(void*, std::uint32_t, std::uint32_t, const void* data) {
  using clock = std::chrono::steady_clock;
  // A call within another one counts as part of it.
  thread_local int depth = 0;
  thread_local clock::time_point began;
  const auto& x = *static_cast<const callback_data*>(data);
  if (x.site == enters) {
    begin_call(x.function);
    if (depth++ == 0)
      began = clock::now();
  } else if (--depth == 0) {
    auto took = std::chrono::nanoseconds{clock::now() - began}.count();
    note_time(static_cast<std::uint64_t>(took));
  }
}

void count_calls() {
  auto* tool = ::dlopen("libcupti.so.13", RTLD_NOW);
  if (tool == nullptr)
    give_up("libcupti.so.13");
  void* subscriber = nullptr;
  auto subscribe = reinterpret_cast<int (*)(void**, callback, void*)>(
      ::dlsym(tool, "cuptiSubscribe"));
  auto enable = reinterpret_cast<int (*)(std::uint32_t, void*, std::uint32_t)>(
      ::dlsym(tool, "cuptiEnableDomain"));
  if (subscribe(&subscriber, &on_call, nullptr) != 0 ||
      enable(1, subscriber, driver_api) != 0)
    give_up("cuptiSubscribe");
}

[[gnu::constructor]] void begin() {
  const auto* at = std::getenv("STOP_AT_CALL");
  const auto* folder = std::getenv("STOP_FOLDER");
  if (at == nullptr || folder == nullptr)
    return;
  auto& mine = ours();
  mine.folder = folder;
  auto stop_at = std::strtoull(at, nullptr, 10);
  // The program's children, and the client that it starts, have none of this.
  for (const auto* name : {"STOP_AT_CALL", "STOP_FOLDER", "LD_PRELOAD"})
    ::unsetenv(name);
  auto path = mine.folder + "/calls";
  auto file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ::ftruncate(file, sizeof *mine.at) != 0)
    give_up(path.c_str());
  auto* at_file = ::mmap(nullptr, sizeof *mine.at, PROT_READ | PROT_WRITE,
                         MAP_SHARED, file, 0);
  if (at_file == MAP_FAILED)
    give_up(path.c_str());
  ::close(file);
  mine.at = static_cast<progress*>(at_file);
  mine.at->stop_at = stop_at;
  count_calls();
}

} // namespace
