#include "interposer/graph_condition.hpp"

#include "interposer/copies.hpp"
#include "interposer/memory.hpp"
#include "interposer/process.hpp"
#include "interposer/session.hpp"

#include <map>
#include <mutex>

namespace vgpu::interposer {

namespace {

struct condition_table {
  std::mutex mutex;
  std::map<CUgraphConditionalHandle, std::weak_ptr<condition>> all;
};

condition_table& table() {
  static auto& x = *new condition_table;
  return x;
}

} // namespace

condition::condition(context& in, CUgraph of, settings what, allocation memory)
    : graph(of), default_value(what), owner_(in), memory_(memory) {}

CUresult condition::make(context& in, CUgraph of, settings what,
                         std::shared_ptr<condition>& out) {
  CUdeviceptr at = 0;
  if (auto code = allocate(in, sizeof(what.value), memory_kind::graph, 0, at);
      code != CUDA_SUCCESS)
    return code;
  auto memory = here().space(in.device_index()).find(at);
  out = std::make_shared<condition>(in, of, what, *memory);
  std::lock_guard guard{table().mutex};
  table().all.insert_or_assign(out->handle(), out);
  return CUDA_SUCCESS;
}

condition::~condition() {
  {
    std::lock_guard guard{table().mutex};
    // The context may have gone, and its memory be another's.
    auto known = table().all.find(handle());
    if (known != table().all.end() && known->second.expired())
      table().all.erase(known);
  }
  try {
    free_own(memory_, owner_.device_index());
  } catch (const std::exception&) {
    // The session is lost: there is nothing left to give back to.
  }
}

CUresult condition::begin_launch(stream& in) const {
  if (!default_value.assigned)
    return CUDA_SUCCESS;
  return fill_bytes(in, flat(word()), default_value.value,
                    sizeof(default_value.value), {1, 1, 1});
}

std::shared_ptr<condition> find_condition(CUgraphConditionalHandle handle) {
  std::lock_guard guard{table().mutex};
  auto known = table().all.find(handle);
  return known == table().all.end() ? nullptr : known->second.lock();
}

} // namespace vgpu::interposer
