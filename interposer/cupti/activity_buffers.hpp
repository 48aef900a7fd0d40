// The buffers that a tool lends for records of activities.
#pragma once

#include "interposer/cupti/cupti_abi.hpp"

#include <cstddef>
#include <cstdint>

namespace vgpu::cupti {

/// Writes all activities that are done into the tool's buffers, and gives full
/// buffers back. The tool's functions run on the calling thread. Fails where
/// the tool has registered none.
code write_records();

/// Does the same, and gives the last buffer back too.
code flush_all();

/// Flushes where the period of cuptiActivityFlushPeriod is over, or many
/// activities wait.
void flush_where_due() noexcept;

/// Finds the record behind this one, or the first, in a buffer that this
/// library filled. Returns max_limit_reached where there is none.
code next_record(std::uint8_t* buffer, std::size_t valid, record_head*& x);

/// Sets the clock of all times in records, or none for the usual one.
void set_clock(read_clock clock);
/// Returns the time, by that clock.
std::uint64_t time_now() noexcept;

} // namespace vgpu::cupti
