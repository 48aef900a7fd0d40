# Functions that the scripts of this folder share: the command line, a private
# folder $work, and the programs of the bundle ($vgpu). Source it.
# shellcheck shell=bash
# shellcheck disable=SC2034 # the scripts take it
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

die() {
  echo "${0##*/}: $*" >&2
  exit 2
}

bad_usage() { # WHAT
  echo "${0##*/}: $1" >&2
  usage >&2
  exit 2
}

# Reads the command line. An option sets the variable of its name (`_` for `-`)
# to its value or to `true`. The other argument is the bundle.
read_options() { # "WITH-VALUE..." "WITHOUT..." ARGUMENT...
  local valued=" $1 " plain=" $2 " name
  shift 2
  bundle=
  while (($#)); do
    name=${1#--}
    case $1 in
      -h | --help) usage; exit 0 ;;
      --*) ;;
      -*) bad_usage "no such option: $1" ;;
      *) bundle=$1; shift; continue ;;
    esac
    if [[ $plain == *" $name "* ]]; then
      printf -v "${name//-/_}" true
    elif [[ $valued != *" $name "* ]]; then
      bad_usage "no such option: $1"
    else
      (($# > 1)) || bad_usage "$1 needs a value"
      printf -v "${name//-/_}" %s "$2"
      shift
    fi
    shift
  done
  [[ -n $bundle ]] || bad_usage "no bundle is named"
}

work=
clusters=() # the folders of those that run
# shellcheck disable=SC2317 # called by the trap
clean_up() {
  local cluster
  for cluster in "${clusters[@]}"; do
    "$vgpu" down --run-dir "$cluster" </dev/null >/dev/null 2>&1 || true
  done
  [[ -z $work ]] || rm -rf -- "$work"
}

open_bundle() {
  trap clean_up EXIT
  work=$(mktemp -d "${TMPDIR:-/tmp}/vgpu-gpu.XXXXXX")
  if [[ -d $bundle ]]; then
    vgpu=$(cd "$bundle" && pwd)/bin/vgpu
  else
    tar -xf "$bundle" -C "$work" || die "cannot unpack $bundle"
    vgpu=$work/vgpu/bin/vgpu
  fi
  [[ -x $vgpu ]] || die "no bin/vgpu in $bundle"
}

# Makes what scripts of tests/e2e take for a build: $build.
make_build() {
  build=$work/build
  mkdir -p "$build/tests"
  ln -s "$(dirname "$vgpu")" "$build/bin"
  ln -s "$(dirname "$(dirname "$vgpu")")/lib" "$build/lib"
  ln -s "$here/examples" "$build/examples"
  ln -s "$here/cuda" "$build/tests/cuda"
  ln -s "$here/e2e" "$build/tests/e2e"
  ln -s "$here" "$build/tests/gpu"
}
