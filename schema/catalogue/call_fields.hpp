// The parts of the structs in calls.hpp: how a call is answered, what a state
// keeps of it, and the field types by which a worker audits it.
#pragma once

#include "schema/base/ids.hpp"

#include <cstdint>

namespace vgpu::call {

/// Says whether a call in the log is answered. Calls of the classes `local` and
/// `refused` are not in the log.
enum class answer : std::uint8_t {
  none, // a call of class async or create, without a slot
  sync, // a call with a slot for its result
};

/// Says what a state (state.capnp) has to keep of a call after it was executed.
/// Every call must specify this.
enum class lasts : std::uint8_t {
  begins,   // The call makes an object. It is kept until that object ends.
  alters,   // The call sets a property of an object. It is kept until that
            // object ends or a later call sets the property again.
  ends,     // The call ends an object. It and the object's calls are dropped.
  retires,  // The call ends an object whose place decides where later objects
            // lie. It is kept.
  captured, // The call changes memory, images or times, which a state contains.
  passes,   // The call leaves nothing to keep.
  shared,   // The call concerns another session too. No state of one session
            // can describe it.
};

// -- field types, which say what the audit checks -----------------------------

/// Names an object that this call makes. The handle must not exist yet.
template <class Id>
struct fresh {
  Id id{};
};
/// Names an object that must exist.
template <class Id>
struct live {
  Id id{};
};
/// Names an object that must exist, and that this call ends.
template <class Id>
struct ended {
  Id id{};
};

/// Says where rows begin: the address of the first one, in device memory or in
/// the host window, and the bytes from row to row and from slice to slice.
struct box {
  device_address address = 0;
  std::uint64_t pitch = 0;
  std::uint64_t slice = 0;
};
/// Holds the bytes per row, the rows per slice, and the number of slices.
struct extent {
  std::uint64_t width = 0;
  std::uint64_t height = 1;
  std::uint64_t depth = 1;
};
/// Names the range of the reply arena (session_area.hpp) for an answer's bytes.
struct arena_range {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};
struct dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
};
/// Holds the 128-bit XXH3 of an image's bytes.
struct digest {
  std::uint64_t low = 0, high = 0;
  friend bool operator==(const digest&, const digest&) = default;
  friend auto operator<=>(const digest&, const digest&) = default;
};

} // namespace vgpu::call
