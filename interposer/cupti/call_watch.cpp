#include "interposer/cupti/call_watch.hpp"

#include "interposer/cupti/activity_buffers.hpp"
#include "interposer/cupti/callback_names.hpp"
#include "interposer/cupti/object_callbacks.hpp"
#include "interposer/cupti/tool.hpp"

#include <array>
#include <new>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <dlfcn.h>
#include <link.h>
#include <unwind.h>

namespace vgpu::cupti {

namespace {

using interposer::activity;

// -- who called ---------------------------------------------------------------

/// Returns whether the file needs the driver by name. A program that calls the
/// driver itself is linked with it; the runtime finds it while it runs.
bool is_linked_with_driver(const link_map& of) noexcept {
  const char* texts = nullptr;
  for (const auto* x = of.l_ld; x->d_tag != DT_NULL; ++x)
    if (x->d_tag == DT_STRTAB)
      texts = reinterpret_cast<const char*>(x->d_un.d_ptr);
  if (texts == nullptr)
    return false;
  for (const auto* x = of.l_ld; x->d_tag != DT_NULL; ++x)
    if (x->d_tag == DT_NEEDED &&
        std::string_view{texts + x->d_un.d_val}.starts_with("libcuda.so"))
      return true;
  return false;
}

/// Holds the files between the program and the driver: ours.
struct own_files {
  const void* driver = nullptr;
  const void* tool = nullptr;
};

const void* base_of(const void* address) noexcept {
  Dl_info x{};
  return ::dladdr(address, &x) != 0 ? x.dli_fbase : nullptr;
}

const own_files& ours() noexcept {
  static const own_files x{
      base_of(reinterpret_cast<const void*>(driver()->gather)),
      base_of(reinterpret_cast<const void*>(&is_linked_with_driver))};
  return x;
}

/// Says of an address of code what its file is. Nothing is known of our own.
caller caller_at(const void* address) noexcept {
  Dl_info info{};
  link_map* map = nullptr;
  if (::dladdr1(address, &info, reinterpret_cast<void**>(&map),
                RTLD_DL_LINKMAP) == 0 ||
      map == nullptr)
    return caller::program;
  if (info.dli_fbase == ours().driver || info.dli_fbase == ours().tool)
    return caller::unknown;
  if (std::string_view{info.dli_fname}.find("libcudart") !=
      std::string_view::npos)
    return caller::runtime;
  return is_linked_with_driver(*map) ? caller::program : caller::runtime;
}

caller known_caller_at(const void* address) {
  static auto& mutex = *new std::shared_mutex;
  static auto& known = *new std::unordered_map<const void*, caller>;
  {
    std::shared_lock guard{mutex};
    if (auto found = known.find(address); found != known.end())
      return found->second;
  }
  auto out = caller_at(address);
  std::unique_lock guard{mutex};
  known.emplace(address, out);
  return out;
}

_Unwind_Reason_Code look_at(_Unwind_Context* frame, void* out) {
  auto& to = *static_cast<caller*>(out);
  to = known_caller_at(reinterpret_cast<const void*>(_Unwind_GetIP(frame)));
  return to == caller::unknown ? _URC_NO_REASON : _URC_END_OF_STACK;
}

caller who_calls() noexcept {
  auto out = caller::unknown;
  try {
    _Unwind_Backtrace(&look_at, &out);
  } catch (const std::bad_alloc&) {
    return caller::program;
  }
  return out == caller::unknown ? caller::program : out;
}

// -- the tool's own numbers ---------------------------------------------------

using stacks = std::array<std::vector<std::uint64_t>, correlation_kinds>;

stacks& own_stacks() noexcept {
  thread_local stacks x;
  return x;
}

void join(const activity& x) {
  for (std::uint32_t of = 0; of < correlation_kinds; ++of) {
    const auto& stack = own_stacks()[of];
    if (stack.empty())
      continue;
    auto& to = here();
    std::lock_guard guard{to.mutex};
    if (to.kinds[static_cast<std::size_t>(kind::external_correlation)])
      to.joined.push_back({x.correlation, of, stack.back()});
  }
}

// -- callbacks ----------------------------------------------------------------

/// Holds the word that a subscriber keeps from a call's begin to its end.
thread_local std::uint64_t own_word = 0;

void call_back(const activity& x, site where) {
  auto number = driver_function(x.name);
  auto to = subscriber_of(domain::driver, number);
  if (!to)
    return;
  auto result = static_cast<CUresult>(x.result);
  callback_data data{};
  data.where = where;
  data.function = x.name;
  data.symbol = x.name;
  data.arguments = x.arguments;
  data.result = where == site::exit ? &result : nullptr;
  data.context = static_cast<CUcontext>(x.context_handle);
  data.context_id = x.context;
  data.own_word = &own_word;
  data.correlation = x.correlation;
  to->call(to->user, domain::driver, number, &data);
}

void begins(activity* x) {
  auto& to = here();
  try {
    if (to.wants_calls) {
      x->mark = static_cast<std::uint64_t>(who_calls());
      join(*x);
    }
    // A subscriber reads the arguments without looking whether there are any.
    if (to.wants_callbacks && x->arguments != nullptr) {
      call_back(*x, site::enter);
      tell_of_object(*x, site::enter);
    }
  } catch (const std::bad_alloc&) {
    // The call is then not told.
  }
}

void ends(const activity* x) {
  if (here().wants_callbacks && x->arguments != nullptr) {
    tell_of_object(*x, site::exit);
    call_back(*x, site::exit);
  }
  flush_where_due();
}

} // namespace

const interposer::cupti_listener& call_watch() noexcept {
  static const interposer::cupti_listener x{&begins, &ends};
  return x;
}

void push_external(std::uint32_t of, std::uint64_t id) {
  own_stacks()[of].push_back(id);
}

std::optional<std::uint64_t> pop_external(std::uint32_t of) {
  auto& stack = own_stacks()[of];
  if (stack.empty())
    return std::nullopt;
  auto out = stack.back();
  stack.pop_back();
  return out;
}

} // namespace vgpu::cupti
