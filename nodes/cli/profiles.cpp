#include "nodes/cli/profiles.hpp"

#include "schema/wire/specification.hpp"

#include <toml.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace vgpu {

namespace {

fault wrong(std::string what) {
  return {fault_kind::usage, std::move(what)};
}

std::string variable(const char* name) {
  const auto* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

/// Returns a value as a person would write it after `--FIELD`, or nothing for a
/// type that no field has.
std::string text_of(const toml::value& x) {
  if (x.is_string())
    return x.as_string().str;
  if (x.is_integer())
    return std::to_string(x.as_integer());
  if (!x.is_floating())
    return {};
  std::ostringstream out;
  out.precision(17);
  out << x.as_floating();
  return out.str();
}

/// Returns the first line of an exception's text.
std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

constexpr std::size_t largest_file = 1 << 20;
constexpr std::size_t longest_line = 4096;
constexpr int deepest = 64;

/// Checks that the parser, which calls itself for each value in a value, cannot
/// use up the stack, and does not take minutes. Brackets of texts and comments
/// count, too.
status check_size(const std::string& text) {
  if (text.size() > largest_file)
    return wrong("it is larger than 1 MiB");
  auto depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n')
      begin = i + 1;
    if (i - begin == longest_line)
      return wrong("a line is longer than 4096 bytes");
    if (text[i] == '[' || text[i] == '{')
      ++depth;
    else if (depth > 0 && (text[i] == ']' || text[i] == '}'))
      --depth;
    if (depth > deepest)
      return wrong("more than 64 brackets are open");
  }
  return {};
}

result<toml::value> parse(const std::string& file) {
  std::ifstream in{file, std::ios::binary};
  std::string text(in ? largest_file + 1 : 0, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (!in.eof() && text.size() <= largest_file)
    return wrong("cannot read the profiles file " + file +
                 "; create it, or set VGPU_PROFILES to another file");
  if (auto good = check_size(text); !good)
    return wrong(file + " is not a file of profiles: " + good.why().what);
  std::istringstream checked{text};
  try {
    return toml::parse(checked, file);
  } catch (const std::exception& e) {
    return wrong(file + " is not valid TOML: " + first_line(e.what()));
  }
}

std::string names_in(const toml::value& all) {
  std::vector<std::string> names;
  for (const auto& [name, value] : all.as_table())
    if (value.is_table())
      names.push_back(name);
  std::sort(names.begin(), names.end());
  std::string out;
  for (auto& x : names)
    out += (out.empty() ? "" : ", ") + x;
  return out.empty() ? "none" : out;
}

} // namespace

std::string profiles_file() {
  if (auto named = variable("VGPU_PROFILES"); !named.empty())
    return named;
  auto config = variable("XDG_CONFIG_HOME");
  if (config.empty())
    config = variable("HOME") + "/.config";
  auto own = config + "/vgpu/profiles.toml";
  std::string everybodys = "/etc/vgpu/profiles.toml";
  return !exists(own) && exists(everybodys) ? everybodys : own;
}

result<field_texts> read_profile(const std::string& file,
                                 const std::string& name) {
  auto all = parse(file);
  if (!all)
    return all.why();
  const auto& tables = all->as_table();
  auto found = tables.find(name);
  if (found == tables.end() || !found->second.is_table())
    return wrong(file + " has no profile '" + name + "'; it has " +
                 names_in(*all));
  field_texts out;
  control::specification checked;
  for (const auto& [field, value] : found->second.as_table()) {
    auto text = text_of(value);
    if (auto good = control::set_field(checked, field, text); !good)
      return wrong(file + ", profile " + name + ": " + good.why().what);
    out.emplace_back(field, std::move(text));
  }
  std::sort(out.begin(), out.end());
  return out;
}

} // namespace vgpu
