// The syntax tree of a PTX module. Names are resolved, and nothing else is
// decided.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace vgpu::device::cpu::ptx {

/// Names a state space (PTX ISA, "State Spaces").
enum class space : std::uint8_t {
  generic,
  global,
  constant,
  shared,
  local,
  param,
};

/// Describes a scalar type. `kind` is u, s, f, b, h for the bfloat formats, or
/// p for predicates. Packed pairs such as f16x2 are types of their own.
struct type {
  char kind = 'b';
  std::uint8_t bytes = 4;
  bool packed = false;
  friend bool operator==(const type&, const type&) = default;
};

/// Describes an address in a variable's initial value.
struct relocation {
  std::uint64_t offset = 0; // offset in the variable
  std::string symbol;
  std::int64_t addend = 0;
  std::uint64_t mask = 0; // 0: the whole address, else those bits of it
  std::uint8_t bytes = 8;
};

/// Says where a symbol is visible, and so which of several definitions counts.
enum class linkage : std::uint8_t {
  local,    // only in this text
  visible,  // in all texts that it is linked with
  weak,     // .weak or .common: visible, and one of several counts
  external, // declared here, defined elsewhere
};

/// Describes a variable in any state space but the registers.
struct variable {
  std::string name;
  space where = space::global;
  type element;
  std::uint64_t align = 1; // bytes
  std::uint64_t bytes = 0;
  linkage seen = linkage::local;
  bool unsized = false; // extern array without a size: dynamic shared memory
  bool managed = false;
  std::vector<std::uint8_t> initial; // may be shorter than bytes: zeros follow
  std::vector<relocation> relocations;
};

/// Describes an operand. The comments of `kind` say which members count.
struct operand {
  enum class kind : std::uint8_t {
    reg,     // number: index into function::registers; name: a part of it
    integer, // bits
    f32,     // bits
    f64,     // bits
    special, // name: %tid.x
    symbol,  // name, offset: module variable, function or label
    local,   // number, offset: index into function::variables
    address, // [elements[0] + offset]
    vector,  // {elements}
    list,    // (elements)
    pair,    // elements[0] | elements[1]
    sink,    // _
  };
  kind is = kind::sink;
  bool negated = false;
  int number = -1;
  std::uint64_t bits = 0;
  std::int64_t offset = 0;
  std::string name;
  std::vector<operand> elements;
};

/// Describes an instruction with its guard.
struct instruction {
  std::string name;                   // "ld"
  std::vector<std::string> modifiers; // "global", "v4", "f32"
  std::vector<operand> operands;
  int guard = -1; // predicate register, or -1
  bool guard_negated = false;
  std::uint32_t line = 0;
  std::uint32_t scope = 0;

  /// Returns the name with all modifiers, for messages.
  std::string text() const {
    auto out = name;
    for (auto& x : modifiers)
      out += "." + x;
    return out;
  }
};

/// Names a place in a function's body.
struct label {
  std::string name;
  std::uint32_t scope = 0;
  std::uint32_t at = 0; // index into function::body
};

/// Holds a .branchtargets list.
struct target_list {
  std::string name;
  std::uint32_t scope = 0;
  std::vector<std::string> labels;
};

/// Holds a .callprototype, the parameters of an indirect call.
struct prototype {
  std::string name;
  std::vector<variable> results, parameters;
};

/// Describes a kernel (.entry) or a function (.func).
struct function {
  std::string name;
  linkage seen = linkage::local;
  bool entry = false;
  bool defined = false;
  std::vector<variable> results, parameters;
  std::vector<type> registers;
  /// Holds the parameters, then the .param, .local and .shared variables of the
  /// body.
  std::vector<variable> variables;
  std::vector<instruction> body;
  std::vector<label> labels;
  std::vector<target_list> target_lists;
  std::vector<prototype> prototypes;
  std::vector<std::uint32_t> scope_parent;       // scope 0 is its own parent
  std::uint32_t max_threads[3] = {0, 0, 0};      // .maxntid; 0: not given
  std::uint32_t required_threads[3] = {0, 0, 0}; // .reqntid
  std::uint32_t cluster_blocks[3] = {0, 0, 0};   // .reqnctapercluster
  std::uint32_t max_cluster_rank = 0;            // .maxclusterrank
  std::uint32_t max_registers = 0;               // .maxnreg
  std::uint32_t min_blocks = 0;                  // .minnctapersm
  bool explicit_cluster = false;                 // .explicitcluster
  std::uint32_t line = 0;
};

/// Describes a whole PTX text, or several that are linked.
struct module {
  unsigned version = 0; // 90 for 9.0
  unsigned target = 0;  // 75 for sm_75
  std::vector<variable> variables;
  std::vector<function> functions;
};

} // namespace vgpu::device::cpu::ptx
