#!/usr/bin/env bash
# Programs of other projects, which load the driver by themselves and pass it
# PTX of other compilers. On a vGPU, mapped and forwarded, they must compute
# what they compute without one.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'EOT'
usage: judges.sh BUILD CASE

  openmp    GCC's offloading: OpenMP and OpenACC in C, OpenMP in Fortran
  ffmpeg    its filters for CUDA
  hashcat   finds what some hashes are of
  halide    pipelines that it compiles at run time
EOT
}

begin_case 2 "$@"
judges=$(cd "$(dirname "${BASH_SOURCE[0]}")/../judges" && pwd)
# The programs cache compiled code in the home folder.
export HOME=$work/out

needs() { # PACKAGE...
  local package
  for package; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == \
      installed ]] || skip "there is no $package"
  done
}

# Writes a command's output on a vGPU, mapped and forwarded, to
# $work/out/NAME.WAY.
on_vgpus() { # NAME COMMAND...
  local name=$1 way
  shift
  for way in mapped forwarded; do
    VGPU_TRANSPORT=$way timeout -k 5 "$life" "$vgpu" run --gpus 2 -- "$@" </dev/null \
      >"$work/out/$name.$way" 2>"$work/out/$name.$way.stderr" ||
      fail "$name, $way: $? $(tail -n 3 "$work/out/$name.$way.stderr")"
    # After an error libgomp prints a message and continues on the host.
    [[ ! -s $work/out/$name.$way.stderr ]] ||
      fail "$name, $way: $(<"$work/out/$name.$way.stderr")"
  done
}

same_as() { # NAME EXPECTED-FILE
  local way
  [[ -s $2 ]] || fail "$1: nothing to compare with"
  for way in mapped forwarded; do
    diff "$2" "$work/out/$1.$way" >&2 || fail "$1, $way: other results"
  done
}

compile_offload() { # SOURCE
  local name=${1##*/} compiler=gcc-12 language=-fopenmp
  case $name in
    *.f90) compiler=gfortran-12 ;;
    accelerator.c) language=-fopenacc ;;
  esac
  # A new toolkit's ptxas does not know the GPUs that this GCC names.
  "$compiler" -O2 "$language" -foffload=nvptx-none \
    -foffload-options=nvptx-none='-lm -latomic -Wa,--no-verify' "$1" \
    -o "$work/out/${name%.*}" >"$work/out/compiler.$name" 2>&1 ||
    fail "$name does not compile"
}

case_openmp() {
  needs gcc-12-offload-nvptx gfortran-12
  local source name
  for source in "$judges"/openmp/*; do
    compile_offload "$source"
  done
  cluster_up --nodes 1 --gpus-per-node 2
  # Without a device the programs must fail, and not continue on the host.
  export OMP_TARGET_OFFLOAD=MANDATORY ACC_DEVICE_TYPE=nvidia
  for source in "$judges"/openmp/*; do
    name=${source##*/} name=${name%.*}
    OMP_TARGET_OFFLOAD=DISABLED ACC_DEVICE_TYPE=host "$work/out/$name" \
      >"$work/out/$name.host" || fail "$name does not run on the host"
    on_vgpus "$name" "$work/out/$name"
    same_as "$name" "$work/out/$name.host"
    say "$name: $(wc -l <"$work/out/$name.host") lines"
  done
}

# Sets the command that sends six frames through a filter graph and prints their
# digests.
frames() { # GRAPH
  command=(ffmpeg -v error -nostdin -f lavfi -i testsrc2=size=320x240:rate=10
    -f lavfi -i testsrc=size=80x60:rate=10 -frames:v 6 -filter_complex "$1"
    -f framemd5 -)
}

case_ffmpeg() {
  needs ffmpeg
  ffmpeg -v error -filters 2>/dev/null | grep scale_cuda >/dev/null ||
    skip "this ffmpeg has no filters for CUDA"
  cluster_up --nodes 1 --gpus-per-node 2
  local name cuda plain command up=format=yuv420p,hwupload_cuda
  local down=hwdownload,format=yuv420p
  # These filters compute the same as their versions without CUDA. For the
  # others, the two transports are compared with each other.
  while read -r name cuda plain; do
    frames "$cuda"
    on_vgpus "$name" "${command[@]}"
    if [[ -n $plain ]]; then
      frames "$plain"
      "${command[@]}" >"$work/out/$name.host"
    else
      cp "$work/out/$name.mapped" "$work/out/$name.host"
    fi
    same_as "$name" "$work/out/$name.host"
    (($(grep -vc '^#' "$work/out/$name.host") == 6)) || fail "$name: no frames"
    say "$name: ${plain:+as without CUDA}"
  done <<EOT
copy [0]${up},$down [0]format=yuv420p
nearest [0]${up},scale_cuda=640:480:interp_algo=nearest,$down [0]format=yuv420p,scale=640:480:flags=neighbor
overlay [0]${up}[a];[1]${up}[b];[a][b]overlay_cuda=x=16:y=32,$down [0]format=yuv420p[a];[1]format=yuv420p[b];[a][b]overlay=x=16:y=32,format=yuv420p
bicubic [0]${up},scale_cuda=160:120:interp_algo=bicubic,$down
lanczos [0]${up},scale_cuda=400:300:interp_algo=lanczos,$down
yadif [0]${up},yadif_cuda,$down
chromakey [0]${up},chromakey_cuda=color=green:similarity=0.2,hwdownload,format=yuva420p
EOT
}

hash_of() { # COMMAND TEXT
  printf %s "$2" | "$1" | cut -d' ' -f1
}

case_hashcat() {
  needs hashcat
  local nvrtc mode command hash text
  nvrtc=$(find -L /usr/local/cuda/lib64 -name libnvrtc.so -print -quit \
    2>/dev/null) || true
  [[ -n $nvrtc ]] || skip "there is no libnvrtc.so"
  export LD_LIBRARY_PATH=${nvrtc%/*}
  cluster_up --nodes 1 --gpus-per-node 2
  while read -r mode command text; do
    hash=$(hash_of "$command" "$text")
    # A vGPU has no temperature, and hashcat says so.
    on_vgpus "$mode" hashcat --quiet --force --potfile-disable --hwmon-disable \
      -d 1 -m "$mode" -a 3 -n 8 -u 32 -T 64 --session "$mode" "$hash" '?l?l?l?d'
    echo "$hash:$text" >"$work/out/$mode.host"
    same_as "$mode" "$work/out/$mode.host"
    say "$command: $text"
  done <<EOT
0 md5sum abz7
100 sha1sum kea3
1400 sha256sum owl9
1700 sha512sum tui0
EOT
}

case_halide() {
  needs libhalide14-0-dev
  local library
  library=$(find /usr/lib -name 'libHalide14.so*' -print -quit)
  c++ -std=c++17 -O1 -isystem /usr/include/halide14 "$judges/halide.cpp" \
    -o "$work/out/halide" "$library" 2>"$work/out/compiler" ||
    fail "halide.cpp does not compile"
  cluster_up --nodes 1 --gpus-per-node 2
  on_vgpus halide "$work/out/halide"
  grep -q '^ok' "$work/out/halide.mapped" || fail "halide did not end"
  same_as halide "$work/out/halide.mapped"
}

run_case "$@"
