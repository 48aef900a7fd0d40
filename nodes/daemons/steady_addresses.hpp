// Addresses that do not depend on what a worker has done.
#pragma once

namespace vgpu {

/// Makes malloc use one heap, apart from where the kernel places mappings
/// without an address. A GPU's driver places a program's variables there, and
/// places them at the same addresses in the session's next worker if no memory
/// of ours has come and gone there. (schema/base/own_addresses.hpp places our
/// own mappings.) Call it when the process starts.
void keep_heap_apart();

/// Allocates the stacks that later, short-lived threads will reuse. Call it
/// when all permanent threads exist.
void take_stacks();

} // namespace vgpu
