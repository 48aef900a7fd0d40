// What the structs of calls.hpp are made of: how a call is answered, what it
// leaves behind, and the fields by whose types it is audited.
#pragma once

#include "schema/base/ids.hpp"

#include <cstdint>

namespace vgpu::call {

/// How the program is answered (design: five ways; `local` and `refused`
/// calls do not come here).
enum class answer : std::uint8_t {
  none, // async and create: no slot
  sync, // carries a slot that gets the result
};

/// What a call leaves behind when everything before it is done: what a state
/// (state.capnp) has to keep of it. Every call must decide.
enum class lasts : std::uint8_t {
  begins,   // makes an object: kept until that ends
  alters,   // sets something of an object: kept until that ends, or is set anew
  ends,     // ends an object, and what was kept of it
  retires,  // ends an object whose place decides where later ones lie: kept
  captured, // changes what a state holds by itself: memory, images, times
  passes,   // leaves nothing
  shared,   // is another session's too: no state of one can describe it
};

// -- field types: they say what the audit must find
// -----------------------------

/// A handle that this call makes: must not exist yet.
template <class Id>
struct fresh {
  Id id{};
};
/// A handle that must exist.
template <class Id>
struct live {
  Id id{};
};
/// A handle that must exist and does not afterwards.
template <class Id>
struct ended {
  Id id{};
};

/// Where rows begin: a device (or host-window) address, bytes from row to row
/// and from slice to slice.
struct box {
  device_address address = 0;
  std::uint64_t pitch = 0;
  std::uint64_t slice = 0;
};
/// Bytes a row, rows a slice, slices.
struct extent {
  std::uint64_t width = 0;
  std::uint64_t height = 1;
  std::uint64_t depth = 1;
};
/// Where in the reply arena (session_area.hpp) an answer's bytes go.
struct arena_range {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};
struct dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
};
/// XXH3 of an image's bytes, 128 bits.
struct digest {
  std::uint64_t low = 0, high = 0;
  friend bool operator==(const digest&, const digest&) = default;
  friend auto operator<=>(const digest&, const digest&) = default;
};

} // namespace vgpu::call
