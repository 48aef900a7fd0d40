#include "devices/cpu/run/module_store.hpp"

#include "devices/cpu/lower/lowering.hpp"
#include "devices/cpu/ptx/ptx_link.hpp"
#include "devices/cpu/ptx/ptx_parser.hpp"
#include "devices/cpu/run/jit_effects.hpp"
#include "devices/interface/fatbin.hpp"
#include "schema/base/cuda_fault.hpp"
#include "schema/base/memory_account.hpp"
#include "schema/base/round_up.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace vgpu::device::cpu {

/// Holds a module's text, the addresses of its variables, which lie in [begin,
/// end), and its program, which is right for these addresses only.
struct placed_code {
  ptx::module source;
  symbol_addresses addresses;
  device_address begin = 0, end = 0;
  std::shared_ptr<const program> code;
};

namespace {

// A driver of CUDA 13.0 accepts PTX up to 9.0. cuDNN 9 contains PTX 9.1, for
// GPUs that need newer drivers.
constexpr unsigned newest_ptx = 91;
constexpr int default_dynamic_shared = 49152;

bool has_memory(const ptx::variable& v) {
  return v.where == ptx::space::global || v.where == ptx::space::constant;
}

/// Gives each managed variable, or each unmanaged one, an address from `next`
/// on. Returns the end of the last one.
device_address place(placed_code& x, device_address next, bool managed) {
  for (auto& v : x.source.variables) {
    if (!has_memory(v) || x.addresses.contains(v.name))
      continue;
    auto same = [&](const ptx::variable& other) {
      return other.name == v.name && other.seen != ptx::linkage::external &&
             has_memory(other);
    };
    auto defined = std::find_if(x.source.variables.begin(),
                                x.source.variables.end(), same);
    if (defined == x.source.variables.end())
      throw ptx::syntax_error{0, "variable '" + v.name +
                                     "' is declared but not defined"};
    if (defined->managed != managed)
      continue;
    // The driver aligns every variable so that vectors can be copied.
    auto align = std::max<std::uint64_t>(defined->align, 16);
    next = (next + align - 1) / align * align;
    x.addresses[v.name] = next;
    next += std::max<std::uint64_t>(defined->bytes, 1);
  }
  return next;
}

/// Places all variables. Managed ones get pages of their own, because a page
/// belongs either to the program or to the device.
void place(placed_code& x, device_address next) {
  constexpr std::uint64_t page = 4096;
  x.end = place(x, next, false);
  auto first = round_up(x.end, page);
  if (auto last = place(x, first, true); last != first)
    x.end = round_up(last, page);
}

/// Gives declared variables the addresses that the program has for them. A
/// variable that a text defines has its own.
void place_given(placed_code& x, const jit_settings& how) {
  for (auto& given : how.symbols) {
    auto is_defined = [&](const ptx::variable& v) {
      return v.name == given.name && has_memory(v) &&
             v.seen != ptx::linkage::external;
    };
    if (std::none_of(x.source.variables.begin(), x.source.variables.end(),
                     is_defined))
      x.addresses[given.name] = given.address;
  }
}

/// Returns addresses for all variables of a part, which only make it complete.
symbol_addresses addresses_in_part(const ptx::module& part) {
  symbol_addresses out;
  for (auto& v : part.variables)
    if (has_memory(v))
      out[v.name] = 256;
  return out;
}

std::uint64_t bytes_of(const std::vector<global_info>& globals) {
  std::uint64_t out = 0;
  for (auto& x : globals)
    out += x.bytes;
  return out;
}

/// Writes the initial values into memory that is mapped and zero.
void initialise(const placed_code& x) {
  auto address_of = [&](const std::string& name) {
    auto found = x.addresses.find(name);
    auto out = found != x.addresses.end() ? found->second
                                          : function_address(x.source, name);
    if (out == 0)
      throw ptx::syntax_error{0, "unknown name '" + name +
                                     "' in an initial value"};
    return out;
  };
  for (auto& v : x.source.variables) {
    if (!has_memory(v) || v.seen == ptx::linkage::external)
      continue;
    auto to = reinterpret_cast<std::byte*>(x.addresses.at(v.name));
    auto size = std::min<std::uint64_t>(v.initial.size(), v.bytes);
    if (size != 0)
      std::memcpy(to, v.initial.data(), size);
    for (auto& r : v.relocations) {
      auto value = address_of(r.symbol) + static_cast<std::uint64_t>(r.addend);
      if (r.mask != 0)
        value =
            (value & r.mask) >> static_cast<unsigned>(std::countr_zero(r.mask));
      if (r.offset + r.bytes <= v.bytes)
        std::memcpy(to + r.offset, &value, r.bytes);
    }
  }
}

kernel_info describe(const program& of, const code& k,
                     const ptx::function& said, unsigned target,
                     const jit_settings& how) {
  auto out = kernel_info{};
  out.name = k.name;
  for (auto& p : k.kernel_parameters)
    out.parameters.push_back({p.offset, p.bytes});
  auto fixed = static_cast<int>(k.static_shared);
  auto& a = out.attributes;
  a[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] =
      static_cast<int>(block_threads(said, how));
  a[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES] = fixed;
  a[CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES] = static_cast<int>(of.constant_bytes);
  a[CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES] = static_cast<int>(k.local_bytes);
  a[CU_FUNC_ATTRIBUTE_NUM_REGS] =
      static_cast<int>(registers_of(said, k.max_live, how));
  a[CU_FUNC_ATTRIBUTE_PTX_VERSION] = static_cast<int>(of.target);
  a[CU_FUNC_ATTRIBUTE_BINARY_VERSION] = static_cast<int>(target);
  a[CU_FUNC_ATTRIBUTE_CACHE_MODE_CA] = 0;
  a[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] =
      std::max(0, default_dynamic_shared - fixed);
  a[CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT] = -1;
  a[CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET] = k.explicit_cluster ? 1 : 0;
  a[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] =
      static_cast<int>(k.cluster_blocks[0]);
  a[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT] =
      static_cast<int>(k.cluster_blocks[1]);
  a[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH] =
      static_cast<int>(k.cluster_blocks[2]);
  a[CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED] = 0;
  a[CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE] = 0;
  return out;
}

/// Calls `f` with each kernel, and with the function of the text that it is.
template <class F>
void each_kernel(const program& of, const ptx::module& from, const F& f) {
  // The functions have kept their order.
  for (std::size_t i = 0; i < of.functions.size(); ++i)
    if (of.functions[i].entry && of.functions[i].count != 0)
      f(of.functions[i], from.functions[i]);
}

fault bad_ptx(const std::string& what) {
  return cuda_fault(CUDA_ERROR_INVALID_PTX, error_log(what));
}

status check_versions(const ptx::module& x, unsigned capability) {
  if (x.version > newest_ptx)
    return cuda_fault(
        CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
        "error   : PTX ISA " + std::to_string(x.version / 10) + "." +
            std::to_string(x.version % 10) +
            " is newer than 9.1, which this device knows; compile "
            "with an older toolkit");
  if (x.target == 0 || x.target > capability)
    return bad_ptx("error   : target sm_" + std::to_string(x.target) +
                   " is not for compute capability " +
                   std::to_string(capability / 10) + "." +
                   std::to_string(capability % 10));
  return {};
}

/// A larger heap would not fit behind the modules in the window.
constexpr std::uint64_t largest_heap = large_heap_bytes;

bool wants_heap(const ptx::module& x) {
  return std::any_of(x.functions.begin(), x.functions.end(), [](auto& f) {
    return !f.defined && (f.name == "malloc" || f.name == "free");
  });
}

/// Parses the texts of one image, which are linked.
result<ptx::module> parse_all(std::span<const std::string> texts,
                              unsigned target) {
  auto parts = std::vector<ptx::module>{};
  for (auto& text : texts) {
    parts.push_back(ptx::parse(text));
    if (auto ok = check_versions(parts.back(), target); !ok)
      return ok.why();
  }
  return parts.size() == 1 ? std::move(parts.front())
                           : ptx::link(std::move(parts));
}

/// Calls `f`, which compiles, and returns its result, or its exception as a
/// fault.
template <class F>
auto compiling(const F& f) -> decltype(f()) {
  try {
    return f();
  } catch (const ptx::link_error& why) {
    return cuda_fault(CUDA_ERROR_INVALID_SOURCE, why.what());
  } catch (const ptx::not_supported& why) {
    return cuda_fault(CUDA_ERROR_NOT_SUPPORTED, error_log(why.what()));
  } catch (const ptx::syntax_error& why) {
    return bad_ptx(why.what());
  }
}

/// Gives the variables of a text their addresses, from `first` on.
placed_code arrange(ptx::module source, const jit_settings& how,
                    device_address first) {
  auto out = placed_code{};
  out.source = std::move(source);
  out.begin = round_up(first, 256);
  place_given(out, how);
  place(out, out.begin);
  return out;
}

} // namespace

