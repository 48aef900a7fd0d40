#!/usr/bin/env bash
# Wrong input from outside gets a clear error, and harms no other program.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'EOT'
usage: bad_input.sh BUILD CASE

  words      wrong options, programs and numbers
  fields     each field of a specification out of its range, however given
  endpoints  malformed and silent ones
  places     folders and files in which nothing can be made
  images     truncated and damaged GPU code
  noise      random bytes to every socket while a program runs, over tcp
  noise_ipc  the same over ipc, and with a mapped log
EOT
}

begin_case 2 "$@"

# Checks that an error message has only a few lines. Starts no process, as this
# is done a thousand times.
brief() {
  local text ends crash='what\(\)|terminate called|Assertion|core dumped'
  text=$(<"$work/out/stderr")
  ends=${text//[!$'\n']/}
  ((${#ends} < 6)) || fail "that is a long message: $text"
  [[ ! $text =~ $crash ]] || fail "it crashed: $text"
}

refused_briefly() { # REGEX
  told "$1"
  brief
}

try_words() { # OPTION...
  expect 127 "$vgpu" run "$@" -- /no/such/program
  refused_briefly "/no/such/program.*no such file"
  expect 127 "$vgpu" run "$@" -- no-such-program
  refused_briefly "no-such-program.*PATH"
  : >"$work/out/plain"
  expect 126 "$vgpu" run "$@" -- "$work/out/plain"
  refused_briefly "not executable"
  expect 126 "$vgpu" run "$@" -- "$work/out"
  refused_briefly "director|not executable"
  printf 'no program at all' >"$work/out/garbage"
  chmod +x "$work/out/garbage"
  expect 126 "$vgpu" run "$@" -- "$work/out/garbage"
  refused_briefly "garbage.*format"

  local number
  for number in 0 2 -0.5 1.0001 nan inf; do
    expect 2 "$vgpu" run "$@" "--share=$number" -- "$guest" exit 0
    refused_briefly "share.*(more than 0|at most 1)"
  done
  for number in much '' 1,5; do
    expect 2 "$vgpu" run "$@" "--share=$number" -- "$guest" exit 0
    refused_briefly "share"
  done
  expect 1 "$vgpu" run "$@" --memory 900TiB -- "$guest" exit 0
  refused_briefly "cannot give .*[MT]iB"
  for number in 0 -1 5XB x 1e999 99999999999T; do
    expect 2 "$vgpu" run "$@" "--memory=$number" -- "$guest" exit 0
    refused_briefly "memory.*$number"
  done
  for number in 0 -1 100000 two; do
    expect 2 "$vgpu" run "$@" "--gpus=$number" -- "$guest" exit 0
    refused_briefly "gpus"
  done
  expect 2 "$vgpu" run "$@" --protect always -- "$guest" exit 0
  refused_briefly "protect.*(none|journal)"
  expect 2 "$vgpu" run "$@"
  refused_briefly "PROGRAM"
  expect 2 "$vgpu" run "$@" --no-such-option -- "$guest" exit 0
  expect 2 env VGPU_JOURNAL=lots "$vgpu" run "$@" -- "$guest" exit 0
  refused_briefly "VGPU_JOURNAL.*lots"
}

case_words() {
  try_words --device cpu
  check_leaks
  expect 2 "$vgpu"
  expect 2 "$vgpu" no-such-command
  expect 2 "$vgpu" up --overcommit 0.5
  told "--overcommit: Value 0.5 not in range"
  expect 2 "$vgpu" up --swap-part 1
  told "--swap-part: Value 1 not in range"
  expect 0 "$vgpu" --help
  grep -q "vgpu COMMAND --help" "$work/out/stdout" || fail "no help"
  local command
  for command in up down run status events kill-node; do
    expect 0 "$vgpu" "$command" --help
    grep -q Example "$work/out/stdout" || fail "$command: no example"
  done
  for command in manager node worker client; do
    expect 0 "$build/bin/vgpu-$command" --help
  done
  for command in "--nodes 0" "--nodes x" "--nodes 1000000" "--gpus-per-node 0" \
    "--device quantum" "--memory much" "--lost-after 0"; do
    # shellcheck disable=SC2086 # options
    expect 2 "$vgpu" up --run-dir "$work/run" $command
    refused_briefly "${command%% *}"
  done

  cluster_up --nodes 2 --gpus-per-node 1 --memory 1GiB
  try_words
  expect 1 "$vgpu" run --memory 2GiB -- "$guest" exit 0
  refused_briefly "cannot give .*no GPU has more than"
  expect 1 "$vgpu" run --gpus 2 -- "$guest" devices
  refused_briefly "2 GPU|GPUs"
  expect 1 "$vgpu" kill-node nobody
  refused_briefly "no node 'nobody'"
  # Without `vgpu run`, the manager itself refuses.
  export LD_LIBRARY_PATH=$build/lib
  local wrong
  for wrong in VGPU_SHARE=0 VGPU_SHARE=2 VGPU_SHARE=-1 VGPU_SHARE=nan \
    VGPU_MEMORY=999999999999999 VGPU_GPUS=100 VGPU_GPUS=0 VGPU_JOURNAL=2XB; do
    expect 9 env "$wrong" "$guest" exit 0
    told "cudaError"
  done
  unset LD_LIBRARY_PATH
  expect 0 "$vgpu" run -- "$guest" exit 0
  cluster_down
}

# -- fields -------------------------------------------------------------------

# Values out of range for every field of a specification, separated by |. An
# option of `vgpu run` that is neither here nor among `other_options` fails the
# test.
declare -A bad_values=(
  [share]='0|-0.1|1.01|nan|inf|-inf|x|1x|0,5|1e999|0x1| 1|1 '
  [limit]='0|-1|2|1.0000001|nan|half|1%'
  [memory]='0|-1|much|9999999999T|5XB|1e999|nan|512 MiB|MiB|1GiBB'
  [gpus]='0|65|-1|two|1.5|4294967297|1e1|+1'
  [priority]='-1001|1001|high|0.5|99999999999|--5|+5'
  [protect]='always|Journal|none,journal|0|no'
  [snapshot-every]='0|0.049|49ms|86401|86400001ms|-1|10min|nan|s|ms|1h|inf'
  [recover-within]='0|0.049|49ms|86401|86400001ms|-1|10min|nan|s|ms|1h|inf'
  [protect-cost]='-1|100.1|nan|inf|2%|little|1e3'
  [on-divergence]='fail|Error|continue,error|0|no'
  [node]='a b|../x|a/b|a.b|nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn|ü|*'
  [pgpu]='-1|1024|first|0.5|4294967296|1,2'
  [backend]='amd|CPU|cpu,nvidia|cpu |cuda'
  [capability]='0.9|100.0|8|8.|.5|8.10|-8.0|8.0a|8,0|nan|80|9.x| 9.0'
  [where]='here|Any|local|local-first,any'
  [beside]='0|-1|x|1.5|18446744073709551616'
  [apart]='0|-3|y|2 3|18446744073709551616'
  [wait]='-1|1000001|never|nan|inf|1s|Forever'
  [idle-after]='0|0.09|1000001|never|nan|-5|Keep'
  [group]='0|-1|x|9223372036854775809|1.5'
)
other_options=(help profile run-dir manager device)

# Holds the line of `vgpu run --help` about each option.
declare -A help_on=()

# Checks that stderr names the field, its value, and the range of the help text.
names_range() { # FIELD NAME VALUE
  local text range about="$2 '$3': give "
  text=$(<"$work/out/stderr")
  [[ $text == *"$about"* ]] || fail "stderr does not tell of $2 '$3': $text"
  range=${text##*"$about"}
  range=${range%%$'\n'*}
  [[ -n $range && ${help_on[$1]} == *": $range"* ]] ||
    fail "the help on $1 has no range '$range'"
  brief
}

variable_of() { # FIELD
  local name=VGPU_${1^^}
  echo "${name//-/_}"
}

try_field() { # NAME VALUE
  local field=$1 value=$2 variable
  variable=$(variable_of "$field")
  expect 2 "$vgpu" run "--$field=$value" -- true
  names_range "$field" "--$field" "$value"
  expect 2 env "$variable=$value" "$vgpu" run -- true
  names_range "$field" "$variable" "$value"
  printf '[p]\n%s = "%s"\n' "$field" "$value" >"$work/out/profiles.toml"
  VGPU_PROFILES=$work/out/profiles.toml expect 2 "$vgpu" run --profile p -- true
  names_range "$field" "$work/out/profiles.toml, profile p: $field" "$value"
  case $field in
    share | limit | memory | priority)
      expect 2 "$vgpu" set 1 "$field=$value"
      names_range "$field" "$field" "$value"
      ;;
  esac
}

# Tries TOML values that are neither texts nor numbers.
try_kinds() { # NAME
  local value
  for value in true '[1]' '{ a = 1 }' 1979-05-27 '[]'; do
    printf '[p]\n%s = %s\n' "$1" "$value" >"$work/out/profiles.toml"
    VGPU_PROFILES=$work/out/profiles.toml \
      expect 2 "$vgpu" run --profile p -- true
    refused_briefly "$work/out/profiles.toml, profile p: $1 '.*': give "
  done
}

case_fields() {
  local field value values
  expect 0 "$vgpu" run --help
  local fields=() line option='^ +(-h,)?--([a-z-]+)'
  while IFS= read -r line; do
    [[ $line =~ $option ]] || continue
    field=${BASH_REMATCH[2]}
    help_on[$field]=$line
    [[ " ${other_options[*]} " == *" $field "* ]] || fields+=("$field")
  done <"$work/out/stdout"
  ((${#fields[@]} >= 16)) || fail "only ${#fields[@]} fields in the help"
  for field in "${fields[@]}"; do
    [[ -n ${bad_values[$field]-} ]] ||
      fail "no bad values of --$field: add them to bad_values"
    IFS='|' read -ra values <<<"${bad_values[$field]}"
    for value in "${values[@]}"; do
      try_field "$field" "$value"
    done
    expect 2 "$vgpu" run "--$field=" -- true
    refused_briefly "$field"
    expect 2 "$vgpu" run "--$field"
    refused_briefly "$field|PROGRAM"
    try_kinds "$field"
  done
  ((${#fields[@]} == ${#bad_values[@]})) || fail "a field is in no help"
  expect 2 "$vgpu" run --device quantum -- true
  refused_briefly device
  printf '[p]\nshares = 1\n' >"$work/out/profiles.toml"
  VGPU_PROFILES=$work/out/profiles.toml expect 2 "$vgpu" run --profile p -- true
  refused_briefly "no field 'shares'"
  VGPU_PROFILES=$work/out/profiles.toml expect 2 "$vgpu" run --profile q -- true
  refused_briefly "no profile 'q'"
  printf '[p\n' >"$work/out/profiles.toml"
  VGPU_PROFILES=$work/out/profiles.toml expect 2 "$vgpu" run --profile p -- true
  refused_briefly "not valid TOML"
  # Without `vgpu run`, the program gets an error at once.
  cluster_up --nodes 1
  for field in "${fields[@]}"; do
    expect 9 env "LD_LIBRARY_PATH=$build/lib" \
      "$(variable_of "$field")=${bad_values[$field]%%|*}" \
      "$guest" exit 0
    told cudaError
  done
  cluster_down
}

case_endpoints() {
  local endpoint
  for endpoint in nonsense tcp:// tcp://host tcp://host: tcp://:5 \
    tcp://host:99999 tcp://host:port udp://host:1 ipc:// \
    "ipc:///$(printf 'x%.0s' {1..150})" "tcp://a b:1" $'tcp://\n:1' \
    tcp://127.0.0.1:1,nonsense tcp://127.0.0.1:1, ; do
    expect 2 "$vgpu" run --manager "$endpoint" -- "$guest" exit 0
    refused_briefly "endpoint"
    VGPU_MANAGER=$endpoint expect 2 "$vgpu" run -- "$guest" exit 0
    refused_briefly "endpoint"
    expect 2 "$vgpu" up --run-dir "$work/run" --listen "$endpoint"
    refused_briefly "endpoint"
    refused status --manager "$endpoint"
    refused events --manager "$endpoint"
    refused kill-node a --manager "$endpoint"
    expect 1 "$build/bin/vgpu-manager" --run-dir "$work/run" \
      --listen "$endpoint"
    refused_briefly "endpoint"
    expect 1 "$build/bin/vgpu-node" --name a --run-dir "$work/run" \
      --device cpu --manager "$endpoint"
    refused_briefly "endpoint"
  done
  local etcd
  for etcd in nonsense http://h http://h:0 https://h:1 http://h:1, http:///; do
    expect 2 "$build/bin/vgpu-manager" --run-dir "$work/run" --etcd "$etcd"
    refused_briefly "--etcd"
  done
  expect 2 "$build/bin/vgpu-manager" --run-dir "$work/run" \
    --etcd http://127.0.0.1:1 --lease 1
  refused_briefly "--lease"
  expect 2 "$build/bin/vgpu-manager" --run-dir "$work/run" --lease 3
  refused_briefly "--lease.*--etcd"
  # Addresses for workers to listen on. 192.0.2.1 is not this host's address.
  for endpoint in tcp nonsense 192.0.2.1 tcp://127.0.0.1 127.0.0.1:5 0.0.0.0 \
    '*' '::' '' 'a b'; do
    expect 1 "$build/bin/vgpu-node" --name a --run-dir "$work/run" \
      --device cpu --bind "$endpoint"
    refused_briefly "--bind"
    expect 1 "$vgpu" up --run-dir "$work/run" --device cpu --bind "$endpoint"
    refused_briefly "--bind"
  done
  # Networks are for clusters with keys. All addresses of a host are its own.
  for endpoint in 'tcp://*:17070' tcp://0.0.0.0:17070; do
    VGPU_KEYS=$work/none expect 1 "$build/bin/vgpu-manager" \
      --run-dir "$work/run" --listen "$endpoint"
    refused_briefly "vgpu keys init.*--insecure-network"
    VGPU_KEYS=$work/none expect 1 "$vgpu" up --run-dir "$work/run" \
      --device cpu --listen "$endpoint"
    refused_briefly "vgpu keys init.*--insecure-network"
  done
  # Without `vgpu run`, the client takes some seconds to give up.
  for endpoint in nonsense tcp://host:99999; do
    VGPU_MANAGER=$endpoint LD_LIBRARY_PATH=$build/lib expect 9 "$guest" exit 0
    told "cudaError"
  done
  rmdir "$work/run" 2>/dev/null || true
  check_leaks
  # These are well-formed, but nothing listens there. Each try waits for a
  # while, so all run at the same time.
  local pids=() pid missed=0
  for endpoint in tcp://127.0.0.1:1 "ipc://$work/none.sock" \
    tcp://127.0.0.1:1,tcp://127.0.0.1:2; do
    (nobody_at "$endpoint") &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do
    wait "$pid" || missed=$((missed + 1))
  done
  ((missed == 0)) || fail "of three managers that are not there: $missed, above"
}

# Runs in a subshell, because it has its own output folder.
nobody_at() { # ENDPOINT
  local endpoint=$1
  work=$(mktemp -d "$work/out/nobody.XXXXXX")
  mkdir "$work/out"
  expect 3 "$vgpu" run --manager "$endpoint" -- "$guest" exit 0
  refused_briefly "manager.*$endpoint|$endpoint.*manager"
  VGPU_MANAGER=$endpoint expect 3 "$vgpu" run -- "$guest" exit 0
  expect 3 "$vgpu" status --manager "$endpoint"
  refused_briefly "$endpoint"
  VGPU_MANAGER=$endpoint LD_LIBRARY_PATH=$build/lib expect 9 "$guest" exit 0
  told cudaErrorNoDevice
}

# Checks that a command fails at once, with any status and a message.
refused() { # COMMAND...
  local got=0
  timeout -k 5 "$patience" "$vgpu" "$@" </dev/null >/dev/null 2>"$work/out/stderr" || got=$?
  ((got >= 1 && got <= 3)) || fail "vgpu $* ended with $got"
  refused_briefly "endpoint|no manager answers at"
}

case_places() {
  local place
  : >"$work/out/file"
  for place in /proc/vgpu /proc/none/vgpu "$work/out/file" \
    "$work/out/file/below"; do
    expect 1 "$vgpu" up --run-dir "$place"
    refused_briefly "$place"
    expect 1 "$build/bin/vgpu-manager" --run-dir "$place"
    refused_briefly "$place"
    expect 1 "$vgpu" down --run-dir "$place"
    refused_briefly "$place"
  done
  # `vgpu run` with no manager, and nowhere to put one.
  for place in /proc "$work/out/file" /no/such/folder; do
    TMPDIR=$place expect 1 "$vgpu" run --device cpu -- "$guest" exit 0
    refused_briefly "$place"
  done
  mkdir -m 777 "$work/out/open"
  chmod 777 "$work/out/open"
  expect 1 "$vgpu" up --run-dir "$work/out/open"
  refused_briefly "others may write"
  if ((EUID != 0)); then
    echo "not root: another user's folder is not tried"
    return
  fi
  # As a user without rights here.
  mkdir -m 755 "$work/out/roots"
  chmod 755 "$work" "$work/out"
  local nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups env
    XDG_RUNTIME_DIR= HOME=/)
  if ! "${nobody[@]}" test -x "$vgpu"; then
    echo "nobody may not read $build: another user is not tried"
    return
  fi
  for place in "$work/out/roots" "$work/out/roots/below"; do
    expect 1 "${nobody[@]}" "$vgpu" up --run-dir "$place"
    refused_briefly "$place.*(belongs to another|ermission)"
  done
  expect 1 "${nobody[@]}" TMPDIR="$work/out/roots" "$vgpu" run --device cpu \
    -- "$guest" exit 0
  refused_briefly "$work/out/roots.*ermission"
}

case_images() {
  local code=$build/tests/e2e/answer
  cluster_up --nodes 1
  expect 0 "$vgpu" run -- "$build/tests/e2e/images" "$code.fatbin" \
    "$code.cubin" "$work/out/image"
  cat "$work/out/stdout"
  ! has_event '.kind | test("worker-exited|session-replaced")' ||
    fail "an image ended a worker"
  expect 0 "$vgpu" run -- "$guest" exit 0
  cluster_down
}

# -- noise --------------------------------------------------------------------

# Prints the TCP ports on which a process listens.
tcp_of() { # PID
  ss -Hltnp | awk -v pid="pid=$1," 'index($0, pid) { print "tcp://" $4 }'
}

every_socket() {
  local pid inode
  echo "$VGPU_MANAGER"
  find "$run_dir" -type s -printf 'ipc://%p\n'
  for pid in $(daemons vgpu-manager) $(daemons vgpu-node) \
    $(daemons vgpu-worker) $(daemons vgpu-client); do
    tcp_of "$pid"
    for inode in $(find "/proc/$pid/fd" -lname 'socket:*' -printf '%l\n' |
      tr -dc '0-9\n'); do
      # Flag 00010000 marks listening sockets.
      awk -v i="$inode" '$7 == i && $4 == "00010000" && $8 ~ /^@/ {
        print $8 }' /proc/net/unix
    done
  done
}

servants() {
  local name
  for name in manager node worker client; do
    echo "$name:" "$(daemons "vgpu-$name" | sort | tr '\n' ' ')"
  done
}

make_noise() {
  local where
  servants >"$work/out/before"
  every_socket | sort -u >"$work/out/every_socket"
  while read -r where; do
    timeout -k 5 "$patience" "$build/tests/e2e/noise" "$where" "$noise_seed" 25 </dev/null \
      >>"$work/out/noise" 2>&1 ||
      fail "noise to $where ended with $?: $(<"$work/out/noise")," \
        "processes before: $(<"$work/out/before")," \
        "now: $(servants); seed $noise_seed"
    noise_seed=$((noise_seed + 1000))
  done <"$work/out/every_socket"
  servants >"$work/out/after"
  diff "$work/out/before" "$work/out/after" >&2 ||
    fail "the noise ended a process"
  noise_made=$((noise_made + 1))
}

on_line() { # NUMBER LINE
  case $1 in 4 | 12 | 20) make_noise ;; esac
}

run_in_noise() { # CLUSTER-OPTION...
  local arguments=(2000 96 50 250)
  noise_seed=${E2E_SEED:-1} noise_made=0
  undisturbed_heat undisturbed "${arguments[@]}"
  # A busy machine, on which a node is silent for a while, is not the subject.
  cluster_up --nodes 2 --lost-after 60000 "$@"
  follow_program disturbed "$vgpu" run -- "$heat" "${arguments[@]}"
  ((program_status == 0)) || fail "heat ended with $program_status"
  same undisturbed disturbed || fail "heat prints other lines"
  ((noise_made == 3)) || fail "noise only $noise_made times"
  say "noise to $(tr '\n' ' ' <"$work/out/every_socket")"
  local kind
  for kind in "${kinds[@]}"; do
    grep -qE "$kind" "$work/out/every_socket" || fail "no socket like $kind"
  done
  ! has_event '.kind | test("node-lost|worker-exited|session-replaced")' ||
    fail "the noise had consequences"
  status_is '[.nodes[] | select(.state == "alive")] | length == 2' ||
    fail "the nodes are gone"
  expect 0 "$vgpu" run -- "$guest" exit 0
  cluster_down
}

case_noise() {
  command -v ss >/dev/null || skip "no ss command (iproute2)"
  export VGPU_TRANSPORT=forwarded
  kinds=('^tcp.*' '^ipc.*node-a.sock' '^@vgpu-client' '^@vgpu-worker')
  run_in_noise --listen 'tcp://127.0.0.1:*' --bind 127.0.0.1
  (($(grep -c '^tcp' "$work/out/every_socket") >= 2)) ||
    fail "the worker's tcp port was not found"
}

case_noise_ipc() {
  command -v ss >/dev/null || skip "no ss command (iproute2)"
  export VGPU_TRANSPORT=mapped
  kinds=('manager.sock' 'node-a.sock' 'worker.*sock' '^@vgpu-client'
    '^@vgpu-worker')
  run_in_noise
}

run_case "$@"
