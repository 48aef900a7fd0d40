#include "interposer/stream/stream_part.hpp"

#include "interposer/context/context_part.hpp"
#include "interposer/stream/stream_set.hpp"

namespace vgpu::interposer {

stream_part::stream_part(context_part& contexts) {
  contexts.make_streams = [](context& of) -> std::unique_ptr<context_streams> {
    return std::make_unique<stream_set>(of);
  };
}

} // namespace vgpu::interposer
