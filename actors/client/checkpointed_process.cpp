#include "actors/client/checkpointed_process.hpp"

namespace vgpu {

void checkpointed_process::begin(const data::checkpointed& stopped,
                                 std::chrono::nanoseconds stood) {
  bytes_ = stopped.bytes;
  position_ = stopped.position;
  ordered_ = {};
  std::chrono::duration<double, std::milli> milliseconds = stood;
  reports_.tell(control::paused{lease_.session(), lease_.epoch(), "", bytes_,
                                milliseconds.count(), true});
}

void checkpointed_process::end() {
  std::chrono::duration<double, std::milli> took = clock::now() - ordered_;
  reports_.tell(control::restored{lease_.session(), lease_.epoch(), bytes_,
                                  took.count()});
}

} // namespace vgpu
