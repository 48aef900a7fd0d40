// The program that a command runs as its child: its signals and its end.
#pragma once

#include <csignal>

#include <sys/types.h>

namespace vgpu::command {

/// Returns the signals that a command passes on to its program.
sigset_t forwarded_signals();

/// Waits for the program's end, passes on signals from the signalfd meanwhile,
/// and returns how it ended.
siginfo_t wait_program(int signals, pid_t program);

/// Ends this process in the way the program ended, or returns the exit code for
/// that.
int end_like(const siginfo_t& how);

} // namespace vgpu::command
