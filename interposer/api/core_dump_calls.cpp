// Entry points that say what shall happen when a kernel faults.
#include "interposer/api/entry.hpp"

#include "interposer/context/context_part.hpp"

using namespace vgpu::interposer;

CUresult CUDAAPI cuCoredumpGetAttribute(CUcoredumpSettings attrib, void* value,
                                        size_t* size) {
  return in_context(
      [&](context& x) { return x.core_dump.get(attrib, value, size); });
}

CUresult CUDAAPI cuCoredumpSetAttribute(CUcoredumpSettings attrib, void* value,
                                        size_t* size) {
  return in_context([&](context& x) {
    return x.core_dump.set_in_context(attrib, value, size);
  });
}

CUresult CUDAAPI cuCoredumpGetAttributeGlobal(CUcoredumpSettings attrib,
                                              void* value, size_t* size) {
  return guarded(
      [&] { return context_part::get().core_dump.get(attrib, value, size); });
}

CUresult CUDAAPI cuCoredumpSetAttributeGlobal(CUcoredumpSettings attrib,
                                              void* value, size_t* size) {
  return guarded(
      [&] { return context_part::get().core_dump.set(attrib, value, size); });
}
