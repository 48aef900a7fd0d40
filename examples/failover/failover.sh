#!/usr/bin/env bash
# Shows that a program does not notice the loss of its node: runs heat
# undisturbed, then on two nodes, kills the node that serves it half way, and
# compares the output of the two runs bit by bit.
set -euo pipefail

usage() {
  cat <<'EOF'
usage: failover.sh [--build DIR] [--steps N] [--size N] [--print-every N]
                   [--limit SECONDS]

  --build DIR      the build folder (build/default)
  --steps N        steps that heat computes (1500)
  --size N         rows and columns of its plate (256)
  --print-every N  steps between two checksums (50)
  --limit SECONDS  after which a run of heat is given up (120)
EOF
}

die() {
  echo "failover.sh: $*" >&2
  exit 1
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$root/build/default steps=1500 size=256 every=50 limit=120
while (($#)); do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --build | --steps | --size | --print-every | --limit)
      (($# > 1)) || { echo "failover.sh: $1 needs a value" >&2; exit 2; }
      ;;&
    --build) build=$2 ;;
    --steps) steps=$2 ;;
    --size) size=$2 ;;
    --print-every) every=$2 ;;
    --limit) limit=$2 ;;
    *) echo "failover.sh: no such option: $1" >&2; usage >&2; exit 2 ;;
  esac
  shift 2
done
for number in "$steps" "$size" "$every" "$limit"; do
  [[ $number =~ ^[0-9]+$ ]] || { usage >&2; exit 2; }
done
((every * 4 <= steps)) ||
  die "--print-every must be at most a quarter of --steps"
vgpu=$build/bin/vgpu heat=$build/examples/heat
command -v jq >/dev/null || die "jq is missing; tests/setup.sh installs it"
for program in "$vgpu" "$heat"; do
  [[ -x $program ]] || die "no $program; build the default preset first"
done

