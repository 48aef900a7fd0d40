#!/usr/bin/env bash
# Usual GPU monitors show vGPUs.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'EOT'
usage: monitors.sh BUILD CASE

  smi        nvidia-smi: its table, its queries, and wrong questions
  group      what a monitor sees of the programs beside it, taking nothing
  forwarded  the same, where their calls are forwarded
EOT
}

begin_case 2 "$@"

# Checks that our nvidia-smi is first on the PATH under `vgpu run`, before
# another one.
foreign_smi() {
  mkdir "$work/tmp/foreign"
  printf '#!/bin/sh\necho another one\nexit 1\n' >"$work/tmp/foreign/nvidia-smi"
  chmod +x "$work/tmp/foreign/nvidia-smi"
  PATH=$work/tmp/foreign:$PATH
}

smi() { # STATUS ARGUMENT...
  local want=$1
  shift
  expect "$want" "$vgpu" run --memory 512MiB -- nvidia-smi "$@"
}

# Checks that the whole output is this text.
printed() { # TEXT
  [[ $(<"$work/out/stdout") == "$1" ]] ||
    fail "printed: $(<"$work/out/stdout"), not: $1"
}

shows() { # REGEX
  grep -qE -- "$1" "$work/out/stdout" ||
    fail "stdout does not show '$1': $(<"$work/out/stdout")"
}

check_wrong_questions() {
  smi 2 --frobnicate
  told '--frobnicate'
  smi 2 --query-gpu=name,shoe_size --format=csv
  told '"shoe_size" is not a valid field'
  smi 2 --query-gpu=name,,index --format=csv
  told '"" is not a valid field'
  smi 2 --query-gpu= --format=csv
  smi 2 --query-gpu=name
  told '--format=csv'
  smi 2 --query-gpu=name --format=xml
  told "'xml' is none of csv"
  smi 2 --query-gpu=name --format=noheader
  told 'csv is the only one'
  smi 2 --format=csv
  told 'is for --query-gpu'
  smi 2 -L --query-gpu=name --format=csv
  told 'one thing at a time'
  smi 2 --loop 0
  smi 6 -i 7
  told "there is no vGPU '7'"
  smi 2 -i ''
}

case_smi() {
  foreign_smi
  cluster_up --nodes 1 --gpus-per-node 2
  smi 0 --help
  shows "is vgpu's. It shows the vGPUs of this session"
  shows 'nvidia-smi --query-gpu=memory.free'
  smi 0
  shows 'Driver Version: [0-9.]+ +CUDA Version: 13.0'
  shows '\| +0 +vGPU CPU device .* 0MiB / +512MiB'
  shows 'No running processes found'
  awk 'length($0) > 79 { exit 1 }' "$work/out/stdout" ||
    fail "the table is wider than a terminal"
  smi 0 --query-gpu=index,name,memory.total,memory.used,memory.free \
    --format=csv
  printed "index, name, memory.total [MiB], memory.used [MiB], memory.free [MiB]
0, vGPU CPU device, 512 MiB, 0 MiB, 512 MiB"
  smi 0 --query-gpu=memory.total --format=csv,noheader,nounits
  printed 512
  smi 0 --query-gpu=count,temperature.gpu,compute_cap,power.draw \
    --format=csv,noheader
  printed '1, [N/A], 9.0, [N/A]'
  smi 0 --query-compute-apps=pid,process_name,used_memory --format=csv
  printed 'pid, process_name, used_gpu_memory [MiB]'
  smi 0 -L
  local uuid
  uuid=$(sed -nE \
    's/^GPU 0: vGPU CPU device \(UUID: (GPU-[0-9a-f-]{36})\)$/\1/p' \
    "$work/out/stdout")
  [[ -n $uuid ]] || fail "-L prints: $(<"$work/out/stdout")"
  smi 0 --query-gpu=uuid --format=csv,noheader
  printed "$uuid"
  expect 0 "$vgpu" run --gpus 2 -- nvidia-smi -i 1 --query-gpu=index,count \
    --format=csv,noheader
  printed '1, 1'
  expect 0 "$vgpu" run --gpus 2 -- nvidia-smi --query-gpu=index --format=csv
  printed $'index\n0\n1'
  # Without `vgpu run` it finds the libraries next to it, and shows the programs
  # without a group.
  expect 0 "$build/lib/smi/nvidia-smi" -L
  shows '^GPU 0: vGPU CPU device'
  LD_LIBRARY_PATH=$build/lib "$build/tests/e2e/load" kernel 8 20000 \
    </dev/null >"$work/out/alone" 2>&1 &
  local one=$!
  until_true test -s "$work/out/alone" || fail "a program does nothing"
  expect 0 "$build/lib/smi/nvidia-smi" --query-compute-apps=pid,used_memory \
    --format=csv,noheader
  printed "$one, 4 MiB"
  # On another GPU: a monitor sees both, and a program that counts devices sees
  # those that it would get.
  LD_LIBRARY_PATH=$build/lib "$build/tests/e2e/load" kernel 8 20000 \
    </dev/null >"$work/out/other" 2>&1 &
  until_true test -s "$work/out/other" || fail "another does nothing"
  expect 0 "$build/lib/smi/nvidia-smi" --query-gpu=count,memory.used \
    --format=csv,noheader
  printed $'2, 4 MiB\n2, 4 MiB'
  expect 0 env VGPU_WATCH=0 VGPU_MEMORY=256MiB "$build/lib/smi/nvidia-smi" \
    --query-gpu=count,memory.total,memory.used --format=csv,noheader
  printed '1, 256 MiB, 0 MiB'
  kill "$one" "$!"
  check_wrong_questions
  rm -r "$work/tmp/foreign"
}

