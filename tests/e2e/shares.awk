# What programs of load.cu got of a GPU, from what they told: a file each, in the
# order of `promises`, with lines of milliseconds and a count.
#
#   -v from=MS -v to=MS      what is looked at
#   -v promises="P..."       the part that each is to get of what all got or,
#                            where `of` is `alone`, of what it got alone
#   -v alone="R..."          what each gets a second alone; of programs of one
#                            kind it may be left out
#   -v of=all|alone
#
# Prints, a line each, a name and numbers:
#   shares   the part that each got
#   worst    the largest difference from a promise in any 2 s, in percentage
#            points; of a shorter time, in all of it
#   jain     Jain's index, the least of any 2 s
#   total    what all got, in units of what one gets alone

BEGIN {
  programs = split(promises, promise)
  if (split(alone, speed) == 0)
    for (i = 1; i <= programs; ++i) speed[i] = 1
}
FNR == 1 { ++file }
NF == 2 { ++lines[file]; ms[file, lines[file]] = $1; count[file, lines[file]] = $2 }

# How much was done at a time: in a straight line from one told to the next.
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

# Sets got[] and sum: a second, in units of what each gets alone.
function measure(begin, end, f) {
  sum = squares = 0
  for (f = 1; f <= programs; ++f) {
    got[f] = (done_at(f, end) - done_at(f, begin)) / speed[f]
    got[f] *= 1000 / (end - begin)
    sum += got[f]
    squares += got[f] * got[f]
  }
}
function share(f) { return of == "alone" ? got[f] : sum > 0 ? got[f] / sum : 0 }

END {
  window = to - from < 2000 ? to - from : 2000
  jain = 1
  for (t = from; t + window <= to; t += 50) {
    measure(t, t + window)
    for (f = 1; f <= programs; ++f) {
      off = 100 * (share(f) - promise[f])
      if (off < 0) off = -off
      if (off > worst) worst = off
    }
    index_ = squares > 0 ? sum * sum / (programs * squares) : 0
    if (index_ < jain) jain = index_
  }
  measure(from, to)
  printf "shares"
  for (f = 1; f <= programs; ++f) printf " %.4f", share(f)
  printf "\nworst %.2f\njain %.4f\ntotal %.4f\n", worst, jain, sum
}
