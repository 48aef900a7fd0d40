#include "interposer/graph/graph_memory.hpp"

#include "interposer/graph/graph_part.hpp"
#include "interposer/memory/memory.hpp"
#include "interposer/memory/sharing.hpp"
#include "interposer/session/address_space.hpp"
#include "interposer/session/on_occasion.hpp"
#include "interposer/session/process.hpp"
#include "interposer/session/session.hpp"
#include "schema/base/round_up.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <mutex>
#include <utility>

namespace vgpu::interposer {

namespace {

constexpr std::uint64_t large_block = std::uint64_t{1} << 20;
constexpr std::uint64_t block_step = 512;

graph_memory_list& memory_list() noexcept {
  return graph_part::get().memory;
}

/// Large memory has granules of its own, as that of cuMemAlloc.
std::uint64_t alignment_of(std::uint64_t bytes) {
  return bytes >= large_block ? granule_bytes : block_step;
}
std::uint64_t reserved_bytes(std::uint64_t bytes) {
  return round_up(bytes, alignment_of(bytes));
}

std::optional<device_address> take_addresses(std::uint8_t device,
                                             std::uint64_t bytes) {
  auto& space = here().space(device);
  auto wanted = reserved_bytes(bytes);
  auto alignment = alignment_of(bytes);
  if (auto at = space.reserve(wanted, alignment); at)
    return at;
  // Freed addresses may be settled by now.
  auto position = here().tail();
  auto code =
      on_occasion<occasion::room>([&] { return here().synchronise(device); });
  if (code != CUDA_SUCCESS)
    return std::nullopt;
  space.settle(position);
  return space.reserve(wanted, alignment);
}

bool is_high_mark(CUgraphMem_attribute which) {
  return which == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH ||
         which == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
}

} // namespace

// -- one allocation
// -----------------------------------------------------------------------------

graph_memory::graph_memory(device_address at, request asked)
    : address(at), what(std::move(asked)) {}

CUresult graph_memory::make(request what, std::shared_ptr<graph_memory>& out) {
  auto& space = here().space(what.device);
  // A driver accepts a request of up to twice its memory here, and refuses it
  // at the launch.
  if (what.bytes / 2 > space.quota())
    return CUDA_ERROR_OUT_OF_MEMORY;
  auto at = take_addresses(what.device, what.bytes);
  if (!at)
    return CUDA_ERROR_OUT_OF_MEMORY;
  auto made = std::make_shared<graph_memory>(*at, std::move(what));
  std::lock_guard guard{memory_list().mutex};
  memory_list().all.emplace(*at, made.get());
  out = std::move(made);
  return CUDA_SUCCESS;
}

graph_memory::~graph_memory() {
  {
    std::lock_guard guard{memory_list().mutex};
    memory_list().all.erase(address);
    try {
      on_occasion<occasion::first_use>([this] { give_back(); });
    } catch (const std::exception&) {
      // The session is lost, so the memory cannot be released.
    }
  }
  here()
      .space(what.device)
      .unreserve(address, reserved_bytes(what.bytes), here().tail());
}

CUDA_MEM_ALLOC_NODE_PARAMS graph_memory::params() const noexcept {
  CUDA_MEM_ALLOC_NODE_PARAMS out{};
  out.poolProps = what.pool;
  out.accessDescs = what.access.empty() ? nullptr : what.access.data();
  out.accessDescCount = what.access.size();
  out.bytesize = what.bytes;
  out.dptr = address;
  return out;
}

CUresult graph_memory::claim_free(CUgraph by) {
  std::lock_guard guard{memory_list().mutex};
  auto in_own = freed_in_.contains(what.owner);
  auto both = by == what.owner ? !freed_in_.empty() : in_own;
  if (both || !freed_in_.insert(by).second)
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult graph_memory::allocate() {
  std::lock_guard guard{memory_list().mutex};
  if (in_use_)
    return CUDA_ERROR_INVALID_VALUE;
  if (!back()) {
    memory_list().trim(what.device);
    if (!back())
      return CUDA_ERROR_OUT_OF_MEMORY;
  }
  begin_use();
  return CUDA_SUCCESS;
}

CUresult graph_memory::free() {
  // Its elements are destroyed after the lock is released.
  std::vector<std::shared_ptr<graph_memory>> gone;
  std::lock_guard guard{memory_list().mutex};
  if (!in_use_)
    return CUDA_ERROR_INVALID_VALUE;
  memory_list().end_use(*this, gone);
  return CUDA_SUCCESS;
}

void graph_memory::begin_use() {
  in_use_ = true;
  memory_list().usage_of.at(what.device).idle -= what.bytes;
  memory_list().in_use.emplace(address, shared_from_this());
  // The memory belongs to no context: see discard_graph_memory().
  here()
      .space(what.device)
      .adopt({.address = address,
              .bytes = what.bytes,
              .kind = memory_kind::graph});
}

void graph_memory::end_use() {
  in_use_ = false;
  memory_list().usage_of.at(what.device).idle += what.bytes;
  (void)here().space(what.device).take(address);
}

bool graph_memory::back() {
  if (backed_)
    return true;
  auto& space = here().space(what.device);
  auto promise = space.begin_promise();
  sharing().recount(what.device, what.bytes);
  if (!space.charge(address, what.bytes)) {
    make_room(what.device, what.bytes);
    if (!space.charge(address, what.bytes))
      return false;
  }
  here().send(call::mem_alloc{address, what.bytes}, what.device);
  backed_ = true;
  memory_list().usage_of.at(what.device).add(what.bytes);
  return true;
}

void graph_memory::give_back() {
  if (!std::exchange(backed_, false))
    return;
  auto& usage = memory_list().usage_of.at(what.device);
  usage.now -= what.bytes;
  usage.idle -= what.bytes;
  // The free is in the log before other memory takes the room. Work that still
  // uses this memory comes before later allocations at these addresses.
  here().send(call::mem_free{address, what.bytes}, what.device);
  here().space(what.device).refund(address, what.bytes);
}

// -- all of them
// -----------------------------------------------------------------------------

void graph_memory_list::end_use(
    graph_memory& x, std::vector<std::shared_ptr<graph_memory>>& keeps) {
  x.end_use();
  if (auto entry = in_use.extract(x.address); !entry.empty())
    keeps.push_back(std::move(entry.mapped()));
}

void graph_memory_list::trim(std::uint8_t device) {
  for (auto& [at, x] : all)
    if (x->what.device == device && !x->in_use_)
      x->give_back();
}

memory_account graph_memory_list::book_without_idle(std::uint8_t device) const {
  auto& space = here().space(device);
  make_room(device, space.quota());
  auto out = space.book();
  for (auto& [at, x] : all)
    if (x->what.device == device && x->backed_ && !x->in_use_)
      out.erase(x->address, x->what.bytes);
  return out;
}

void graph_memory_list::discard(
    std::uint64_t context, std::vector<std::shared_ptr<graph_memory>>& keeps) {
  for (auto& [at, x] : all) {
    if (x->what.context != context)
      continue;
    if (x->in_use_)
      end_use(*x, keeps);
    x->give_back();
  }
}

CUresult
graph_memory_list::check_uses(std::span<const memory_step> steps,
                              bool free_first,
                              std::vector<graph_memory*>& to_free) const {
  std::set<const graph_memory*> own;
  for (auto& step : steps) {
    if (!step.allocates)
      continue;
    own.insert(step.what.get());
    if (!step.what->in_use_)
      continue;
    if (!free_first)
      return CUDA_ERROR_INVALID_VALUE;
    to_free.push_back(step.what.get());
  }
  auto is_missing = [&](const memory_step& x) {
    return !x.allocates && !own.contains(x.what.get()) && !x.what->in_use_;
  };
  return std::any_of(steps.begin(), steps.end(), is_missing)
             ? CUDA_ERROR_INVALID_VALUE
             : CUDA_SUCCESS;
}

/// Tells whether the quota has room even if no step frees anything.
bool graph_memory_list::surely_fits(std::span<const memory_step> steps) const {
  std::map<std::uint8_t, std::uint64_t> wanted;
  for (auto& step : steps)
    if (step.allocates && !step.what->backed_)
      wanted[step.what->what.device] +=
          round_up(step.what->what.bytes, granule_bytes) + granule_bytes;
  return std::all_of(wanted.begin(), wanted.end(), [](auto& each) {
    auto& [device, bytes] = each;
    auto& space = here().space(device);
    sharing().recount(device, bytes);
    auto used = space.used(), quota = space.quota();
    return used <= quota && bytes <= quota - used;
  });
}

CUresult
graph_memory_list::check_room(std::span<const memory_step> steps,
                              std::span<graph_memory* const> to_free) const {
  if (surely_fits(steps))
    return CUDA_SUCCESS;
  std::map<std::uint8_t, memory_account> books;
  auto book_of = [&](std::uint8_t device) -> memory_account& {
    auto known = books.find(device);
    if (known == books.end())
      known = books.emplace(device, book_without_idle(device)).first;
    return known->second;
  };
  for (auto* x : to_free)
    book_of(x->what.device).erase(x->address, x->what.bytes);
  for (auto& step : steps) {
    auto at = step.what->address;
    auto& what = step.what->what;
    auto& book = book_of(what.device);
    if (!step.allocates) {
      book.erase(at, what.bytes);
      continue;
    }
    if (!book.has_room(book.cost(at, what.bytes),
                       here().space(what.device).quota()))
      return CUDA_ERROR_OUT_OF_MEMORY;
    book.insert(at, what.bytes);
  }
  return CUDA_SUCCESS;
}

std::shared_ptr<graph_memory> find_graph_memory(device_address at) {
  std::lock_guard guard{memory_list().mutex};
  auto found = memory_list().all.find(at);
  return found == memory_list().all.end()
             ? nullptr
             : found->second->weak_from_this().lock();
}

std::optional<allocation> planned_allocation(device_address at) {
  std::lock_guard guard{memory_list().mutex};
  auto next = memory_list().all.upper_bound(at);
  if (next == memory_list().all.begin())
    return std::nullopt;
  auto& x = *std::prev(next)->second;
  if (at - x.address >= x.what.bytes)
    return std::nullopt;
  return allocation{
      .address = x.address, .bytes = x.what.bytes, .kind = memory_kind::graph};
}

CUresult free_graph_memory(device_address at) {
  auto found = find_graph_memory(at);
  return found == nullptr ? CUDA_ERROR_INVALID_VALUE : found->free();
}

void discard_graph_memory(std::uint64_t context) {
  // Its elements are destroyed after the lock is released.
  std::vector<std::shared_ptr<graph_memory>> gone;
  std::lock_guard guard{memory_list().mutex};
  memory_list().discard(context, gone);
}

void trim_graph_memory(std::uint8_t device) {
  std::lock_guard guard{memory_list().mutex};
  memory_list().trim(device);
}

// -- launches
// -----------------------------------------------------------------------------

CUresult begin_launch(std::span<const memory_step> steps, bool free_first) {
  // Its elements are destroyed after the lock is released.
  std::vector<std::shared_ptr<graph_memory>> gone;
  std::vector<graph_memory*> to_free;
  auto& list = memory_list();
  std::lock_guard guard{list.mutex};
  if (auto code = list.check_uses(steps, free_first, to_free);
      code != CUDA_SUCCESS)
    return code;
  if (auto code = list.check_room(steps, to_free); code != CUDA_SUCCESS)
    return code;
  for (auto* x : to_free)
    list.end_use(*x, gone);
  return CUDA_SUCCESS;
}

void abandon_launch(std::span<const memory_step> steps) {
  for (auto& step : steps)
    if (step.allocates)
      // The launch may have ended before this step.
      (void)step.what->free();
}

CUresult upload_memory(std::span<const memory_step> steps) {
  auto& list = memory_list();
  std::lock_guard guard{list.mutex};
  std::vector<graph_memory*> in_use;
  for (auto& step : steps)
    if (step.allocates && list.in_use_now(*step.what))
      in_use.push_back(step.what.get());
  if (auto code = list.check_room(steps, in_use); code != CUDA_SUCCESS)
    return code;
  // Memory that does not fit now is allocated by the launch.
  for (auto& step : steps)
    if (step.allocates)
      (void)on_occasion<occasion::first_use>(
          [&] { return list.back(*step.what); });
  return CUDA_SUCCESS;
}

// -- attributes
// -----------------------------------------------------------------------------

CUresult graph_memory_attribute(std::uint8_t device, CUgraphMem_attribute which,
                                std::uint64_t& out) {
  std::lock_guard guard{memory_list().mutex};
  auto& x = memory_list().usage_of.at(device);
  switch (which) {
  case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
  case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
    out = x.now;
    return CUDA_SUCCESS;
  case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
    out = x.used_high;
    return CUDA_SUCCESS;
  case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
    out = x.reserved_high;
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult reset_graph_memory_attribute(std::uint8_t device,
                                      CUgraphMem_attribute which,
                                      std::uint64_t to) {
  if (!is_high_mark(which) || to != 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard guard{memory_list().mutex};
  auto& x = memory_list().usage_of.at(device);
  auto& mark =
      which == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH ? x.used_high : x.reserved_high;
  mark = x.now;
  return CUDA_SUCCESS;
}

} // namespace vgpu::interposer
