#!/usr/bin/env bash
# The manual pages and the completions of `vgpu`, as man and shells use them.
set -euo pipefail

case "${1-}" in
  -h | --help)
    echo "usage: pages_test.sh VGPU

Checks the pages of \`vgpu manual\` with groff, and has bash, zsh and fish complete
words by the scripts of \`vgpu completion\`."
    exit 0
    ;;
esac
(($# == 1)) || { echo "usage: pages_test.sh VGPU" >&2; exit 2; }
vgpu=$1
PATH=$(dirname "$vgpu"):$PATH
work=$(mktemp -d "${TMPDIR:-/tmp}/vgpu-pages.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
for tool in groff zsh fish; do
  command -v "$tool" >/dev/null || fail "no $tool: tests/setup.sh installs it"
done

# Read a help, and print the commands, or the options that it tells of.
told_commands() { section Subcommands; }
told_options() { section Options; }
section() {
  sed -n "/^$1:/,/^\$/p" | grep -oE '^  [a-z-][a-zA-Z,-]*' | tr -d ' '
}

# -- pages

# Compares a page with the options in a program's help.
check_page() { # PAGE TITLE HELP...
  local page=$1 title=$2 text option said
  shift 2
  [[ -s $page ]] || fail "there is no page of $title"
  text=$(groff -man -Tutf8 -P-cbou -rLL=200n "$page")
  local options
  options=$("$@" | told_options | tr , '\n')
  [[ $options == *--help* ]] || fail "$title tells of no options"
  for option in $options; do
    grep -qF -- "$option" <<<"$text" ||
      fail "the page of $title does not tell of $option"
  done
  said=$(groff -man -Tutf8 -ww -z "$page" 2>&1)
  [[ -z $said ]] || fail "groff says of $title's page: $said"
}

mkdir "$work/man"
"$vgpu" manual --into "$work/man"
"$vgpu" manual | cmp - "$work/man/vgpu.1"
mapfile -t commands < <("$vgpu" --help | told_commands)
((${#commands[@]} > 20)) || fail "--help tells of ${#commands[@]} commands"
for command in "${commands[@]}"; do
  check_page "$work/man/vgpu-$command.1" "vgpu $command" \
    "$vgpu" "$command" --help
done
check_page "$work/man/vgpu-keys-init.1" "vgpu keys init" "$vgpu" keys init --help
for daemon in client manager node; do
  "vgpu-$daemon" --manual >"$work/man/vgpu-$daemon.8"
  check_page "$work/man/vgpu-$daemon.8" "vgpu-$daemon" "vgpu-$daemon" --help
done
grep -q 'python3 train.py' "$work/man/vgpu-run.1" ||
  fail "the page of vgpu run has no examples"
if "$vgpu" manual --into "$work/none" 2>"$work/err"; then
  fail "pages went into a folder that is not there"
fi
grep -q "$work/none" "$work/err" || fail "said: $(<"$work/err")"

# -- completions

# Prints what each shell offers for the last of these words, in order.
by_bash() { # WORD...
  bash -c 'source <(vgpu completion bash)
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _vgpu
    printf "%s\n" "${COMPREPLY[@]}"' - "$@" | sort
}
by_zsh() { # WORD...
  zsh -fc '
    _describe() { print -l -- ${found%%:*} }
    _files() { print files }
    words=("$@") CURRENT=$#
    source <(vgpu completion zsh)' - "$@" |
    { grep -E -- "^${*: -1}" || true; } | sort
}
by_fish() { # WORD...
  vgpu completion fish >"$work/vgpu.fish"
  fish --no-config -c "source $work/vgpu.fish
    complete -C '$*'" | cut -f 1 | sort
}
offers() { # WANTED WORD...
  local wanted=$1 shell
  shift
  for shell in bash zsh fish; do
    local found
    found=$("by_$shell" "$@" | tr '\n' ' ')
    [[ $found == "$wanted " ]] ||
      fail "$shell offers '$found' for '$*', expected '$wanted'"
  done
}

offers 'suspend' vgpu susp
offers 'kill-manager kill-node kill-worker' vgpu kill-
offers '--protect --protect-cost' vgpu run --prot
offers 'auto cpu nvidia' vgpu run --device ''
offers 'rotate' vgpu keys ro
offered=$(by_bash vgpu run -- --prot)
[[ -z $offered ]] || fail "bash offers '$offered' to a program"
offered=$(by_bash vgpu up --run-dir '')
[[ -z $offered ]] || fail "bash offers '$offered' where a folder is wanted"
if "$vgpu" completion tcsh 2>"$work/err"; then
  fail "there is a script for tcsh"
fi
grep -q 'bash' "$work/err" || fail "said: $(<"$work/err")"
echo "${#commands[@]} commands: pages and completions are right"