/// Returns where the variables of a text may begin.
device_address
module_store::first_place(const ptx::module& source) const noexcept {
  if (heap_.placed() || home_ != 0 || !wants_heap(source))
    return next_;
  return round_up(next_, granule_bytes) + heap::default_bytes;
}

result<loaded_module> module_store::compile(std::span<const std::string> texts,
                                            const jit_settings& how,
                                            unsigned target) {
  if (auto ok = check_options(how); !ok)
    return ok.why();
  return compiling([&]() -> result<loaded_module> {
    auto source = parse_all(texts, target);
    if (!source)
      return source.why();
    auto first = first_place(*source);
    auto x = arrange(std::move(*source), how, first);
    x.code = std::make_shared<const program>(lower(x.source, x.addresses));
    if (auto ok = back(x.begin, x.end); !ok)
      return ok.why();
    initialise(x);
    return finish(std::move(x), how, target);
  });
}

/// Describes a module whose variables have their memory, and places the heap if
/// it is the first one that allocates there.
result<loaded_module>
module_store::finish(placed_code x, const jit_settings& how, unsigned target) {
  auto out = loaded_module{};
  out.begin = x.begin;
  out.end = x.end;
  out.code = std::move(x.code);
  // It may only declare malloc.
  if (wants_heap(x.source) && !heap_.placed() && out.code->uses_heap) {
    auto known = std::exchange(
        home_, home_ != 0 ? home_ : round_up(next_, granule_bytes));
    if (auto ok = place_heap(heap_limit_); !ok) {
      home_ = known;
      give_unused(out.begin, out.end, false);
      return ok.why();
    }
    out.globals.push_back(heap_variable());
  }
  each_kernel(*out.code, x.source, [&](auto& f, auto& said) {
    out.kernels.push_back({&f, describe(*out.code, f, said, target, how)});
  });
  for (auto& v : x.source.variables)
    if (has_memory(v) && v.seen != ptx::linkage::external)
      out.globals.push_back(
          {v.name, x.addresses.at(v.name), v.bytes, v.managed});
  return out;
}

