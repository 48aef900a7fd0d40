# Makes the table of matrix.sh from its objects: for each subject of tests/cuda
# how many programs printed the same, of how many, with the log mapped and where
# calls are forwarded. The cells that say something else follow it.
def cells($n): if length < $n then . + " " * ($n - length) else . end;
def row($widths): [., $widths] | transpose |
  map(.[1] as $n | .[0] | cells($n)) | "| " + join(" | ") + " |";
def share: map(select(.result == "same")) | length;
def counted: map(select(.result | IN("left-out", "never", "varies") | not));
def both: ["mapped", "forwarded"] as $ways | . as $all | $ways |
  map(. as $way | $all | map(select(.transport == $way)) |
    if length == 0 then "–" else "\(share) of \(length)" end) | join(", ");

[.[] | (.cell | split("/")) as $name |
  . + {subject: $name[0], program: $name[1], what: $name[2],
       transport: $name[3]}] as $cells |
{worker: "worker killed", node: "node killed", lost: "pGPU lost",
  suspended: "suspended, resumed", pgpu: "to another pGPU",
  elsewhere: "to another node", snapshot: "snapshots, worker killed"} as $names |
($names | keys_unsorted | map(select(. as $x | any($cells[]; .what == $x)))) as
  $kinds |
($kinds | map($names[.])) as $heads |
([["programs"] + $heads] +
  [($cells | group_by(.subject)[], .) |
    (if (map(.subject) | unique | length) == 1 then .[0].subject
      else "all" end) as $subject |
    counted as $of |
    [$subject] + [$kinds[] as $kind | $of | map(select(.what == $kind)) |
      both]]) as $rows |
[$rows | transpose[] | map(length) | max] as $widths |
($rows[0] | row($widths)),
($widths | map("-" * .) | row($widths)),
($rows[1:][] | row($widths)),
"",
($cells | map(select(.result != "same")) |
  group_by([.subject, .program, .result, .why])[] |
  (map(.what + "/" + .transport) | join(" ")) as $where |
  "\(.[0].subject)/\(.[0].program) \(.[0].result): \(.[0].why // "") (\(
    if length == 2 * ($kinds | length) then "each cell" else $where end))")
