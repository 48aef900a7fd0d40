#!/usr/bin/env python3
"""Records a small model's work with PyTorch's profiler natively and on vGPUs, and compares."""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import ways

# A shorter one's time varies by more than the bound from run to run, also natively.
SHORTEST = 20.0
EXAMPLES = """
`--record` records in this process. The other form starts itself with it, once a way,
and compares: each kernel, copy and memset by name and count, times (medians of the
rounds), and the exported trace's links from kernels to their launches. Two times are
told and not compared: those of copies, which a vGPU makes in another way, and those of
kernels that ran beside others, which depend on how much of both ran at the same time.

exit status: 0 if all is the same, 1 if something differs, 2 for wrong usage

examples:
  tests/judges/profiles.py --vgpu build/default/bin/vgpu
  tests/judges/profiles.py --ways native,mapped --python /opt/venv/bin/python3
  tests/judges/profiles.py --compare
"""


def options():
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", metavar="WAY", help="record, and write WAY.json")
    parser.add_argument("--compare", action="store_true", help="only compare what is there")
    ways.add_options(parser, "native,mapped,forwarded")
    parser.add_argument("--rounds", type=int, default=7, help="times the work is done (7)")
    parser.add_argument("--bound", type=float, default=0.05, help="of times (0.05)")
    parser.add_argument("--out", default="build/profiles", type=Path)
    parser.add_argument("--python", default=sys.executable, help="one that has torch")
    parser.add_argument("--limit", type=float, default=300, metavar="S", help="a way's (300)")
    chosen = parser.parse_args()
    ways.read_options(parser, chosen)
    return chosen


class Work:
    """One round of work of many kinds, the same in each round."""

    def __init__(self, torch):
        self.torch = torch
        torch.manual_seed(7)
        torch.backends.cudnn.benchmark = False
        gpu = {"device": "cuda"}
        self.a = torch.randn(1024, 1024, **gpu)
        self.b = torch.randn(1024, 1024, **gpu)
        self.halves = torch.randn(2048, 2048, dtype=torch.float16, **gpu)
        self.picture = torch.randn(8, 16, 128, 128, **gpu)
        self.convolution = torch.nn.Conv2d(16, 32, 3, padding=1).cuda()
        self.block = torch.nn.TransformerEncoderLayer(
            256, 4, 512, dropout=0.0, batch_first=True).cuda()
        self.words = torch.randn(8, 64, 256, **gpu)
        self.pinned = torch.randn(1 << 22, pin_memory=True)
        self.back = torch.empty(1 << 22, pin_memory=True)
        self.target = torch.empty(1 << 22, **gpu)
        self.streams = [torch.cuda.Stream() for _ in range(2)]
        self.whole()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        self.still = torch.randn(512, 512, **gpu)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.captured()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.captured()
        torch.cuda.synchronize()

    def captured(self):
        out = self.still @ self.still
        for _ in range(3):
            out = torch_relu(self.torch, out * 0.5)
        return out

    def whole(self):
        torch = self.torch
        sums = torch.sin(self.a) + self.b * 2
        torch.softmax(sums, -1).sum()
        self.a @ self.b
        self.halves @ self.halves
        self.convolution(self.picture).square().mean().backward()
        self.block(self.words).sum().backward()
        self.target.copy_(self.pinned, non_blocking=True)
        self.back.copy_(self.target, non_blocking=True)
        self.target.zero_()
        for stream in self.streams:
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                torch.cumsum(self.a, 0)
        for stream in self.streams:
            torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()

    def round(self):
        self.whole()
        self.graph.replay()
        self.torch.cuda.synchronize()


def torch_relu(torch, value):
    return torch.nn.functional.relu(value)


def overlapping(work):
    """The names of the events that ran beside another one."""
    names, running = set(), []
    for event in sorted(work, key=lambda one: one["ts"]):
        running = [one for one in running if one["ts"] + one["dur"] > event["ts"]]
        names |= {one["name"] for one in [*running, event]} if running else set()
        running.append(event)
    return names


