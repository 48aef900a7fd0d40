// The library's own threads in the program's process.
#pragma once

#include <functional>

namespace vgpu::interposer {

/// Runs `body` on a new thread that lives as long as the process and does not
/// hold up its exit. So nothing that the thread uses may ever be destroyed. The
/// thread blocks all of the program's signals but those that it raises itself,
/// for instance by touching managed memory. Returns false where no thread can
/// be started.
bool start_own_thread(std::function<void()> body);

/// Tells whether the calling thread runs the program's host functions. On that
/// thread some calls must not wait, and others are not permitted.
bool runs_host_functions() noexcept;
/// Marks the calling thread, for its life, as one that runs host functions.
void become_host_function_thread() noexcept;

} // namespace vgpu::interposer