// -- the heap
// -----------------------------------------------------------------

/// Returns the heap as a variable, because a snapshot saves it as one.
global_info module_store::heap_variable() const {
  return {std::string{device_heap_name}, heap_.base(), heap_.bytes(), false};
}

device_address module_store::heap_place(std::uint64_t bytes) const noexcept {
  return bytes == heap::default_bytes ? home_ : large_;
}

status module_store::place_heap(std::uint64_t bytes) {
  auto at = heap_place(bytes);
  auto ok = bytes <= largest_heap
                ? back(at, at + bytes)
                : status{cuda_fault(CUDA_ERROR_OUT_OF_MEMORY,
                                    "a heap of " + std::to_string(bytes) +
                                        " bytes is larger than any")};
  if (!ok) {
    give_unused(at, at + bytes, false);
    return ok;
  }
  for (auto g = at; g != at + bytes; g += granule_bytes)
    ++granules_[g];
  heap_.place(at, bytes);
  return {};
}

void module_store::give_heap() {
  auto begin = heap_.base(), end = begin + heap_.bytes();
  heap_.leave();
  for (auto g = begin; g != end; g += granule_bytes)
    --granules_[g];
  give_unused(begin, end, false);
}

result<std::optional<global_info>>
module_store::limit_heap(std::uint64_t bytes) {
  bytes = std::max(granule_bytes,
                   round_up(std::min(bytes, largest_heap + 1), granule_bytes));
  if (bytes == heap_limit_)
    return std::optional<global_info>{};
  if (!heap_.untouched())
    return cuda_fault(CUDA_ERROR_INVALID_VALUE,
                      "kernels have allocated in the heap, which can therefore "
                      "not get another size");
  auto before = std::exchange(heap_limit_, bytes);
  if (!heap_.placed())
    return std::optional<global_info>{};
  give_heap();
  if (auto ok = place_heap(bytes); !ok) {
    heap_limit_ = before;
    (void)place_heap(before); // its memory was only just given back
    return ok.why();
  }
  return std::optional{heap_variable()};
}

std::optional<global_info> module_store::reset_heap() {
  heap_limit_ = heap::default_bytes;
  if (!heap_.placed())
    return {};
  give_heap();
  return heap_variable();
}

