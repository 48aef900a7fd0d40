#include "policies/placement/constraints.hpp"

namespace vgpu::policy {

demand demand_of(const control::specification& x, const std::string& host) {
  demand out;
  out.share = x.share;
  out.limit = x.limit;
  out.memory = x.memory;
  out.gpus = x.gpus;
  out.host = host;
  out.node = x.node;
  out.pgpu = x.pgpu;
  out.backend = x.backend;
  out.capability = x.capability;
  out.where = x.where == control::locality::any ? demand::locality::any
              : x.where == control::locality::local_only
                  ? demand::locality::local_only
                  : demand::locality::local_first;
  out.beside_somebody = static_cast<bool>(x.beside);
  return out;
}

} // namespace vgpu::policy
