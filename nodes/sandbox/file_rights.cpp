#include "nodes/sandbox/file_rights.hpp"

#include "nodes/sandbox/sanitizers.hpp"
#include "schema/log/session_area.hpp"

#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>

namespace vgpu {

namespace {

// The kernel's interface (landlock(7)), of which Debian's headers know only the
// first versions.

constexpr std::uint64_t may_execute = 1u << 0;
constexpr std::uint64_t may_write = 1u << 1;
constexpr std::uint64_t may_read = 1u << 2;
constexpr std::uint64_t may_list = 1u << 3;
constexpr std::uint64_t may_make_folder = 1u << 7;
constexpr std::uint64_t may_make_file = 1u << 8;
constexpr std::uint64_t may_make_socket = 1u << 9;
constexpr std::uint64_t may_remove_file = 1u << 5;
constexpr std::uint64_t may_truncate = 1u << 14;
/// Is the set of rights that a version of Landlock controls.
constexpr std::uint64_t all_rights(long version) {
  return version >= 3 ? 0x7fff : version == 2 ? 0x3fff : 0x1fff;
}
constexpr std::uint64_t bind_tcp = 1u << 0;
constexpr std::uint64_t connect_tcp = 1u << 1;
constexpr std::uint64_t abstract_sockets_scoped = 1u << 0;
constexpr std::uint64_t signals_scoped = 1u << 1;
/// Is the first version of Landlock that has scopes.
constexpr long has_scopes = 6;

struct ruleset {
  std::uint64_t files = 0;
  std::uint64_t network = 0;
  std::uint64_t scoped = 0;
};

/// The kernel reads this packed.
struct [[gnu::packed]] path_rule {
  std::uint64_t allowed;
  std::int32_t folder;
};

struct port_rule {
  std::uint64_t allowed;
  std::uint64_t port;
};

constexpr int of_path = 1;
constexpr int of_port = 2;

/// Is a set of rules in the making. Not thread-safe.
class rules {
public:
  rules(long version, unique_fd set)
      : version_(version), set_(std::move(set)) {}

  /// Permits these rights in a folder and below it, or for a file. Without
  /// effect where there is none.
  void permit(const char* path, std::uint64_t rights) {
    unique_fd at{::open(path, O_PATH | O_CLOEXEC)};
    struct stat kind {};
    if (!at || ::fstat(at.get(), &kind) != 0)
      return;
    constexpr auto of_files = may_execute | may_write | may_read | may_truncate;
    if (!S_ISDIR(kind.st_mode))
      rights &= of_files;
    const path_rule x{rights & all_rights(version_), at.get()};
    add(of_path, &x);
  }
  void permit(const std::string& path, std::uint64_t rights) {
    permit(path.c_str(), rights);
  }
  void permit_port(std::uint64_t port) {
    const port_rule x{bind_tcp, port};
    if (version_ >= 4)
      add(of_port, &x);
  }
  bool enforce() {
    return good_ && ::syscall(SYS_landlock_restrict_self, set_.get(), 0u) == 0;
  }

private:
  void add(int kind, const void* x) {
    if (::syscall(SYS_landlock_add_rule, set_.get(), kind, x, 0u) != 0)
      good_ = false;
  }