status module_store::back(device_address begin, device_address end) {
  for (auto g = begin / granule_bytes; g * granule_bytes < end; ++g) {
    auto address = g * granule_bytes;
    if (begin == end || granules_.contains(address))
      continue;
    if (auto ok = take_(address); !ok)
      return ok;
    granules_[address] = 0;
  }
  return {};
}

void module_store::give_unused(device_address begin, device_address end,
                               bool was_used) {
  for (auto g = begin / granule_bytes; g * granule_bytes < end; ++g) {
    auto found = granules_.find(g * granule_bytes);
    // The granule in which the next module will begin stays.
    auto in_use =
        found != granules_.end() &&
        (found->second != 0 ||
         (found->first < next_ && found->first + granule_bytes > next_));
    if (found == granules_.end())
      break; // the memory ends before the module does
    if (in_use)
      continue;
    give_(found->first, was_used);
    granules_.erase(found);
  }
}

result<module_info> module_store::load(module_id id,
                                       std::span<const std::byte> image,
                                       const jit_settings& how) {
  if (!id || modules_.contains(id))
    return cuda_fault(CUDA_ERROR_INVALID_HANDLE,
                      "module " + std::to_string(id.value) + " exists already");
  auto target = target_of(how, capability_);
  if (!target)
    return target.why();
  auto texts = ptx_of(image, *target);
  if (!texts)
    return texts.why();
  auto x = loaded_module{};
  if (texts->empty()) {
    x.begin = x.end = next_;
    x.code = std::make_shared<const program>();
  } else {
    auto got = compile(*texts, how, *target);
    if (!got) {
      give_unused(next_, ~device_address{0}, false);
      return got.why();
    }
    x = std::move(*got);
  }
  if (x.begin != x.end)
    for (auto g = x.begin / granule_bytes; g * granule_bytes < x.end; ++g)
      ++granules_[g * granule_bytes];
  next_ = x.end;
  auto out = module_info{};
  for (auto& k : x.kernels)
    out.kernels.push_back(k.info);
  out.globals = x.globals;
  out.log = info_log(out.kernels, bytes_of(out.globals), *target, how);
  modules_.emplace(id, std::move(x));
  return out;
}

result<std::string> module_store::check(std::span<const std::byte> image,
                                        const jit_settings& how) const {
  if (auto ok = check_options(how); !ok)
    return ok.why();
  auto target = target_of(how, capability_);
  if (!target)
    return target.why();
  auto texts = ptx_of(image, *target);
  if (!texts)
    return texts.why();
  std::string out;
  try {
    for (auto& text : *texts) {
      auto part = ptx::parse(text);
      if (auto ok = check_versions(part, *target); !ok)
        return ok.why();
      auto made = lower(part, addresses_in_part(part), extent_of_text::part);
      std::vector<kernel_info> kernels;
      each_kernel(made, part, [&](auto& f, auto& said) {
        kernels.push_back(describe(made, f, said, *target, how));
      });
      out += info_log(kernels, 0, *target, how);
    }
  } catch (const ptx::not_supported& why) {
    return cuda_fault(CUDA_ERROR_NOT_SUPPORTED, error_log(why.what()));
  } catch (const ptx::syntax_error& why) {
    return bad_ptx(why.what());
  }
  return out;
}

status module_store::unload(module_id id) {
  auto found = modules_.find(id);
  if (found == modules_.end())
    return cuda_fault(CUDA_ERROR_INVALID_HANDLE,
                      "module " + std::to_string(id.value) + " does not exist");
  auto begin = found->second.begin;
  auto end = found->second.end;
  modules_.erase(found);
  if (begin == end)
    return {};
  for (auto g = begin / granule_bytes; g * granule_bytes < end; ++g)
    --granules_[g * granule_bytes];
  give_unused(begin, end, true);
  return {};
}

side_memory module_store::beside() const {
  std::uint64_t code = 0;
  for (const auto& [id, x] : modules_)
    code += x.code->instrs.size() * sizeof(instr);
  return {granules_.size() * granule_bytes, code, 0};
}

loaded_module* module_store::find(module_id id) {
  auto found = modules_.find(id);
  return found == modules_.end() ? nullptr : &found->second;
}

loaded_kernel* module_store::find(module_id id, std::uint32_t kernel) {
  auto m = find(id);
  return m != nullptr && kernel < m->kernels.size() ? &m->kernels[kernel]
                                                    : nullptr;
}

} // namespace vgpu::device::cpu
