#include "devices/nvidia/streams/words.hpp"

#include "schema/base/cuda_fault.hpp"
#include "schema/base/own_addresses.hpp"

#include <sys/mman.h>

namespace vgpu::device::nvidia {

result<word_ref> shared_words::take() {
  std::lock_guard guard{free_->mutex};
  if (free_->all.empty()) {
    constexpr std::size_t bytes = 64 << 10;
    auto* at = ::mmap(own_address(bytes), bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED)
      return cuda_fault(
          CUDA_ERROR_OUT_OF_MEMORY,
          "cannot allocate the memory of the streams' completion words");
    if (auto code = api_->cuMemHostRegister(at, bytes, 0);
        code != CUDA_SUCCESS) {
      ::munmap(at, bytes);
      return api_->failed(
          code, "cannot pin the memory of the streams' completion words");
    }
    auto* words = static_cast<shared_word*>(at);
    for (std::size_t i = 0; i < bytes / sizeof(shared_word); ++i)
      free_->all.push_back(words + i);
  }
  auto* out = free_->all.back();
  free_->all.pop_back();
  return word_ref{out, [to = free_](shared_word* x) {
                    std::lock_guard back{to->mutex};
                    to->all.push_back(x);
                  }};
}

} // namespace vgpu::device::nvidia
