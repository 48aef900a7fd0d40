#include "interposer/code/module_facts.hpp"

#include "schema/base/cuda_fault.hpp"
#include "schema/wire/data.capnp.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/debug.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace vgpu::interposer {

namespace {

/// Ends each parameter block. It exceeds the largest that a kernel can have, so
/// that the sum of an offset and a size cannot wrap around.
constexpr std::uint32_t largest_block = std::uint32_t{1} << 20;

fault malformed(const std::string& why) {
  return cuda_fault(CUDA_ERROR_UNKNOWN,
                    "a module's facts are malformed: " + why);
}

/// Throws kj::Exception where a parameter lies outside of any block.
std::unique_ptr<function> read_function(wire::KernelFacts::Reader from,
                                        std::uint32_t index) {
  auto out = std::make_unique<function>();
  out->index = index;
  out->name = from.getName().cStr();
  for (auto p : from.getParameters()) {
    KJ_REQUIRE(p.getOffset() <= largest_block &&
                   p.getSize() <= largest_block - p.getOffset(),
               "a parameter lies outside of its block");
    out->parameters.push_back({p.getOffset(), p.getSize()});
    out->parameter_bytes =
        std::max(out->parameter_bytes, p.getOffset() + p.getSize());
  }
  for (auto a : from.getAttributes())
    if (a.getKey() >= 0 && a.getKey() < function::attribute_limit)
      out->attributes[static_cast<std::size_t>(a.getKey())] = a.getValue();
  return out;
}

} // namespace

result<std::string> read_module_facts(std::span<const std::byte> message,
                                      module& into) {
  try {
    auto words = kj::heapArray<capnp::word>(message.size() / 8);
    if (words.size() != 0)
      std::memcpy(words.begin(), message.data(), words.size() * 8);
    // Lists whose elements take no space could have any length.
    capnp::ReaderOptions limits;
    limits.traversalLimitInWords = 4 * words.size() + 64;
    limits.nestingLimit = 8;
    capnp::FlatArrayMessageReader reader{words, limits};
    auto facts = reader.getRoot<wire::ModuleFacts>();
    std::uint32_t index = 0;
    for (auto k : facts.getKernels())
      into.functions.push_back(read_function(k, index++));
    for (auto g : facts.getGlobals())
      into.globals.emplace(g.getName().cStr(),
                           global_variable{g.getName().cStr(), g.getAddress(),
                                           g.getBytes(), g.getManaged()});
    auto read = static_cast<std::size_t>(reader.getEnd() - words.begin()) * 8;
    auto rest = message.subspan(std::min(read, message.size()));
    return std::string{reinterpret_cast<const char*>(rest.data()), rest.size()};
  } catch (const kj::Exception& e) {
    return malformed(e.getDescription().cStr());
  }
}

} // namespace vgpu::interposer
