# Makes plans from a seed. The same seed gives the same plan.
# shellcheck shell=bash

random_state=0

begin_plan() { # SEED
  # shellcheck disable=SC2034
  local ignored
  random_state=$(($1 * 7919))
  draw ignored 1000 # the first numbers of small seeds are alike
}

draw() { # NAME BELOW: the next number of the seed's sequence
  local -n into=$1
  random_state=$(((random_state * 1103515245 + 12345) & 0x7fffffff))
  # shellcheck disable=SC2034 # the name is the caller's
  into=$(((random_state >> 16) % $2))
}

draw_of() { # NAME WORD...: one of the words
  local number
  local -n word=$1
  shift
  draw number $#
  number=$((number + 1))
  # shellcheck disable=SC2034
  word=${!number}
}
