// Entry points by which streams write words of memory and wait for them.
// Compiled twice: see flavour.hpp.
#include "interposer/api/flavour.hpp"

#include "interposer/graph/captured_work.hpp"

#include <cstring>

using namespace vgpu::interposer;

namespace {

template <class Value>
CUresult do_one(CUstream handle, CUstreamBatchMemOpType operation,
                CUdeviceptr address, Value value, unsigned flags) noexcept {
  return in_stream(handle, [&](stream& s) {
    CUstreamBatchMemOpParams one;
    std::memset(&one, 0, sizeof one);
    // Waits and writes have the same form.
    one.waitValue.operation = operation;
    one.waitValue.address = address;
    if constexpr (sizeof(Value) == 8)
      one.waitValue.value64 = value;
    else
      one.waitValue.value = value;
    one.waitValue.flags = flags;
    return operate_in_stream(s, {&one, 1});
  });
}

} // namespace

CUresult CUDAAPI cuStreamWaitValue32(CUstream stream, CUdeviceptr addr,
                                     cuuint32_t value, unsigned int flags) {
  return do_one(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, addr, value, flags);
}

CUresult CUDAAPI cuStreamWaitValue64(CUstream stream, CUdeviceptr addr,
                                     cuuint64_t value, unsigned int flags) {
  return do_one(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, addr, value, flags);
}

CUresult CUDAAPI cuStreamWriteValue32(CUstream stream, CUdeviceptr addr,
                                      cuuint32_t value, unsigned int flags) {
  return do_one(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, addr, value, flags);
}

CUresult CUDAAPI cuStreamWriteValue64(CUstream stream, CUdeviceptr addr,
                                      cuuint64_t value, unsigned int flags) {
  return do_one(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, addr, value, flags);
}

CUresult CUDAAPI cuStreamBatchMemOp(CUstream stream, unsigned int count,
                                    CUstreamBatchMemOpParams* paramArray,
                                    unsigned int flags) {
  return in_stream(stream, [&](vgpu::interposer::stream& s) {
    if (flags != 0 || count > most_operations ||
        (count != 0 && paramArray == nullptr))
      return CUDA_ERROR_INVALID_VALUE;
    return operate_in_stream(s, {paramArray, count});
  });
}
