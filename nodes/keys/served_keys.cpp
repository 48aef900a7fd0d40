#include "nodes/keys/served_keys.hpp"

#include "actors/manager/manager.hpp"

#include <utility>

namespace vgpu {

result<std::unique_ptr<served_keys>>
served_keys::open(zmq::context_t& zmq, const key_folder& where,
                  const std::string& listen) {
  using pointer = std::unique_ptr<served_keys>;
  if (!listen.starts_with("tcp://"))
    return pointer{};
  auto keys = read_manager_keys(where);
  if (!keys)
    return keys.why();
  if (!*keys)
    return pointer{};
  return pointer{new served_keys{zmq, where, **keys}};
}

served_keys::served_keys(zmq::context_t& zmq, key_folder where,
                         const manager_keys& keys)
    : where_(std::move(where)), own_(keys.own), watch_(where_, keys),
      guard_(zmq, watch_.permitted()) {}

std::shared_ptr<const link_keys> served_keys::link() const {
  return std::make_shared<const link_keys>(
      link_keys{own_, {}, watch_.permitted()});
}

std::function<status(const principal&, const control::enroll&)>
served_keys::enroller() {
  return [this](const principal& who, const control::enroll& x) {
    auto done = change_manager_keys(where_, [&](manager_keys& keys) {
      return enroll(keys, who, x.key, x.name, wall_time());
    });
    // The newcomer connects with its key as soon as it has the answer.
    if (done)
      watch_.look_now();
    return done;
  };
}

} // namespace vgpu
