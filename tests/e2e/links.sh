#!/usr/bin/env bash
# Tests the slow links of chaos_links.sh: their delay, the frames sent over
# them, and that they leave nothing behind.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'EOT'
usage: links.sh BUILD

Delays the link between two hosts, speeds it up again, and sends more than it
holds. Needs root, for hosts.
EOT
}

case "${1-}" in
  -h | --help) usage; exit 0 ;;
esac
(($# == 1)) || { usage >&2; exit 2; }
begin "$1"
source "$(dirname "${BASH_SOURCE[0]}")/clusters/network.sh"
source "$(dirname "${BASH_SOURCE[0]}")/clusters/slow_links.sh"
room=8 sent=30
link_options=(--frames "$room")

# Measures the way from the program's host to the manager's, where nothing
# listens, and back.
round_trip() {
  local began
  began=$(milliseconds)
  ! ip netns exec "$net-program" bash -c ': </dev/tcp/10.99.0.1/9' \
    2>"$work/out/answer" || fail "a process listens there"
  grep -q refused "$work/out/answer" || fail "$(<"$work/out/answer")"
  took=$(($(milliseconds) - began))
}

# Counts the datagrams that arrived there without a receiver.
arrived() {
  ip netns exec "$net-manager" \
    awk '$1 == "Udp:" && $3 ~ /^[0-9]/ { print $3 }' /proc/net/snmp
}

some_arrived() { (($(arrived) > 0)); }

send_datagrams() {
  # The kernel refuses datagrams after the first error answer.
  ip netns exec "$net-program" bash -c 'exec 3>/dev/udp/10.99.0.1/9
    for ((i = 0; i < $1; ++i)); do echo "$i" >&3; done' datagrams "$sent" ||
    true
}

make_network
round_trip # who has which address is asked once
round_trip
fast=$took
within 375 "$fast" "a frame goes there and back over a link that is not slow"
delay_link program 250
round_trip
# Each direction may be faster by a quarter.
((took >= 375)) || fail "a link that is slow takes $took ms"
say "there and back: $fast ms, delayed by 250 ms: $took ms"
speed_link program
round_trip
within 375 "$took" "a frame goes there and back over a link that is fast again"

delay_link program 300
send_datagrams
until_true some_arrived || fail "no datagram arrives"
speed_link program
round_trip # in order: what was sent before has arrived
came=$(arrived)
((came <= room)) || fail "$came datagrams were on their way, of $room at most"

cut program
heal program
round_trip
ticks=$(awk '{ print $14 + $15 }' "/proc/$links_pid/stat")
within 250 $((ticks * 1000 / $(getconf CLK_TCK))) \
  "the links are done with their processor time"
end_links
dropped=$(sed -n 's/^dropped //p' "$work/out/slow_link")
((dropped >= sent - room)) || fail "it says that it dropped '$dropped'"
say "of $sent datagrams $came arrived, $dropped frames dropped, $ticks ticks"
left=$(ip -n "$net-switch" -o link show type tun)$(
  ip -n "$net-program" -o link show type tun)
[[ -z $left ]] || fail "devices are left: $left"
check_leaks
