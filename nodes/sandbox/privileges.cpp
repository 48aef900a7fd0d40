#include "nodes/sandbox/privileges.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace vgpu {

namespace {

/// Sets both limits, and returns whether the kernel did so.
bool limit(__rlimit_resource_t what, rlim_t to) {
  const rlimit value{to, to};
  return ::setrlimit(what, &value) == 0;
}

/// Forbids what this process could gain by executing a program. Without
/// CAP_SETPCAP this fails, and the process has nothing to gain then.
void empty_bounding_set() {
  for (auto i = 0ul; ::prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; ++i)
    (void)::prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
}

/// Reads and writes this thread's capabilities.
class capability_sets {
public:
  /// Opens files whatever their permissions say.
  static constexpr std::uint32_t files_of_others = 1u << CAP_DAC_OVERRIDE;

  bool get() { return ::syscall(SYS_capget, &whose_, now_) == 0; }
  /// Makes the thread use none, for a trial.
  bool without_effective() {
    for (auto& x : now_)
      x.effective = 0;
    return set();
  }
  /// Gives up all but these of the first 32, for ever.
  bool keep(std::uint32_t these) {
    for (auto& x : now_) {
      x.permitted &= &x == now_ ? these : 0;
      x.effective = x.permitted;
      x.inheritable = 0;
    }
    return set();
  }

private:
  bool set() { return ::syscall(SYS_capset, &whose_, now_) == 0; }

  __user_cap_header_struct whose_{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct now_[_LINUX_CAPABILITY_U32S_3] = {};
};

/// Returns whether this thread, as it is, may make files in the folder.
bool may_use(const std::string& folder) {
  return folder.empty() ||
         ::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
}

} // namespace

void limit_resources(const sandbox_needs& needs, sandbox_report& report) {
  auto all = true;
  // The process has raised its own limit on descriptors to what it needs.
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0)
    all &= limit(RLIMIT_NOFILE, files.rlim_cur);
  all &= limit(RLIMIT_MSGQUEUE, 0);
  all &= limit(RLIMIT_RTPRIO, 0);
  // The cpu device locks no memory. NVIDIA's driver may account pinned memory.
  if (!needs.nvidia)
    all &= limit(RLIMIT_MEMLOCK, 0);
  if (all)
    report.has("limits");
  else
    report.lacks("limits", std::strerror(errno));
}

void forbid_new_privileges(sandbox_report& report) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
    report.has("no-new-privs");
  else
    report.lacks("no-new-privs", std::strerror(errno));
}

// NVIDIA's driver needs no capability: its device files are open to the users
// that may use it, and the node has loaded its modules before any worker runs.
void drop_capabilities(const sandbox_needs& needs, sandbox_report& report) {
  empty_bounding_set();
  (void)::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  capability_sets sets;
  if (!sets.get())
    return report.lacks("no capabilities", std::strerror(errno));
  // Root's run directory may lie in a folder of another user, as with sudo.
  auto kept = sets.without_effective() && !may_use(needs.socket_folder)
                  ? capability_sets::files_of_others
                  : 0;
  if (!sets.keep(kept))
    report.lacks("no capabilities", std::strerror(errno));
  else if (kept != 0)
    report.lacks("no capabilities", "the run directory is another user's");
  else
    report.has("no capabilities");
}

void forbid_cores(const sandbox_needs& needs, sandbox_report& report) {
  // A helper of an NVIDIA worker checkpoints it from outside, for which the
  // worker must be open to others of its user. A limit of one byte then keeps
  // also programs that the kernel pipes cores to (core(5)) from getting one.
  auto ok = limit(RLIMIT_CORE, needs.nvidia ? 1 : 0);
  if (!needs.nvidia)
    ok &= ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
  if (ok)
    report.has("no cores");
  else
    report.lacks("no cores", std::strerror(errno));
}

} // namespace vgpu