# Prints a field of nvidia-smi, for a program of this or of another group.
field() { # NAME
  expect 0 "$vgpu" run --group 77 --memory 512MiB -- nvidia-smi \
    --query-gpu="$1" --format=csv,noheader,nounits
  cat "$work/out/stdout"
}

field_is() { # NAME VALUE
  [[ $(field "$1") == "$2" ]]
}

is_busy() { (($(field utilization.gpu) > 50)); }

# Starts a program of the group that works until it is told to rest.
start_load() { # NAME
  "$vgpu" run --group 77 --memory 512MiB -- "$build/tests/e2e/load" kernel 8 \
    20000 </dev/null >"$work/out/$1" 2>&1 &
  until_true test -s "$work/out/$1" || fail "$1 does nothing"
}

load_pids() {
  status '.vgpus[].sessions[] | select(.program == "load") | .pid' | sort -n
}

apps() {
  expect 0 "$vgpu" run --group 77 -- nvidia-smi \
    --query-compute-apps=pid,name,used_memory --format=csv,noheader
  sort -n "$work/out/stdout"
}

opened() { "$vgpu" events --json | grep -c '"session-opened"'; }

case_group() {
  local pid
  cluster_up --nodes 1 --memory 1GiB
  start_load one
  until_true is_busy || fail "a busy device is $(field utilization.gpu) % busy"
  field_is memory.total 512 || fail "of 512 MiB it tells $(field memory.total)"
  # Two blocks, of which the smaller one also takes a granule
  field_is memory.used 4 || fail "of 4 MiB it tells $(field memory.used)"
  [[ $(apps) == "$(load_pids), $build/tests/e2e/load, 4 MiB" ]] ||
    fail "of one process it tells: $(apps)"
  start_load two
  field_is count 1 || fail "one device counts as $(field count)"
  field_is memory.total,memory.used "1024, 8" ||
    fail "two have $(field memory.total,memory.used)"
  [[ $(apps | cut -d, -f1) == "$(load_pids)" ]] ||
    fail "of two processes it tells: $(apps)"
  # Another group must not see these programs, and there is no room for a vGPU.
  expect 9 "$vgpu" run --group 88 --memory 512MiB -- nvidia-smi
  told 'no vGPU is to be had'
  (($(opened) == 2)) || fail "expected 2 vGPUs, saw $(opened): who looked took one"
  for pid in $(load_pids); do kill -USR1 "$pid"; done
  until_true field_is utilization.gpu 0 ||
    fail "expected an idle device, saw $(field utilization.gpu) % busy"
  for pid in $(load_pids); do kill "$pid"; done
  until_true status_is '.vgpus == []'
  # No program has a vGPU, so nvidia-smi shows the one that it would get.
  field_is memory.total,memory.used "512, 0" ||
    fail "afterwards it tells $(field memory.total,memory.used)"
}

case_forwarded() {
  export VGPU_TRANSPORT=forwarded
  case_group
}

run_case "$@"