  long version_;
  unique_fd set_;
  bool good_ = true;
};

constexpr auto read_only = may_read | may_list;
constexpr auto programs = may_execute | read_only;
constexpr auto read_write = read_only | may_write | may_truncate;
constexpr auto keep_files =
    read_write | may_make_file | may_make_folder | may_remove_file;

/// Permits the libraries that are loaded, wherever they lie, because a helper
/// of the worker loads them again.
int permit_library(dl_phdr_info* of, std::size_t, void* to) {
  if (of->dlpi_name != nullptr && of->dlpi_name[0] == '/')
    static_cast<rules*>(to)->permit(of->dlpi_name, may_execute | may_read);
  return 0;
}

void permit_programs(rules& to) {
  for (const auto* x : {"/usr", "/lib", "/lib64", "/lib32"})
    to.permit(x, programs);
  to.permit("/proc/self/exe", may_execute | may_read);
  ::dl_iterate_phdr(&permit_library, &to);
  for (const auto* x :
       {"/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/localtime"})
    to.permit(x, may_read);
  for (const auto* x : {"/proc", "/sys"})
    to.permit(x, read_only);
  for (const auto* x : {"/dev/null", "/dev/zero", "/dev/full"})
    to.permit(x, read_write);
  for (const auto* x : {"/dev/random", "/dev/urandom"})
    to.permit(x, may_read);
}

/// Calls `f` for each part of a variable such as LD_LIBRARY_PATH.
template <class F>
void each_part_of(const char* variable, F f) {
  const auto* value = ::getenv(variable);
  std::istringstream all{value != nullptr ? value : ""};
  for (std::string x; std::getline(all, x, ':');)
    if (!x.empty())
      f(x);
}

/// Permits the reports of a sanitizer, which would be lost otherwise.
void permit_reports(rules& to) {
  for (const auto* variable : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"})
    each_part_of(variable, [&](const std::string& option) {
      constexpr std::string_view name = "log_path=";
      if (option.starts_with(name))
        to.permit(
            option.substr(name.size(), option.rfind('/') + 1 - name.size()),
            keep_files);
    });
}

/// Returns where the driver keeps compiled kernels, as its manual says.
std::string compute_cache() {
  if (const auto* set = ::getenv("CUDA_CACHE_PATH"))
    return set;
  const auto* home = ::getenv("HOME");
  return home != nullptr ? std::string{home} + "/.nv" : std::string{};
}

/// Permits the files of NVIDIA's driver: its devices, its settings, libraries
/// that it loads by name, and its cache of compiled kernels.
void permit_nvidia(rules& to) {
  for (const auto* x : {"/dev", "/proc"})
    to.permit(x, read_write);
  // Events for several processes lie in files that the driver makes there.
  to.permit("/dev/shm", keep_files);
  for (const auto* x : {"/etc", "/run", "/opt", "/var/run"})
    to.permit(x, programs);
  each_part_of("LD_LIBRARY_PATH",
               [&](const auto& x) { to.permit(x, programs); });
  for (const auto* variable : {"VGPU_NVIDIA_DRIVER", "VGPU_NVIDIA_CUPTI"})
    if (const auto* chosen = ::getenv(variable)) {
      std::string path{chosen};
      to.permit(path.substr(0, path.rfind('/')), programs);
    }
  if (auto cache = compute_cache(); !cache.empty()) {
    (void)::mkdir(cache.c_str(), 0700);
    to.permit(cache, keep_files);
  }
}

/// Returns what the kernel is to restrict.
ruleset restricted(long version, const sandbox_needs& needs) {
  ruleset out{.files = all_rights(version)};
  if (version >= 4)
    out.network = bind_tcp | connect_tcp;
  if (version >= has_scopes)
    out.scoped = needs.connected_by_node
                     ? signals_scoped | abstract_sockets_scoped
                     : signals_scoped;
  return out;
}

} // namespace

void restrict_files(const sandbox_needs& needs, sandbox_report& report) {
  constexpr unsigned ask_version = 1;
  auto version =
      ::syscall(SYS_landlock_create_ruleset, nullptr, 0ul, ask_version);
  if (version < 1)
    return report.lacks("files",
                        std::string{"no Landlock: "} + std::strerror(errno));
  auto what = restricted(version, needs);
  auto size = version >= has_scopes ? sizeof(ruleset)
              : version >= 4        ? 2 * sizeof(std::uint64_t)
                                    : sizeof(std::uint64_t);
  unique_fd made{static_cast<int>(
      ::syscall(SYS_landlock_create_ruleset, &what, size, 0u))};
  if (!made)
    return report.lacks("files", std::strerror(errno));
  rules to{version, std::move(made)};
  permit_programs(to);
  if (needs.nvidia)
    permit_nvidia(to);
  if (is_sanitized())
    permit_reports(to);
  if (needs.tcp_port)
    to.permit_port(0); // the kernel chooses
  if (!needs.socket_folder.empty())
    to.permit(needs.socket_folder, may_make_socket);
  if (!to.enforce())
    return report.lacks("files", std::strerror(errno));
  report.has("files");
  constexpr auto* sockets = "no abstract sockets";
  if (version >= has_scopes && needs.connected_by_node)
    report.has(sockets);
  else if (needs.connected_by_node)
    report.lacks(sockets, "the kernel is older than 6.12");
}

} // namespace vgpu