def read_trace(path):
    """The device's events, and of each what the trace says that launched it."""
    events = json.loads(path.read_text("utf-8"))["traceEvents"]
    kinds = ("kernel", "gpu_memcpy", "gpu_memset")
    work = [event for event in events if event.get("cat") in kinds]
    launches = {event["args"].get("correlation") for event in events
                if event.get("cat") in ("cuda_runtime", "cuda_driver")}
    starts = {event.get("id") for event in events if event.get("ph") == "s"}
    ends = {event.get("id") for event in events if event.get("ph") == "f"}
    found, unlinked, fields = {}, 0, set()
    for event in work:
        count, duration = found.get(event["name"], (0, 0.0))
        found[event["name"]] = (count + 1, duration + event["dur"])
        unlinked += event["args"].get("correlation") not in launches
        fields |= {f"{event['cat']}: {field}" for field in event["args"]}
    calls = {}
    for event in events:
        if event.get("cat") in ("cuda_runtime", "cuda_driver"):
            calls[event["name"]] = calls.get(event["name"], 0) + 1
    streams = len({event["args"].get("stream") for event in work})
    copies = {event["name"] for event in work if event["cat"] == "gpu_memcpy"}
    return {"events": found, "copies": sorted(copies),
            "overlapping": sorted(overlapping(work)), "unlinked": unlinked,
            "fields": sorted(fields), "arrows": len(starts & ends), "calls": calls,
            "streams": streams}


def record(chosen):
    import torch
    from torch.profiler import ProfilerActivity, profile
    work = Work(torch)
    work.round()
    chosen.out.mkdir(parents=True, exist_ok=True)
    trace = chosen.out / f"{chosen.record}.trace.json"
    rounds = []
    for number in range(chosen.rounds + 1):
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
            work.round()
        recorded.export_chrome_trace(str(trace))
        if number:  # the first one starts the profiler
            rounds.append(read_trace(trace))
    maps = Path("/proc/self/maps").read_text("utf-8")
    cupti = sorted({line.split()[-1] for line in maps.splitlines() if "libcupti" in line})
    averages = {event.key: event.count for event in recorded.key_averages()
                if event.device_type == torch.autograd.DeviceType.CUDA}
    (chosen.out / f"{chosen.record}.json").write_text(
        json.dumps({"rounds": rounds, "averages": averages, "cupti": cupti, "device":
                    torch.cuda.get_device_name(), "torch": torch.__version__}), "utf-8")
    last = rounds[-1]
    print(f"{chosen.record}: {sum(count for count, _ in last['events'].values())} GPU events, "
          f"{last['unlinked']} not linked")


def start(chosen, way):
    command = [chosen.python, os.path.abspath(__file__), "--record", way,
               "--out", str(chosen.out.resolve()), "--rounds", str(chosen.rounds)]
    try:
        code = subprocess.run(ways.command(chosen, way, command), check=False,
                              env=ways.environment(chosen, way),
                              stdin=subprocess.DEVNULL, timeout=chosen.limit).returncode
    except subprocess.TimeoutExpired:
        code = f"more than {chosen.limit:g} s"
    if code:
        print(f"profiles.py: {way} ended with {code}", file=sys.stderr)


def medians(rounds):
    """Count and median time of each name; None where the rounds' counts differ."""
    table = {}
    for name in set().union(*(one["events"] for one in rounds)):
        cells = [one["events"].get(name, (0, 0.0)) for one in rounds]
        counts = {count for count, _ in cells}
        table[name] = (counts.pop() if len(counts) == 1 else None,
                       statistics.median(duration for _, duration in cells))
    return table


