# Formats lines `KIND NAME TRANSPORT OURS NATIVE UNIT SAME` as a table and as JSON.
BEGIN {
  form = "%-28s %-10s %12s %12s %-5s %8s  %s\n"
  printf form, "what", "transport", "ours", "native", "unit", "ratio", "same"
}
{
  ours = $4
  native = $5
  unit = $6
  if (unit == "ns") {
    ours /= 1e6
    native /= 1e6
    unit = "ms"
  }
  # For a rate, a larger value is better. The ratio is inverted, so that it is a
  # ratio of times as well.
  ratio = unit == "GB/s" ? (ours > 0 ? native / ours : 0) \
                         : (native > 0 ? ours / native : 0)
  printf form, $2, $3, sprintf("%.3f", ours), sprintf("%.3f", native), unit, \
    sprintf("%.2f", ratio), $7
  rows = rows sprintf("%s\n  {\"kind\": \"%s\", \"name\": \"%s\", " \
    "\"transport\": \"%s\", \"ours\": %.6g, \"native\": %.6g, " \
    "\"unit\": \"%s\", \"ratio\": %.4g, \"same\": \"%s\"}", \
    rows == "" ? "" : ",", $1, $2, $3, ours, native, unit, ratio, $7)
  if ($1 == "program") {
    ++programs
    if ($7 != "no")
      ++same
  }
}
END {
  if (programs > 0)
    printf "%d of %d runs of programs ended as natively\n", same, programs
  if (json != "")
    printf "{\"rows\": [%s\n]}\n", rows > json
}
