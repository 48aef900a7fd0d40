// The attributes that a stream keeps (cuStreamSetAttribute).
#pragma once

#include "interposer/stream/stream_event.hpp"

namespace vgpu::interposer {

/// Reads an attribute of the stream into `out`. Returns
/// CUDA_ERROR_INVALID_VALUE for one that streams do not have.
CUresult get_attribute(stream& x, CUstreamAttrID which, CUstreamAttrValue& out);

/// Sets an attribute for the stream's later work. A window goes to the device,
/// where it lies in the device's memory. Returns CUDA_ERROR_INVALID_VALUE for
/// an attribute that streams do not have, and for a value out of its range.
CUresult set_attribute(stream& x, CUstreamAttrID which,
                       const CUstreamAttrValue& value);

/// Tells whether an attribute may have this value on a device. True for
/// attributes whose values have no range.
bool is_possible(std::uint8_t device, int which,
                 const CUlaunchAttributeValue& value);

/// Gives a stream all attributes of another one, except the priority.
void copy_attributes(stream& to, stream& from);

} // namespace vgpu::interposer