def compare(chosen):
    native = json.loads((chosen.out / "native.json").read_text("utf-8"))
    expected = medians(native["rounds"])
    total = sum(time for _, time in expected.values())
    print(f"native: {len(expected)} names, {total:.0f} us, {native['device']}, "
          f"PyTorch {native['torch']}")
    wrong = 0
    for way in chosen.ways:
        file = chosen.out / f"{way}.json"
        if way == "native":
            continue
        if not file.exists():
            print(f"{way}: recorded nothing")
            wrong += 1
            continue
        found = json.loads(file.read_text("utf-8"))
        differences = differ(chosen, native, found, expected)
        wrong += len(differences)
        seen = medians(found["rounds"])
        print(f"{way}: {len(seen)} names, {sum(time for _, time in seen.values()):.0f} us, "
              f"{len(differences)} differences")
        for line in differences:
            print(f"    {line}")
        for line in notes(chosen, native, found):
            print(f"    (not compared) {line}")
    return wrong


def short(name):
    return name if len(name) < 90 else name[:87] + "..."


def not_compared(rounds):
    """The names whose times say nothing of how exact they are."""
    return {name for one in rounds for part in ("copies", "overlapping") for name in one[part]}


def far_off(chosen, native, found):
    """The names whose times differ by more than the bound, with both times."""
    expected, seen = medians(native["rounds"]), medians(found["rounds"])
    return {name: (seen[name][1], time) for name, (_, time) in sorted(expected.items())
            if name in seen and time >= SHORTEST
            and abs(seen[name][1] / time - 1) > chosen.bound}


def notes(chosen, native, found):
    """What the limits say is told otherwise, and times that are not compared."""
    last, first = found["rounds"][-1], native["rounds"][-1]
    missing = {part: sorted(set(first[part]) - set(last[part])) for part in ("calls", "fields")}
    lines = [f"no {part}: {', '.join(names)}" for part, names in missing.items() if names]
    beside = not_compared(native["rounds"] + found["rounds"])
    lines += [f"{short(name)}: {now:.1f} us, natively {before:.1f}"
              for name, (now, before) in far_off(chosen, native, found).items()
              if name in beside]
    lines.append(f"{last['arrows']} arrows, natively {first['arrows']}")
    if not last["events"]:
        lines.append(f"CUPTI: {', '.join(found['cupti']) or 'none is loaded'}")
    return lines


def differ(chosen, native, found, expected):
    seen = medians(found["rounds"])
    lines = []
    for name in sorted(expected.keys() | seen.keys()):
        before, now = expected.get(name, (0, 0.0)), seen.get(name, (0, 0.0))
        if before[0] != now[0]:
            lines.append(f"{short(name)}: {now[0]} times, natively {before[0]}")
    beside = not_compared(native["rounds"] + found["rounds"])
    lines += [f"{short(name)}: {now:.1f} us, natively {before:.1f}"
              for name, (now, before) in far_off(chosen, native, found).items()
              if name not in beside]
    total = [sum(time for name, (_, time) in table.items() if name not in beside)
             for table in (seen, expected)]
    if not total[1] or abs(total[0] / total[1] - 1) > chosen.bound:
        lines.append(f"all that is compared: {total[0]:.0f} us, natively {total[1]:.0f}")
    last, first = found["rounds"][-1], native["rounds"][-1]
    for part in ("unlinked", "streams"):
        if last[part] != first[part]:
            lines.append(f"{part}: {last[part]}, natively {first[part]}")
    if found["averages"] != native["averages"]:
        missing = sorted(set(native["averages"].items()) ^ set(found["averages"].items()))
        lines.append(f"the profiler's table: {missing[:6]}")
    return lines


def main():
    chosen = options()
    if chosen.record:
        record(chosen)
        return 0
    if not chosen.compare:
        for way in chosen.ways:
            start(chosen, way)
    if not (chosen.out / "native.json").exists():
        sys.exit("profiles.py: nothing was recorded natively to compare with")
    return 1 if compare(chosen) else 0


if __name__ == "__main__":
    sys.exit(main())
