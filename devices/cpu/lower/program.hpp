// The internal form of a kernel, which lowering produces and warps execute.
#pragma once

#include "devices/cpu/ptx/ptx_ast.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace vgpu::device::cpu {

class warp;
struct instr;

/// Executes one instruction for all active lanes of a warp. Returns the next
/// instruction, or null to return to the warp's scheduler.
using handler = const instr* (*)(warp&, const instr*);

inline constexpr unsigned lanes = 32;
using lane_mask = std::uint32_t;
inline constexpr lane_mask all_lanes = ~lane_mask{0};

/// Names a field of an instruction: the result, or one of up to five operands.
enum field : std::uint8_t { fd, fa, fb, fc, fe, ff, field_count };

/// Holds one instruction. Its fields hold byte offsets into the frame's
/// registers. A register's 32 lanes lie one after another; a predicate is one
/// 32-bit mask.
struct instr {
  handler fn = nullptr;
  std::int32_t o[field_count] = {-1, -1, -1, -1, -1, -1};
  std::int64_t imm = 0;    // constant, address offset or jump distance
  std::uint32_t flags = 0; // rounding and other modifiers: namespace mod
  std::uint32_t extra = 0;
};

/// Holds the modifiers of arithmetic instructions, for instr::flags.
namespace mod {
inline constexpr std::uint32_t round_mask = 3; // rn, rz, rm, rp
inline constexpr std::uint32_t rn = 0, rz = 1, rm = 2, rp = 3;
inline constexpr std::uint32_t ftz = 4;
inline constexpr std::uint32_t sat = 8;
inline constexpr std::uint32_t integral = 16; // rni and the like
inline constexpr std::uint32_t approx = 32;
inline constexpr std::uint32_t nan = 64;      // min and max keep NaN
inline constexpr std::uint32_t negated = 128; // branch on false
inline constexpr std::uint32_t cc = 256;      // writes the carry
inline constexpr std::uint32_t wide = 512;    // depends on the operation
inline constexpr std::uint32_t relu = 1024;
} // namespace mod

/// Names a built-in function that the "system" provides, which is the driver on
/// a GPU.
enum class system_call : std::uint8_t {
  none,
  vprintf,
  assert_fail,
  malloc,
  free,
  set_condition,
};

/// Says where one call parameter lies in a frame's parameter memory, where the
/// lanes lie one after another.
struct param_slot {
  std::uint32_t offset = 0; // offset of lane 0, in bytes
  std::uint32_t bytes = 0;  // bytes of each lane
};

/// Describes a call site, with the caller's parameter variables that go to the
/// callee and that receive its results.
struct call_site {
  std::int32_t callee = -1; // -1: by address
  system_call system = system_call::none;
  std::vector<param_slot> arguments, results;
};

/// Describes a lowered function, whose instructions are in program::instrs.
struct code {
  std::string name;
  bool entry = false;
  std::uint32_t first = 0; // index into program::instrs
  std::uint32_t count = 0;
  std::uint32_t frame_bytes = 0;       // registers
  std::uint32_t param_bytes = 0;       // call parameters, all lanes
  std::uint32_t local_bytes = 0;       // .local variables, per lane
  std::uint32_t static_shared = 0;     // bytes
  std::uint32_t max_live = 0;          // most 32-bit registers live at once
  std::vector<std::uint8_t> constants; // initial content of the frame
  std::vector<param_slot> results, parameters; // for a .func
  std::uint32_t block_limit[3] = {0, 0, 0};    // .maxntid/.reqntid
  bool block_exact = false;
  std::uint32_t cluster_blocks[3] = {0, 0, 0}; // .reqnctapercluster
  std::uint32_t max_cluster_rank = 0;          // .maxclusterrank; 0: not given
  bool explicit_cluster = false;               // .explicitcluster
  bool calls = false;
  /// Says where a kernel parameter lies in the parameter block.
  struct parameter {
    std::uint32_t offset = 0, bytes = 0;
  };
  std::vector<parameter> kernel_parameters;
  std::uint32_t kernel_parameter_bytes = 0;
};

/// A GPU reserves this many bytes of each block's shared memory.
inline constexpr std::uint32_t reserved_shared_bytes = 1024;

/// Holds a loaded module, ready to run. It is immutable, and the launches that
/// use it share it.
struct program {
  std::vector<instr> instrs;
  std::vector<std::uint32_t> lines; // in the PTX text, one an instruction
  std::vector<code> functions;
  std::vector<call_site> calls;
  unsigned target = 0;
  std::uint64_t constant_bytes = 0; // .const variables
  bool uses_heap = false;           // calls malloc or free
  /// Cooperative groups use this many bytes after each block's shared memory.
  /// They find them by %reserved_smem_offset.
  std::uint32_t reserved_shared = 0;

  const code& function_at(const instr* in) const {
    auto index = static_cast<std::uint32_t>(in - instrs.data());
    for (auto& f : functions)
      if (index >= f.first && index - f.first < f.count)
        return f;
    return functions.front();
  }
};

/// Functions have addresses from here on, `function_stride` apart. They name no
/// memory, and no pointer has such a value.
inline constexpr std::uint64_t function_base = 0x0000'00F0'0000'0000;
inline constexpr std::uint64_t function_stride = 16;

/// The generic addresses of the shared, local and param state spaces lie
/// outside every window (schema/base/ids.hpp) and outside the addresses that
/// the system gives to a process.
inline constexpr std::uint64_t shared_aperture = 0x0000'0010'0000'0000;
inline constexpr std::uint64_t local_aperture = 0x0000'0020'0000'0000;
inline constexpr std::uint64_t param_aperture = 0x0000'0030'0000'0000;
inline constexpr std::uint64_t aperture_bytes = 0x0000'0001'0000'0000;

} // namespace vgpu::device::cpu
