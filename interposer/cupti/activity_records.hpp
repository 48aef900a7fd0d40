// Activities as CUPTI's records.
#pragma once

#include "interposer/cupti/activity.hpp"
#include "interposer/cupti/cupti_abi.hpp"
#include "interposer/cupti/tool_clock.hpp"

namespace vgpu::cupti {

/// Makes records, with times of the tool's clock. `latencies` says that kernels
/// also tell when they were queued and submitted.
kernel_record kernel_of(const interposer::activity& x, const tool_clock& clock,
                        kind as, bool latencies) noexcept;
copy_record copy_of(const interposer::activity& x,
                    const tool_clock& clock) noexcept;
peer_copy_record peer_copy_of(const interposer::activity& x,
                              const tool_clock& clock) noexcept;
fill_record fill_of(const interposer::activity& x,
                    const tool_clock& clock) noexcept;
wait_record wait_of(const interposer::activity& x,
                    const tool_clock& clock) noexcept;
/// `function` is the number of the driver's or the runtime's function.
call_record call_of(const interposer::activity& x, const tool_clock& clock,
                    kind as, std::uint32_t function) noexcept;

} // namespace vgpu::cupti
