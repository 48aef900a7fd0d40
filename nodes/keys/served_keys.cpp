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
    : where_(std::move(where)), watch_(where_, keys),
      guard_(zmq, watch_.permitted()) {}

std::shared_ptr<const link_keys>
served_keys::link_of(const key_pair& own) const {
  return std::make_shared<const link_keys>(
      link_keys{own, {}, watch_.permitted()});
}

std::shared_ptr<const link_keys> served_keys::link() {
  auto keys = watch_.now();
  auto both = keys.former && keys.rotates(wall_time());
  return link_of(both ? *keys.former : keys.own);
}

void served_keys::drive(link_actor link, manager_actor brain) {
  watch_.tell([this, link = std::move(link),
               brain = std::move(brain)](const manager_keys& keys) {
    if (keys.rotation == 0)
      return;
    caf::anon_send(link, link_rekey{link_of(keys.own)});
    if (keys.rotates(wall_time()))
      caf::anon_send(brain, keys_rotated{});
    else
      caf::anon_send(link, link_rekey{nullptr});
  });
}

/// Changes the file. The peer connects with its key as soon as it has the
/// answer.
status served_keys::change(const std::function<status(manager_keys&)>& how) {
  auto done = change_manager_keys(where_, how);
  if (done)
    watch_.look_now();
  return done;
}

std::function<status(const principal&, const control::enroll&)>
served_keys::enroller() {
  return [this](const principal& who, const control::enroll& x) {
    return change([&](manager_keys& keys) {
      return enroll(keys, who, x.key, x.name, wall_time());
    });
  };
}

std::function<std::optional<control::rotate_key>(const principal&)>
served_keys::rotation() {
  return [this](const principal& who) {
    auto keys = watch_.now();
    return keys.rotates(wall_time()) ? rotation_for(keys, who) : std::nullopt;
  };
}

std::function<status(const principal&, const control::renew_key&)>
served_keys::renewer() {
  return [this](const principal& who, const control::renew_key& x) {
    return change(
        [&](manager_keys& keys) { return renew(keys, who, x, wall_time()); });
  };
}

} // namespace vgpu
