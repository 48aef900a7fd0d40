# Reads lines `COLUMN ROW VALUE ...`, and prints the medians of the values, a row
# and a column each, in the order in which they came. `unit` is the table's name.
function median(key,   n, i, j, t, v) {
  n = split(all[key], v, " ")
  for (i = 1; i <= n; ++i)
    for (j = i + 1; j <= n; ++j)
      if (v[j] + 0 < v[i] + 0) { t = v[i]; v[i] = v[j]; v[j] = t }
  return n == 0 ? "-" : v[int((n + 1) / 2)]
}
!($1 in column) { column[$1]; columns[++width] = $1 }
!($2 in row) { row[$2]; rows[++height] = $2 }
{ all[$1, $2] = all[$1, $2] " " $3 }
END {
  printf "%-22s", unit
  for (i = 1; i <= width; ++i) printf "%12s", columns[i]
  print ""
  for (j = 1; j <= height; ++j) {
    printf "%-22s", rows[j]
    for (i = 1; i <= width; ++i)
      printf "%12s", median(columns[i] SUBSEP rows[j])
    print ""
  }
}
