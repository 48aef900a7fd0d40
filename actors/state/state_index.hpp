// The index of a state's file as a Cap'n Proto document
// (schema/wire/state.capnp), and back. Only state_file.cpp uses it.
#pragma once

#include "actors/state/state_file.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vgpu {

/// Returns the fault for bytes that cannot be a state.
fault damaged_state(const std::string& what);

/// Returns the index as the words of a document.
std::vector<std::uint64_t> encode_index(const state_index& x);

/// Reads the index of a file whose contents end at `chunks_end`. It never
/// throws for the words it gets; a contradiction among them is a fault.
result<state_index> decode_index(std::span<const std::uint64_t> words,
                                 std::uint64_t chunks_end);

} // namespace vgpu
