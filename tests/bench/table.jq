# Makes the table's rows out of what the programs measured.

def median: sort | .[(length / 2 | floor)];
# A benchmark's counter in its repetitions.
def of($runs; $name; $counter):
  [$runs[0].benchmarks[]
   | select(.run_type == "iteration" and (.name | startswith($name)))
   | .[$counter] | numbers]
  | if length == 0 then error("no figure of " + $name) else . end;
# What others do on the machine only ever makes things slower: the quietest
# repetition is the one to compare.
def least($runs; $name; $counter): of($runs; $name; $counter) | min;
def most($runs; $name; $counter): of($runs; $name; $counter) | max;
def rounded: if . >= 100 then round elif . >= 10 then . * 10 | round / 10
  else . * 1000 | round / 1000 end;

def row($name; $value; $unit): {name: $name, value: ($value | rounded), $unit};
def at_most($limit): . + {limit: "<= \($limit)",
                          met: (.value <= $limit * $tolerance)};
def at_least($limit): . + {limit: ">= \($limit)",
                           met: (.value >= $limit / $tolerance)};

def us($runs; $name): least($runs; $name; "p50_ns") / 1000;
def copies($runs; $how):
  ("copy_to_device/pageable", "copy_to_device/pinned", "copy_to_host/pageable",
   "copy_to_host/pinned") as $name
  | row($name + ", " + $how; most($runs; $name; "bytes_per_second") / 1e9; "GB/s");

# How long the device takes beside one core of the host.
def beside_host($name):
  row($name + ", device / host core";
      least($algorithms; $name + "/device:1/"; "real_time")
      / least($algorithms; $name + "/device:0/"; "real_time"); "times");

us($mapped; "zmq_ipc") as $yard_m
| us($one_processor; "zmq_ipc") as $yard_1
| [
  (row("launch"; us($mapped; "launch/"); "us") | at_most(0.5)),
  row("  its CPU time"; least($mapped; "launch/"; "cpu_ns") / 1000; "us"),
  row("  allocations"; least($mapped; "launch/"; "allocations"); "a call"),
  row("  locks"; least($mapped; "launch/"; "locks"); "a call"),
  row("  page faults"; least($mapped; "launch/"; "page_faults"); "a call"),
  row("launch, log forwarded"; us($forwarded; "launch/"); "us"),
  row("append to the log alone"; us($log; "log_append"); "us"),
  row("zmq ping-pong, beside mapped"; $yard_m; "us"),
  row("synchronise, mapped"; us($mapped; "synchronise"); "us"),
  row("read 4 bytes, mapped"; us($mapped; "read_4"); "us"),
  (row("synchronise, mapped / ping-pong";
       us($mapped; "synchronise") / $yard_m; "times") | at_most(0.3)),
  (row("read 4 bytes, mapped / ping-pong";
       us($mapped; "read_4") / $yard_m; "times") | at_most(0.3)),
  row("launch and synchronise, mapped"; us($mapped; "launch_and"); "us"),
  row("synchronise, forwarded"; us($forwarded; "synchronise"); "us"),
  row("read 4 bytes, forwarded"; us($forwarded; "read_4"); "us"),
  row("launch and synchronise, forwarded"; us($forwarded; "launch_and"); "us"),
  row("on one processor, zmq ping-pong"; $yard_1; "us"),
  row("  synchronise, forwarded"; us($one_processor; "synchronise"); "us"),
  row("  read 4 bytes, forwarded"; us($one_processor; "read_4"); "us"),
  row("  launch and synchronise, forwarded";
      us($one_processor; "launch_and"); "us"),
  (row("  synchronise, forwarded / ping-pong";
       us($one_processor; "synchronise") / $yard_1; "times") | at_most(2)),
  (row("  read 4 bytes, forwarded / ping-pong";
       us($one_processor; "read_4") / $yard_1; "times") | at_most(2)),
  copies($mapped_copies; "mapped"),
  copies($forwarded_copies; "forwarded"),
  row("first call, mapped"; $mapped_first | median; "ms"),
  row("first call, forwarded"; $forwarded_first | median; "ms"),
  (row("failover, kill to first new result";
       [$failover[].new_result] | median; "ms") | at_most(1000)),
  row("  kill to placed anew"; [$failover[].replaced] | median; "ms"),
  row("  kill to replayed"; [$failover[].replayed] | median; "ms"),
  row("  journal"; [$failover[].bytes] | median / 1e6; "MB"),
  (row("cpu device, matmul, lane-instructions";
       most($device; "matmul/1/"; "lane_instr/s/core") / 1e6;
       "M/s/core") | at_least(150)),
  (beside_host("matmul") | at_most(10)),
  (beside_host("n_body") | at_most(10)),
  (("saxpy", "reduction", "histogram", "radix_sort") | beside_host(.))
]
| {rows: ., met: all(.[]; .met != false), tolerance: $tolerance,
   context: $mapped[0].context, failovers: $failover}
