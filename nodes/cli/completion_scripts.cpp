#include "nodes/cli/completion_scripts.hpp"

#include "nodes/support/described_command.hpp"

#include <sstream>

namespace vgpu::command {

namespace {

using commands = std::vector<described_command>;

/// Returns the words behind the command's own name, each after a space.
std::string below(const described_command& x) {
  auto space = x.path.find(' ');
  return space == std::string::npos ? std::string{} : x.path.substr(space);
}

/// Returns text as one word of a shell.
std::string shell_word(const std::string& text) {
  std::string out = "'";
  for (auto x : text)
    out += x == '\'' ? std::string{"'\\''"} : std::string(1, x);
  return out + "'";
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

std::string spaced(const std::vector<std::string>& words) {
  std::string out;
  for (auto& x : words)
    out += (out.empty() ? "" : " ") + x;
  return out;
}

/// Calls `f` with the words of each option that takes a value and come before
/// one, as ` run --device`.
template <class F>
void each_valued(const commands& all, F f) {
  for (auto& command : all)
    for (auto& option : command.options)
      for (auto& word : option.words)
        if (!option.value.empty())
          f(below(command) + " " + word, option);
}

/// Writes the part that finds the command among the words so far, which bash
/// and zsh share. Both have a loop around it.
void write_paths(std::ostream& out, const commands& all) {
  for (auto& x : all)
    if (!below(x).empty())
      out << "      " << shell_word(below(x)) << ") command+=\" $word\" ;;\n";
}

std::string bash(const commands& all, const std::string& name) {
  std::ostringstream out;
  out << "# Completes the words of " << name << " in bash.\n"
      << "_" << name << "() {\n"
      << "  local last=${COMP_WORDS[COMP_CWORD]}\n"
      << "  local before=${COMP_WORDS[COMP_CWORD - 1]} command= words= word\n"
      << "  COMPREPLY=()\n"
      << "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD - 1}\"; do\n"
      << "    [[ $word != -- ]] || return 0 # a program follows\n"
      << "    case \"$command $word\" in\n";
  write_paths(out, all);
  out << "    esac\n  done\n  case \"$command $before\" in\n";
  each_valued(all, [&](const std::string& path, auto& option) {
    out << "    " << shell_word(path) << ") "
        << (option.choices.empty()
                ? std::string{"return 0"}
                : "words=" + shell_word(spaced(option.choices)))
        << " ;;\n";
  });
  out << "  esac\n  [[ -n $words ]] || case $command in\n";
  for (auto& x : all) {
    std::vector<std::string> words;
    for (auto* list : {&x.subcommands, &x.options})
      for (auto& one : *list)
        words.insert(words.end(), one.words.begin(), one.words.end());
    out << "    " << shell_word(below(x))
        << ") words=" << shell_word(spaced(words)) << " ;;\n";
  }
  out << "  esac\n"
      << "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$last\")\n"
      << "}\n"
      << "complete -o default -F _" << name << " " << name << "\n";
  return out.str();
}

/// Returns a word and what it does, for zsh's _describe.
std::string zsh_word(const std::string& word, const std::string& does) {
  std::string out;
  for (auto x : word + "\n" + first_line(does))
    out += x == '\n'  ? std::string{":"}
           : x == ':' ? std::string{"\\:"}
                      : std::string(1, x);
  return shell_word(out);
}

std::string zsh(const commands& all, const std::string& name) {
  std::ostringstream out;
  out << "#compdef " << name << "\n"
      << "# Completes the words of " << name << " in zsh.\n"
      << "_" << name << "() {\n"
      << "  local before=${words[CURRENT - 1]} command= word\n"
      << "  local -a found\n"
      << "  for word in \"${(@)words[2,CURRENT - 1]}\"; do\n"
      << "    [[ $word != -- ]] || { _files; return } # a program follows\n"
      << "    case \"$command $word\" in\n";
  write_paths(out, all);
  out << "    esac\n  done\n  case \"$command $before\" in\n";
  each_valued(all, [&](const std::string& path, auto& option) {
    out << "    " << shell_word(path) << ") ";
    if (option.choices.empty())
      out << "_files; return ;;\n";
    else
      out << "found=(" << spaced(option.choices) << ") ;;\n";
  });
  out << "  esac\n  (( $#found )) || case $command in\n";
  for (auto& x : all) {
    out << "    " << shell_word(below(x)) << ") found=(\n";
    for (auto* list : {&x.subcommands, &x.options})
      for (auto& one : *list)
        for (auto& word : one.words)
          out << "      " << zsh_word(word, one.description) << "\n";
    out << "    ) ;;\n";
  }
  out << "  esac\n  _describe " << name << " found || _files\n}\n"
      << "_" << name << " \"$@\"\n";
  return out.str();
}

/// Returns the condition under which fish offers what belongs to a command.
std::string fish_condition(const described_command& x) {
  std::string out;
  std::istringstream path{below(x)};
  for (std::string word; path >> word;)
    out +=
        (out.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + word);
  if (!x.subcommands.empty()) {
    std::string words;
    for (auto& one : x.subcommands)
      words += " " + one.name;
    out += (out.empty() ? "" : "; and ") +
           ("not __fish_seen_subcommand_from" + words);
  }
  return out.empty() ? "true" : out;
}

std::string fish(const commands& all, const std::string& name) {
  std::ostringstream out;
  out << "# Completes the words of " << name << " in fish.\n";
  for (auto& x : all) {
    auto begin = "complete -c " + name + " -n " + shell_word(fish_condition(x));
    for (auto& one : x.subcommands)
      out << begin << " -f -a " << one.name << " -d "
          << shell_word(first_line(one.description)) << "\n";
    for (auto& one : x.options) {
      out << begin;
      for (auto& word : one.words)
        out << (word.starts_with("--") ? " -l " + word.substr(2)
                                       : " -s " + word.substr(1));
      if (!one.choices.empty())
        out << " -x -a " << shell_word(spaced(one.choices));
      else if (!one.value.empty())
        out << " -r";
      out << " -d " << shell_word(first_line(one.description)) << "\n";
    }
  }
  return out.str();
}

} // namespace

std::string completion_script(const CLI::App& of, shell in) {
  auto all = describe_commands(of, of.get_name());
  return in == shell::bash  ? bash(all, of.get_name())
         : in == shell::zsh ? zsh(all, of.get_name())
                            : fish(all, of.get_name());
}

} // namespace vgpu::command
