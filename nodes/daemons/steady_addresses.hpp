// Addresses that do not depend on what a worker has done.
#pragma once

namespace vgpu {

/// At a process's beginning: memory that malloc gives out lies in one heap,
/// apart from where the kernel puts what has no place of its own. A GPU's
/// driver finds room for a program's variables there, and finds the same in the
/// session's next worker if nothing else of ours has come and gone. (What we
/// map ourselves: schema/base/own_addresses.hpp.)
void keep_heap_apart();

/// When the threads that stay are there: the stacks of those that come and go
/// later are taken now.
void take_stacks();

} // namespace vgpu
