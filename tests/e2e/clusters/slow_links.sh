# Links that can be slow, in place of those of network.sh. Source it after that
# file. Frames pass through a program (slow_link.cpp), so the kernel needs no
# netem.
# shellcheck shell=bash disable=SC2154 # lib.sh and network.sh have the rest

# The program belongs to the network and not to the tested system. It runs on
# between test runs, and so has no process mark.
link_options=()
start_links() {
  [[ -c /dev/net/tun ]] || skip "no TAP devices here: no /dev/net/tun"
  coproc slow_links {
    exec env -u VGPU_E2E ip netns exec "$net-switch" \
      "$build/tests/e2e/slow_link" "${link_options[@]}" "${hosts[@]}" \
      2>"$work/out/slow_link"
  }
  links_pid=$slow_links_PID
  local ready='' told=${slow_links[0]-}
  [[ -z $told ]] || read -r ready <&"$told" || true
  [[ $ready == ready ]] || fail "no slow links: $(<"$work/out/slow_link")"
}

make_link() { # HOST
  [[ -n ${links_pid-} ]] || start_links
  ip -n "$net-switch" link set "host-$1" netns "$net-$1" name eth0
}

# Delays each frame from and to a host by so much, plus or minus a quarter, in
# order.
delay_link() { # HOST MILLISECONDS
  echo "$1 $2 $(($2 / 4))" >&"${slow_links[1]}"
}

speed_link() { # HOST
  echo "$1 0 0" >&"${slow_links[1]}"
}

# The links end when their command input closes, also when this script is
# killed.
end_links() {
  [[ -n ${links_pid-} ]] || return 0
  local commands=${slow_links[1]-}
  [[ -z $commands ]] || exec {commands}>&-
  wait "$links_pid" 2>/dev/null || true
  links_pid=
}