work=$(mktemp -d "${TMPDIR:-/tmp}/vgpu-failover.XXXXXX")
cluster=$work/run
program_pid=
# shellcheck disable=SC2317 # called by the trap
clean_up() {
  local code=$?
  trap - EXIT
  [[ -z $program_pid ]] || kill "$program_pid" 2>/dev/null || true
  if [[ -d $cluster ]]; then
    "$vgpu" down --run-dir "$cluster" </dev/null >"$work/down.log" 2>&1 ||
      { cat "$work/down.log" >&2; ((code)) || code=1; }
  fi
  rm -rf -- "$work"
  exit "$code"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

now() { printf '%s\n' "$EPOCHREALTIME"; }

# Puts the time in front of each line.
stamp() {
  local line
  while IFS= read -r line; do
    printf '%s %s\n' "$EPOCHREALTIME" "$line"
  done
}

serving_node() {
  "$vgpu" status --json | jq -r '
    [.vgpus[]? | (.sessions // [])[]]
    | ([.[] | select((.program // "") | tostring | test("heat"))] + .)
    | .[0].node // empty'
}

kill_serving_node() {
  local node
  node=$(serving_node)
  if [[ -z $node ]]; then
    echo "no node serves heat; status: $("$vgpu" status --json)" \
      >"$work/kill.failed"
    return
  fi
  printf '%s\n' "$node" >"$work/killed.node"
  now >"$work/killed.time"
  "$vgpu" kill-node "$node" >"$work/kill.log" 2>&1 ||
    cat "$work/kill.log" >"$work/kill.failed"
}

arguments=("$steps" "$size" "$every")
echo "1. heat ${arguments[*]}, undisturbed"
if ! env -u VGPU_MANAGER timeout -k 5 "$limit" \
  "$vgpu" run -- "$heat" "${arguments[@]}" \
  </dev/null >"$work/undisturbed" 2>"$work/undisturbed.err"; then
  cat "$work/undisturbed" "$work/undisturbed.err" >&2
  die "the undisturbed run failed"
fi
tail -n 2 "$work/undisturbed" | sed 's/^/   /'

echo "2. the same on two nodes, one of which dies half way"
mkdir -m 700 "$cluster"
# The daemons must not inherit this script's output, which they would keep open.
"$vgpu" up --nodes 2 --run-dir "$cluster" </dev/null >"$work/up.log" 2>&1 ||
  { cat "$work/up.log" >&2; die "vgpu up failed"; }
export VGPU_MANAGER=ipc://$cluster/manager.sock

# Heat goes on after a checksum when it is told to, so that it is not done before
# the node is dead, however fast the GPU is and however slow this script.
half=$((steps / 2 / every))
mkfifo "$work/lines" "$work/turns"
timeout -k 5 "$limit" "$vgpu" run -- "$heat" "${arguments[@]}" -1 \
  <"$work/turns" >"$work/lines" 2>"$work/disturbed.err" &
program_pid=$!
exec {turns}<>"$work/turns"
killer_pid=
seen=0
while IFS= read -r line; do
  printf '%s\n' "$line"
  seen=$((seen + 1))
  if ((seen == half)); then
    kill_serving_node </dev/null >/dev/null &
    killer_pid=$!
  elif ((seen == half + 1)); then
    wait "$killer_pid" || true
  fi
  echo >&"$turns"
done < <(stamp <"$work/lines") >"$work/stamped"
code=0
wait "$program_pid" || code=$?
program_pid=
[[ -z $killer_pid ]] || wait "$killer_pid" || true
cut -d' ' -f2- "$work/stamped" >"$work/disturbed"

failures=()
((code == 0)) || failures+=("heat ended with $code")
[[ -n $killer_pid ]] || failures+=("heat ended before the node was killed")
if [[ -f $work/kill.failed ]]; then
  failures+=("the node could not be killed: $(<"$work/kill.failed")")
fi
if ((${#failures[@]})); then
  cat "$work/disturbed" "$work/disturbed.err" >&2
  die "${failures[0]}"
fi

killed=$(<"$work/killed.time") node=$(<"$work/killed.node")
"$vgpu" events --json >"$work/events"

# Prints the seconds since the kill, as +0.123 s.
since() {
  awk -v a="$killed" -v b="$1" 'BEGIN { printf "%+8.3f s", b - a }'
}

# Prints the first event of a kind (a regular expression) after the kill, as
# JSON. Two processes read their clocks at slightly different times, so an event
# shortly before the kill counts as well.
event() {
  jq -c -n --arg kind "$1" --argjson killed "$killed" '
    first(inputs | select((.kind | test($kind))
                          and (.time >= $killed - 0.05))) // empty' \
    "$work/events"
}

say_event() { # WORD KIND DETAILS-FILTER
  local found
  found=$(event "$2")
  if [[ -z $found ]]; then
    failures+=("there is no event '$2' after the kill")
    return
  fi
  printf '   %s  %-12s %s\n' "$(since "$(jq -r .time <<<"$found")")" "$1" \
    "$(jq -r "$3" <<<"$found")"
}

echo "3. what happened"
printf '   %s  %-12s node %s, which served heat\n' "$(since "$killed")" \
  killed "$node"
say_event detected '^(node-lost|session-suspect)$' '.text // .kind'
say_event re-placed '^session-replaced$' \
  '.text // "on node \(.node), epoch \(.epoch)"'
say_event replayed '^session-replayed$' \
  '"\(.calls) calls, \(.bytes) bytes in \(.milliseconds) ms"'
replayed=$(event '^session-replayed$')
if [[ -n $replayed ]]; then
  first=$(awk -v t="$(jq -r .time <<<"$replayed")" '$1 >= t' \
    "$work/stamped" | sed -n 1p)
  # The program may have got its result a moment before the event's time.
  [[ -n $first ]] || first=$(awk -v t="$killed" '$1 > t' "$work/stamped" |
    tail -n 1)
  if [[ -n $first ]]; then
    printf '   %s  %-12s %s\n' "$(since "${first%% *}")" 'new result' \
      "${first#* }"
  else
    failures+=("heat printed nothing after the node was killed")
  fi
fi

checksum() { awk '/^step/ { last = $4 } END { print last }' "$1"; }
echo "4. final checksum: undisturbed $(checksum "$work/undisturbed")," \
  "with the failure $(checksum "$work/disturbed")"
if cmp -s "$work/undisturbed" "$work/disturbed"; then
  echo "   every line of the two runs is the same, bit for bit"
else
  failures+=("the two runs print different lines")
  diff "$work/undisturbed" "$work/disturbed" | sed -n 1,20p >&2 || true
fi
if ((${#failures[@]})); then
  printf 'failover.sh: %s\n' "${failures[@]}" >&2
  echo "failover.sh: the events were:" >&2
  cat "$work/events" >&2
  exit 1
fi
