#include "interposer/graph/captured_work.hpp"

#include "interposer/graph/capture.hpp"

namespace vgpu::interposer {

CUresult capture_launch(stream& in, const launch_request& what) {
  kernel_work made;
  if (auto code = describe(what, in.owner, made); code != CUDA_SUCCESS)
    return code;
  return capture_work(in, std::move(made));
}

CUresult capture_transfer(stream& in, const transfer& what) {
  if (is_empty(what.size))
    return CUDA_SUCCESS;
  if (auto code = check_transfer(in, what); code != CUDA_SUCCESS)
    return code;
  return what.async ? capture_work(in, copy_work{what}) : refuse_in_capture(in);
}

CUresult capture_fill(stream& in, const rows& to, std::uint32_t value,
                      std::uint32_t element_bytes, const call::extent& size) {
  if (auto code = check_fill(in, to, element_bytes, size);
      code != CUDA_SUCCESS || is_empty(size))
    return code;
  return capture_work(in, fill_work{{to.address, to.pitch, value, element_bytes,
                                     size.width, size.height}});
}

CUresult capture_operations(stream& in, value_operations what) {
  auto code = check_operations(in.owner, what, true);
  return code == CUDA_SUCCESS
             ? capture_work(in, operations_work{{what.begin(), what.end()}})
             : code;
}

} // namespace vgpu::interposer
