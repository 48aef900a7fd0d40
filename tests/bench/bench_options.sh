# Functions that the measurements' scripts share: the command line, tools, and
# columns. Source it.
# shellcheck shell=bash
die() {
  echo "${0##*/}: $*" >&2
  exit 1
}

bad_usage() {
  usage >&2
  exit 2
}

# Reads the command line: each option sets the variable of its name. Arguments
# after `--` become the array `rest`.
rest=()
read_options() { # "WITH-VALUE..." "WITHOUT..." ARGUMENT...
  local valued=" $1 " plain=" $2 " name
  shift 2
  while (($#)); do
    name=${1#--}
    case $1 in
      -h | --help) usage; exit 0 ;;
      --) shift; rest=("$@"); return ;;
      --*) ;;
      *) bad_usage ;;
    esac
    if [[ $plain == *" $name "* ]]; then
      printf -v "$name" 1
      shift
    elif [[ $valued == *" $name "* ]] && (($# > 1)); then
      printf -v "$name" %s "$2"
      shift 2
    else
      bad_usage
    fi
  done
}

is_count() { [[ $1 =~ ^[1-9][0-9]*$ ]]; }
is_number() { [[ $1 =~ ^[0-9]+(\.[0-9]+)?$ ]]; }

need() { # PROGRAM...
  local program
  command -v jq >/dev/null || die "jq is missing; tests/setup.sh installs it"
  for program in "$@"; do
    [[ -x $program ]] || die "no $program; build the default preset and its" \
      "target cuda_library_programs first"
  done
}

# Functions for jq that align a text to the right or to the left in n columns.
# shellcheck disable=SC2034 # the caller's programs begin with it
columns='
  def pad(n): tostring | . + " " * ([n - length, 0] | max);
  def left(n): tostring | " " * ([n - length, 0] | max) + .;'
