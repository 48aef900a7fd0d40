#include "actors/manager/sessions/session_lookup.hpp"

#include "actors/manager/cluster/key_rights.hpp"

namespace vgpu {

session_record* owned_session(cluster_state& state, outbox& out,
                              const std::string& peer,
                              const control::envelope& from, session_id id) {
  auto* found = state.find(id);
  if (found == nullptr || !may_reach(from, found->tenant)) {
    out.refuse(peer, from,
               {fault_kind::missing,
                "session " + std::to_string(id.value) + " is not known"});
    return nullptr;
  }
  if (found->client_peer != peer) {
    out.refuse(
        peer, from,
        {fault_kind::refused, "session " + std::to_string(id.value) +
                                  " is not this connection's: adopt it first"});
    return nullptr;
  }
  return found;
}

session_record* session_of_vgpu(cluster_state& state, outbox& out,
                                const std::string& peer,
                                const control::envelope& from, vgpu_id id) {
  for (auto& [number, x] : state.sessions)
    if (x.vgpu == id && may_reach(from, x.tenant))
      return &x;
  out.refuse(
      peer, from,
      {fault_kind::missing, "no vGPU " + std::to_string(id.value) +
                                " has a session; `vgpu status` lists them"});
  return nullptr;
}

} // namespace vgpu
