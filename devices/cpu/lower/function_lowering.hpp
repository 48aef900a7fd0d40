// The lowering of one function. Its parts are in lowering.cpp (the module),
// lower_arithmetic.cpp, lower_control.cpp, lower_compare.cpp,
// lower_convert.cpp, lower_memory.cpp, lower_calls.cpp, lower_matrix.cpp,
// lower_async.cpp, lower_texture.cpp and lower_video.cpp.
#pragma once

#include "devices/cpu/lower/lowering.hpp"
#include "devices/cpu/lower/op_table.hpp"
#include "devices/cpu/lower/registers.hpp"
#include "devices/cpu/lower/texture_op.hpp"
#include "devices/cpu/ptx/ptx_lexer.hpp"

#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string_view>

namespace vgpu::device::cpu {

/// Holds the state that the functions of a module share while they are lowered.
struct module_lowering {
  const ptx::module& from;
  const symbol_addresses& addresses;
  program out;
  /// Maps each function's name to its index.
  std::unordered_map<std::string, int> functions;
  /// Maps the names of .shared variables of module scope.
  std::unordered_map<std::string, const ptx::variable*> shared;
  /// Tells whether other parts may define what this one only declares.
  bool is_part = false;
};

/// Holds the places of a kernel's .shared variables, in bytes from the
/// beginning of its shared memory.
struct shared_layout {
  std::map<std::string, std::uint64_t> offsets;
  std::uint64_t bytes = 0;
};

/// Returns the width of a register of this type, as op_entry::signature writes
/// it.
char width_for(const ptx::type& t);
/// Turns the letter of a written register into that of a read one.
char read_form(char signature);
/// Returns the flag of a modifier that changes how a result is rounded, or
/// nothing for other modifiers.
std::optional<std::uint32_t> rounding_flag(std::string_view modifier);
/// Tells whether the type is a floating-point type.
bool is_float(const ptx::type& t);
/// Returns the state space that a modifier such as "global" or "shared::cta"
/// names, or nothing.
std::optional<ptx::space> space_named(std::string_view x);

/// Lowers one function of a module. Throws ptx::syntax_error for code that is
/// wrong or not supported.
class function_lowering {
public:
  function_lowering(module_lowering& in, int index, shared_layout& layout);

  /// Appends the function to the program.
  void run();

private:
  using op = ptx::operand;
  using kind = ptx::operand::kind;

  // -- building blocks --------------------------------------------------------

  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void unsupported() const;
  int temp(char width);
  int constant(char width, std::uint64_t bits);
  /// Appends an operation, with operands in the order of its fields.
  pending& emit(std::string_view key, std::initializer_list<int> operands,
                std::int64_t imm = 0, std::uint32_t flags = 0);
  bool try_emit(std::string_view key, std::initializer_list<int> operands,
                std::int64_t imm = 0, std::uint32_t flags = 0);
  void check(const op_entry& entry, const pending& x) const;
  char width_of(int id) const { return values_[std::size_t(id)].width; }
  void need(std::size_t operands) const;
  const op& arg(std::size_t i) const { return now_->operands[i]; }
  bool has(std::string_view modifier) const;

  // -- operands ---------------------------------------------------------------

  int source(const op& x, char width);
  int destination(const op& x, char width);
  int predicate(const op& x);
  int predicate_destination(const op& x);
  int address_of(const op& x, char width);
  int special(const op& x, char width);
  /// Converts a value to another register width.
  int resize(int id, char to, bool is_signed);

  // -- instructions -----------------------------------------------------------

  void statement(const ptx::instruction& x);
  void instruction();
  bool control();
  bool arithmetic_special();
  void arithmetic();
  void moves();
  void move_vector();
  void move_elements(const ptx::type& t);
  void compare();
  std::pair<int, int> halves_compared();
  void compare_halves();
  void set();
  void slct();
  void convert();
  void convert_short();
  void convert_packed();
  void logic_with_predicate();
  void approximate_double();
  bool carry();
  bool video(); // lower_video.cpp
  void exchange();
  void barrier();
  void branch();
  void branch_indexed();

  // -- memory (lower_memory.cpp) ----------------------------------------------

  /// Says where the address operand of an access points.
  struct place {
    std::string space; // part of the operation's key: "global.a8."
    int base = -1;
    std::int64_t offset = 0;
    bool frame = false; // a call parameter, without base
    std::uint32_t stride = 0;
  };
  /// Says what a load, store or atomic accesses.
  struct access {
    ptx::space where = ptx::space::generic;
    ptx::type t;
    unsigned count = 1;
    bool watched = false;
  };
  access parse_access();
  place parse_place(const op& x, ptx::space where);
  place param_place(const op& base, std::int64_t offset);
  void load();
  void store();
  bool reports();
  void check_reported(const ptx::type& t, ptx::space where);
  void report(std::uint64_t bytes, ptx::space where);
  void atomic(bool returns);
  void atomic_element(const std::string& what, const std::string& type,
                      const ptx::type& t, ptx::space where, const op* result,
                      const op& address, const op& value, const op* other,
                      std::int64_t offset);
  void to_generic();
  void copy_async();
  void isspacep();
  void map_to_block();
  void stack();

  // -- tensors (lower_matrix.cpp) ---------------------------------------------

  void gather_warp();
  void put_matrix(const op& x, unsigned slot, char width, std::size_t count);
  void get_matrix(const op& x, unsigned slot, char width, std::size_t count);
  void matrix();
  void matrix_multiply();
  void matrix_memory();
  void matrix_rows();

  // -- mbarrier and bulk copies (lower_async.cpp) -----------------------------

  int generic_address(const op& x, ptx::space where);
  void memory_barrier();
  void copy_arrives();
  void copy_bulk();
  void copy();

  // -- textures and surfaces (lower_texture.cpp) ------------------------------

  void put_slots(std::span<const op> from, unsigned slot, char width);
  void get_slots(std::span<const op> to, unsigned slot, char width);
  void put_coordinates(const op& x, geometry shape, char width);
  void texture_lookup();
  void surface_access();
  void texture_query();

  // -- calls (lower_calls.cpp) ------------------------------------------------

  void call();
  param_slot call_param(const op& x);

  module_lowering& module_;
  const ptx::function& fn_;
  code& out_;
  shared_layout& layout_;
  const ptx::instruction* now_ = nullptr;
  bool guarded_ = false;

  std::vector<value> values_;
  std::map<std::pair<char, std::uint64_t>, int> constants_;
  std::vector<pending> code_;
  /// Maps each label, by scope and name, to its index in label_at_.
  std::map<std::pair<std::uint32_t, std::string>, int> labels_;
  std::vector<std::uint32_t> label_at_;
  std::vector<bool> label_used_;

  int label(const std::string& name);
  std::vector<param_slot> param_slots_; // one a variable of the function
  std::vector<std::uint32_t> local_offsets_;
};

} // namespace vgpu::device::cpu
