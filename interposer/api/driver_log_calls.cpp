// Entry points for the driver's log. They work before cuInit, and add their own
// failures to the log. As in driver 580, they ignore reserved flags.
#include "interposer/api/entry.hpp"

#include "interposer/api/driver_state.hpp"
#include "interposer/session/driver_log.hpp"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

using namespace vgpu::interposer;

namespace {

/// Runs the body of an entry point in any phase of the process.
template <class Body>
CUresult in_any_phase(const Body& body) noexcept {
  if (!make_driver_state())
    return CUDA_ERROR_OUT_OF_MEMORY;
  try {
    auto code = body();
    if (code != CUDA_SUCCESS)
      note_failed_call(__PRETTY_FUNCTION__, code);
    return code;
  } catch (const std::exception&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

CUresult wrong(std::string_view why) {
  the_driver_log().add(CU_LOG_LEVEL_ERROR, why);
  return CUDA_ERROR_INVALID_VALUE;
}

CUlogIterator begin_of(const CUlogIterator* iterator) noexcept {
  return iterator != nullptr ? *iterator : 0;
}

bool is_beyond(const CUlogIterator* iterator) {
  return begin_of(iterator) > the_driver_log().end();
}

} // namespace

CUresult CUDAAPI cuLogsRegisterCallback(CUlogsCallback callbackFunc,
                                        void* userData,
                                        CUlogsCallbackHandle* callback_out) {
  return in_any_phase([&] {
    if (callbackFunc == nullptr)
      return wrong("callbackFunc cannot be NULL");
    auto handle = the_driver_log().add_callback(callbackFunc, userData);
    if (callback_out != nullptr)
      *callback_out = handle;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuLogsUnregisterCallback(CUlogsCallbackHandle callback) {
  return in_any_phase([&] {
    return the_driver_log().remove_callback(callback)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult CUDAAPI cuLogsCurrent(CUlogIterator* iterator_out, unsigned int) {
  return in_any_phase([&] {
    if (iterator_out == nullptr)
      return wrong("Iterator cannot be NULL");
    *iterator_out = the_driver_log().end();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuLogsDumpToMemory(CUlogIterator* iterator, char* buffer,
                                    size_t* size, unsigned int) {
  return in_any_phase([&] {
    if (size == nullptr)
      return wrong("Memory buffer size must be given for log dump");
    auto room = std::exchange(*size, 0);
    if (buffer == nullptr)
      return wrong("buffer cannot be NULL");
    if (is_beyond(iterator))
      return wrong("CUlogIterator is beyond the end of the logs");
    auto got = room == 0 ? std::nullopt
                         : the_driver_log().read(begin_of(iterator), room - 1);
    if (!got)
      return wrong("Provided buffer is not large enough to write any logs to");
    // Without messages, the buffer does not change.
    if (!got->text.empty())
      std::memcpy(buffer, got->text.c_str(), got->text.size() + 1);
    *size = got->text.size();
    if (iterator != nullptr)
      *iterator = got->next;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuLogsDumpToFile(CUlogIterator* iterator,
                                  const char* pathToFile, unsigned int) {
  return in_any_phase([&] {
    if (pathToFile == nullptr)
      return wrong("pathToFile cannot be NULL");
    if (is_beyond(iterator))
      return wrong("CUlogIterator is beyond the end of the logs");
    auto got = the_driver_log().read(begin_of(iterator), SIZE_MAX);
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> file{
        std::fopen(pathToFile, "we"), &std::fclose};
    if (!file || !got)
      return wrong("Unable to open file at " + std::string{pathToFile} +
                   " for dumping logs");
    std::fwrite(got->text.data(), 1, got->text.size(), file.get());
    if (iterator != nullptr)
      *iterator = got->next;
    return CUDA_SUCCESS;
  });
}
