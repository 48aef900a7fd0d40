# Computes what programs of load.cu got of a GPU from their output: a file for
# each, in the order of `shares`, with lines of milliseconds and a count.
#
#   -v from=MS -v to=MS      the time to evaluate
#   -v shares="P..."         the promised part for each: of the work of all or, if
#                            `of` is `alone`, of the device
#   -v alone="R..."          the work of each per second when it is alone. It may be
#                            left out for programs of one kind
#   -v demands="D..."        the part of the device that each uses alone. A program
#                            that uses less than its part leaves the rest to the
#                            others. Default: all of it
#   -v used="U..."           the part of the device that each had in this time, by
#                            the device's count. Default: computed from `demands`
#                            and the work of each
#   -v reach="R..."          the part of its work alone that each can do next to the
#                            others when it goes first, which is the most that it
#                            can get, unless it got more in this time (its host may
#                            have been slower before). Default: all of it
#   -v of=all|alone
#
# Prints lines with a name and numbers:
#   shares    the part that each got
#   promised  the part that each should get
#   worst     the largest difference between them in any 2 s (or in the whole
#             time, if that is shorter), in percentage points
#   of_device the same in percentage points of the device, of which all together
#             may have used little
#   least     the smallest ratio of what one got to what it should get
#   jain      Jain's index, the least of any 2 s
#   total     the work of all, in units of what one program does alone

BEGIN {
  programs = split(shares, claim)
  if (split(alone, speed) == 0)
    for (i = 1; i <= programs; ++i) speed[i] = 1
  limited = split(demands, demand) > 0
  if (!limited)
    for (i = 1; i <= programs; ++i) demand[i] = 1
  if (split(reach, reached) == 0)
    for (i = 1; i <= programs; ++i) reached[i] = 1
}
FNR == 1 { ++file }
NF == 2 { ++lines[file]; ms[file, lines[file]] = $1; count[file, lines[file]] = $2 }

# Returns the work done by a time, interpolated between two lines.
function done_at(f, when, low, high, middle, slope) {
  if (lines[f] < 2 || when <= ms[f, 1]) return count[f, 1]
  if (when >= ms[f, lines[f]]) return count[f, lines[f]]
  low = 1
  high = lines[f]
  while (high - low > 1) {
    middle = int((low + high) / 2)
    if (ms[f, middle] <= when) low = middle
    else high = middle
  }
  slope = (count[f, high] - count[f, low]) / (ms[f, high] - ms[f, low])
  return count[f, low] + slope * (when - ms[f, low])
}

# Sets got[] (device time per second), its sum, and `done` (in units of what each
# does alone). A unit always costs the same.
function measure(begin, end, f) {
  sum = squares = done = 0
  for (f = 1; f <= programs; ++f) {
    got[f] = (done_at(f, end) - done_at(f, begin)) / speed[f]
    got[f] *= 1000 / (end - begin)
    done += got[f]
    got[f] *= cost[f]
    sum += got[f]
    squares += got[f] * got[f]
  }
}
function share(f) { return of == "alone" ? got[f] : sum > 0 ? got[f] / sum : 0 }

# Sets promise[]: the part of the total for each, by claims. The others get what
# one cannot use.
function promise_all(left, claims, more, f, sated) {
  left = sum
  for (f = 1; f <= programs; ++f) claims += claim[f]
  for (more = 1; more && claims > 0;) {
    more = 0
    for (f = 1; f <= programs; ++f)
      if (limited && !(f in sated) && demand[f] <= left * claim[f] / claims) {
        sated[f] = more = 1
        promise[f] = demand[f] / sum
        left -= demand[f]
        claims -= claim[f]
      }
  }
  for (f = 1; f <= programs; ++f)
    if (!(f in sated)) promise[f] = left * claim[f] / claims / sum
}
function promise_each(f) {
  for (f = 1; f <= programs; ++f)
    promise[f] = claim[f] < demand[f] ? claim[f] : demand[f]
}
function make_promises() {
  if (of == "alone") promise_each()
  else if (sum > 0) promise_all()
}

# Sets `worst`, `of_device` and `jain`.
function look_at_windows(window, t, f, off, index_) {
  window = to - from < 2000 ? to - from : 2000
  jain = 1
  worst = of_device = 0
  for (t = from; t + window <= to; t += 50) {
    measure(t, t + window)
    for (f = 1; f <= programs; ++f) {
      off = 100 * (share(f) - promise[f])
      if (off < 0) off = -off
      if (off > worst) worst = off
      if (of != "alone") off *= sum
      if (off > of_device) of_device = off
    }
    index_ = squares > 0 ? sum * sum / (programs * squares) : 0
    if (index_ < jain) jain = index_
  }
}

END {
  for (f = 1; f <= programs; ++f) cost[f] = demand[f]
  measure(from, to)
  if (split(used, had) == programs) {
    limited = 1
    for (f = 1; f <= programs; ++f)
      if (got[f] > 0) {
        cost[f] *= had[f] / got[f]
        demand[f] = cost[f] < 1 ? cost[f] : 1
      }
    measure(from, to)
  }
  total = done
  for (f = 1; f <= programs; ++f) {
    demand[f] *= reached[f]
    if (demand[f] < got[f]) demand[f] = got[f]
  }
  make_promises()
  printf "shares"
  for (f = 1; f <= programs; ++f) {
    printf " %.4f", share(f)
    part = promise[f] > 0 ? share(f) / promise[f] : 0
    if (f == 1 || part < least) least = part
  }
  printf "\npromised"
  for (f = 1; f <= programs; ++f) printf " %.4f", promise[f]
  look_at_windows()
  printf "\nworst %.2f\nof_device %.2f\nleast %.2f\njain %.4f\ntotal %.4f\n", \
    worst, of_device, least, jain, total
}
