#include "nodes/support/described_command.hpp"

#include <sstream>

namespace vgpu {

namespace {

/// Returns the choice that a type names, as in `TEXT:{cpu,nvidia}`.
std::vector<std::string> choices_of(const std::string& type) {
  auto begin = type.find('{');
  auto end = type.find('}', begin);
  std::vector<std::string> out;
  if (begin == std::string::npos || end == std::string::npos)
    return out;
  std::istringstream in{type.substr(begin + 1, end - begin - 1)};
  for (std::string one; std::getline(in, one, ',');)
    out.push_back(one);
  return out;
}

std::string joined(const std::vector<std::string>& words, const char* by) {
  std::string out;
  for (auto& x : words)
    out += (out.empty() ? "" : by) + x;
  return out;
}

described_word describe(const CLI::Option& x) {
  described_word out;
  out.description = x.get_description();
  for (auto& name : x.get_snames())
    out.words.push_back("-" + name);
  for (auto& name : x.get_lnames())
    out.words.push_back("--" + name);
  out.name = x.get_positional() ? x.get_name(true) : joined(out.words, ", ");
  if (x.get_items_expected_max() == 0)
    return out;
  auto type = x.get_type_name();
  out.choices = choices_of(type);
  out.value = out.choices.empty() ? type.substr(0, type.find(':'))
                                  : joined(out.choices, "|");
  return out;
}

bool is_shown(const std::string& group) {
  return !group.empty();
}

void describe(const CLI::App& of, const std::string& path,
              std::vector<described_command>& into) {
  described_command out{path, of.get_description(), of.get_footer()};
  auto below = of.get_subcommands(
      [](const CLI::App* x) { return is_shown(x->get_group()); });
  for (const auto* x : below)
    out.subcommands.push_back(
        {x->get_name(), x->get_description(), {}, {x->get_name()}, {}});
  for (const auto* x : of.get_options(
           [](const CLI::Option* y) { return is_shown(y->get_group()); }))
    (x->get_positional() ? out.positionals : out.options)
        .push_back(describe(*x));
  into.push_back(std::move(out));
  for (const auto* x : below)
    describe(*x, path + " " + x->get_name(), into);
}

} // namespace

std::vector<described_command> describe_commands(const CLI::App& of,
                                                 const std::string& program) {
  std::vector<described_command> out;
  describe(of, program, out);
  return out;
}

} // namespace vgpu
