#include "nodes/support/manual_pages.hpp"
#include "nodes/support/described_command.hpp"
#include "nodes/support/version.hpp"

#include <algorithm>
#include <cctype>
#include <iostream>
#include <sstream>
#include <utility>

namespace vgpu {

namespace {

/// Returns text in a form that roff prints as it is.
std::string roff(const std::string& text) {
  std::string out;
  for (auto x : text) {
    if ((x == '.' || x == '\'') && (out.empty() || out.back() == '\n'))
      out += "\\&";
    if (x == '\\')
      out += "\\e";
    else if (x == '-')
      out += "\\-";
    else
      out += x;
  }
  return out;
}

/// Returns several lines. One that ends a sentence or begins a list stays a
/// line.
std::string lines(const std::string& text) {
  std::istringstream in{text};
  std::string out;
  auto ends = false;
  for (std::string line; std::getline(in, line);) {
    out += (ends ? ".br\n" : "") + roff(line) + "\n";
    ends = line.ends_with('.') || line.ends_with(':') || line.ends_with(';');
  }
  return out;
}

/// Returns the first sentence as one line, without its end.
std::string first_sentence(const std::string& text) {
  auto end = text.size();
  for (const auto* by : {". ", ".\n", ":\n"})
    end = std::min(end, text.find(by));
  auto out = text.substr(0, end);
  std::ranges::replace(out, '\n', ' ');
  if (out.ends_with('.'))
    out.pop_back();
  return out;
}

/// Splits a footer into what it says and its examples.
std::pair<std::string, std::string> split_footer(const std::string& footer) {
  for (const auto* title : {"Examples:\n", "Example:\n", "Example: "})
    if (auto at = footer.find(title); at != std::string::npos)
      return {footer.substr(0, at),
              footer.substr(at + std::string{title}.size())};
  return {footer, {}};
}

std::string upper(std::string x) {
  std::ranges::transform(x, x.begin(), [](unsigned char c) {
    return static_cast<char>(std::toupper(c));
  });
  return x;
}

/// Writes one page.
class page_writer {
public:
  page_writer(const described_command& what, const std::string& program,
              int section)
      : what_(what), suffix_(" (" + std::to_string(section) + ")\n") {
    out_ << ".TH " << roff(upper(page_name())) << " " << section << " \"\" \""
         << roff(version_of(program)) << "\" \"Virtual GPUs\"\n";
  }

  manual_page write() {
    head();
    subcommands();
    options();
    foot();
    return {page_name(), out_.str()};
  }

private:
  std::string page_name() const {
    auto out = what_.path;
    std::ranges::replace(out, ' ', '-');
    return out;
  }

  void head() {
    out_ << ".SH NAME\n"
         << roff(page_name()) << " \\- "
         << roff(first_sentence(what_.description)) << "\n.SH SYNOPSIS\n.B "
         << roff(what_.path) << "\n[\\fIOPTION\\fR]...";
    if (!what_.subcommands.empty())
      out_ << " \\fICOMMAND\\fR";
    for (auto& x : what_.positionals)
      out_ << " \\fI" << roff(x.name) << "\\fR";
    out_ << "\n.SH DESCRIPTION\n" << lines(what_.description);
    if (auto said = split_footer(what_.footer).first; !said.empty())
      out_ << ".PP\n" << lines(said);
  }

  void subcommands() {
    if (what_.subcommands.empty())
      return;
    out_ << ".SH COMMANDS\n";
    for (auto& x : what_.subcommands)
      out_ << ".TP\n.B " << roff(x.name) << "\n" << lines(x.description);
  }

  void options() {
    out_ << ".SH OPTIONS\n";
    for (auto& x : what_.positionals)
      out_ << ".TP\n.I " << roff(x.name) << "\n" << lines(x.description);
    for (auto& x : what_.options) {
      out_ << ".TP\n\\fB" << roff(x.name) << "\\fR";
      if (!x.value.empty())
        out_ << " \\fI" << roff(x.value) << "\\fR";
      out_ << "\n" << lines(x.description);
    }
  }

  void foot() {
    if (auto examples = split_footer(what_.footer).second; !examples.empty())
      out_ << ".SH EXAMPLES\n.nf\n" << roff(examples) << "\n.fi\n";
    out_ << ".SH SEE ALSO\n";
    auto space = what_.path.find(' ');
    if (space != std::string::npos)
      out_ << ".BR " << roff(what_.path.substr(0, space)) << suffix_;
    for (auto& x : what_.subcommands)
      out_ << ".BR " << roff(page_name() + "-" + x.name) << suffix_;
    if (space == std::string::npos && what_.subcommands.empty())
      out_ << ".BR vgpu (1)\n";
  }

  const described_command& what_;
  std::string suffix_; // of other pages
  std::ostringstream out_;
};

} // namespace

std::vector<manual_page> manual_pages(const CLI::App& of,
                                      const std::string& program, int section) {
  std::vector<manual_page> out;
  for (auto& x : describe_commands(of, program))
    out.push_back(page_writer{x, program, section}.write());
  return out;
}

void add_manual_option(CLI::App& app, const std::string& program) {
  app.add_flag_callback(
         "--manual",
         [&app, program] {
           std::cout << manual_pages(app, program, 8).front().text;
           throw CLI::Success{};
         },
         "Print the manual page and exit")
      ->group("");
}

} // namespace vgpu
