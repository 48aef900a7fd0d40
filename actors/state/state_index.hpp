// The index of a state's file as a document (schema/wire/state.capnp), and
// back: for state_file.cpp.
#pragma once

#include "actors/state/state_file.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vgpu {

/// What cannot be a state.
fault damaged_state(const std::string& what);

std::vector<std::uint64_t> encode_index(const state_index& x);

/// Of a file whose contents end at `chunks_end`. Never throws for what is in
/// the words: whatever contradicts itself is damaged.
result<state_index> decode_index(std::span<const std::uint64_t> words,
                                 std::uint64_t chunks_end);

} // namespace vgpu
