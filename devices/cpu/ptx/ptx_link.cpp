#include "devices/cpu/ptx/ptx_link.hpp"

#include "devices/cpu/ptx/ptx_lexer.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace vgpu::device::cpu::ptx {

namespace {

using names = std::unordered_map<std::string, std::string>;

void rename(std::string& x, const names& to) {
  if (auto found = to.find(x); found != to.end())
    x = found->second;
}

void rename(operand& x, const names& to) {
  if (x.is == operand::kind::symbol)
    rename(x.name, to);
  for (auto& e : x.elements)
    rename(e, to);
}

void rename(module& in, const names& to) {
  for (auto& v : in.variables) {
    rename(v.name, to);
    for (auto& r : v.relocations)
      rename(r.symbol, to);
  }
  for (auto& f : in.functions) {
    rename(f.name, to);
    for (auto& i : f.body)
      for (auto& x : i.operands)
        rename(x, to);
  }
}

/// Counts the parts in which each name occurs.
std::unordered_map<std::string, std::size_t>
count_names(const std::vector<module>& parts) {
  auto out = std::unordered_map<std::string, std::size_t>{};
  for (auto& part : parts) {
    auto own = std::unordered_set<std::string>{};
    for (auto& v : part.variables)
      own.insert(v.name);
    for (auto& f : part.functions)
      own.insert(f.name);
    for (auto& name : own)
      ++out[name];
  }
  return out;
}

/// Renames a part's local symbols where another part uses the same name.
void set_apart(module& part, std::size_t number,
               const std::unordered_map<std::string, std::size_t>& count) {
  auto to = names{};
  auto consider = [&](const std::string& name, linkage seen) {
    if (seen == linkage::local && count.at(name) > 1)
      to[name] = name + "$" + std::to_string(number);
  };
  for (auto& v : part.variables)
    consider(v.name, v.seen);
  for (auto& f : part.functions)
    if (f.defined)
      consider(f.name, f.seen);
  if (!to.empty())
    rename(part, to);
}

[[noreturn]] void defined_twice(const std::string& name) {
  throw link_error{0, "Multiple definition of '" + name + "'"};
}

class linker {
public:
  void add(module part) {
    out_.version = std::max(out_.version, part.version);
    out_.target = std::max(out_.target, part.target);
    for (auto& v : part.variables)
      add(std::move(v));
    for (auto& f : part.functions)
      add(std::move(f));
  }

  module take() { return std::move(out_); }

private:
  void add(variable x) {
    auto [at, fresh] = variables_.try_emplace(x.name, out_.variables.size());
    if (fresh) {
      out_.variables.push_back(std::move(x));
      return;
    }
    auto& old = out_.variables[at->second];
    if (x.seen == linkage::external)
      return;
    if (old.seen == linkage::external ||
        (old.seen == linkage::weak && x.seen != linkage::weak))
      old = std::move(x);
    else if (x.seen != linkage::weak)
      defined_twice(x.name);
  }

  void add(function x) {
    auto [at, fresh] = functions_.try_emplace(x.name, out_.functions.size());
    if (fresh) {
      out_.functions.push_back(std::move(x));
      return;
    }
    auto& old = out_.functions[at->second];
    if (!x.defined)
      return;
    if (!old.defined || (old.seen == linkage::weak && x.seen != linkage::weak))
      old = std::move(x);
    else if (x.seen != linkage::weak)
      defined_twice(x.name);
  }

  module out_;
  std::unordered_map<std::string, std::size_t> variables_, functions_;
};

} // namespace

module link(std::vector<module> parts) {
  auto count = count_names(parts);
  auto all = linker{};
  auto number = std::size_t{0};
  for (auto& part : parts) {
    set_apart(part, number++, count);
    all.add(std::move(part));
  }
  return all.take();
}

} // namespace vgpu::device::cpu::ptx
