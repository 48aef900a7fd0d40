// Opening a program's files by the numbers of its descriptors.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/log/session_area.hpp"

#include <cstdint>
#include <initializer_list>
#include <sys/types.h>

namespace vgpu {

/// Names a file of a program: its process, and its descriptors of the session's
/// control area and of the file.
struct program_file {
  std::uint32_t process = 0;
  std::uint32_t control = 0;
  std::uint32_t file = 0;
};

/// Opens the file through the program's process (proc(5), /proc/PID/fd). A
/// hostile program could name another process to which only the caller has
/// access. So a process counts only if it has the session's control area open,
/// which is `control_fd` here, and is none of `others`, which have it open too.
/// The fault is of kind `usage` where there is no such file of the program, and
/// of kind `unsupported` where the caller may not look at the program's files.
result<unique_fd> open_program_file(const program_file& what, int control_fd,
                                    std::initializer_list<pid_t> others);

/// Asks the session's client to open the file, because a sandboxed worker may
/// not look into other processes. `socket` is non-blocking; the client's other
/// end is at answer_program_file(). Waits up to five seconds. Fails as
/// open_program_file() does, and as `unsupported` where no client answers.
result<unique_fd> ask_program_file(int socket, const program_file& what);

/// Answers a worker's question, if there is one. Returns false where the worker
/// has closed its end or asks nonsense, so that nothing more is to be answered.
bool answer_program_file(int socket, int control_fd, pid_t worker);

} // namespace vgpu
