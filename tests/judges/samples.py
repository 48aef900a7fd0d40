#!/usr/bin/env python3
"""Builds NVIDIA's cuda-samples, runs each natively and on vGPUs, and compares."""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import ways

# What differs between two runs of one program: numbers, addresses, names of devices.
VARIES = re.compile(r"0x[0-9a-fA-F]+|[-+]?\d[\d.,]*(e[-+]?\d+)?|\bnan\b|\binf\b")
VERDICT = re.compile(r"pass|fail|success|error|wrong|mismatch|incorrect|waiv|ok\b|done",
                     re.IGNORECASE)
# These use the whole device or measure it: nothing else may run beside them.
ALONE = {"UnifiedMemoryPerf", "p2pBandwidthLatencyTest", "graphMemoryFootprint",
         "MonteCarloMultiGPU", "graphMemoryNodes", "streamOrderedAllocation"}
EXAMPLES = """
Each sample is a project of its own: one that does not build here (no OpenGL, no library)
is told as such. RESULTS holds a line of JSON for each build and each run, written as it
ends; a run that is there is not run again.

exit status: 0 if all ways have the same results, 1 if they differ, 2 for wrong usage

examples:
  tests/judges/samples.py cuda-samples --vgpu build/default/bin/vgpu
  tests/judges/samples.py cuda-samples --ways native,mapped --only 'NPP|simple'
  tests/judges/samples.py cuda-samples --compare
"""


def options():
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("samples", type=Path, help="a checkout of cuda-samples")
    ways.add_options(parser, "native,mapped,forwarded")
    parser.add_argument("--only", default=".", metavar="REGEX", help="samples by name")
    parser.add_argument("--not", dest="without", metavar="REGEX", help="samples left out")
    parser.add_argument("--build", default="build/samples", type=Path)
    parser.add_argument("--results", default="build/samples/results.jsonl", type=Path)
    parser.add_argument("--architecture", default="90", help="of the code (90)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="builds at once")
    parser.add_argument("--runs", type=int, default=4, help="runs at once (4)")
    parser.add_argument("--limit", type=float, default=60, metavar="S", help="a run's (60)")
    parser.add_argument("--build-limit", type=float, default=240, metavar="S")
    parser.add_argument("--time", type=float, default=1e9, metavar="S",
                        help="start nothing after this time")
    parser.add_argument("--launcher", default="cmake", help="the command cmake")
    parser.add_argument("--compare", action="store_true", help="only compare what is there")
    chosen = parser.parse_args()
    ways.read_options(parser, chosen)
    chosen.until = time.monotonic() + chosen.time
    return chosen


class Results:
    """A file with a line for each build and run."""

    def __init__(self, path):
        self.path, self.lock = path, threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        self.lines = [json.loads(line) for line in lines]
        self.known = {self.key(line) for line in self.lines}

    @staticmethod
    def key(line):
        return line["sample"], line.get("way"), tuple(line.get("arguments", ()))

    def add(self, **line):
        with self.lock:
            self.lines.append(line)
            self.known.add(self.key(line))
            with self.path.open("a", encoding="utf-8") as out:
                out.write(json.dumps(line) + "\n")


def execute(command, limit, **others):
    """Returns the exit code (None if it took too long) and the output."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True, **others)
    try:
        output, _ = process.communicate(timeout=limit)
        code = process.returncode
    except subprocess.TimeoutExpired:
        code = None
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, number)
                process.wait(5)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass
        try:
            output, _ = process.communicate(timeout=5)
        except subprocess.TimeoutExpired as late:  # a child of it holds the pipe
            output = late.output or b""
    return code, output.decode("utf-8", "replace")


def projects(chosen):
    found = {}
    for file in sorted(chosen.samples.glob("Samples/*/**/CMakeLists.txt")):
        text = file.read_text("utf-8")
        if "add_executable" not in text or not re.search(chosen.only, file.parent.name):
            continue
        if chosen.without and re.search(chosen.without, file.parent.name):
            continue
        found[file.parent.name] = file.parent
    return found


def one_architecture(chosen):
    """The projects name nine architectures each: nine times the work."""
    wanted = f"set(CMAKE_CUDA_ARCHITECTURES {chosen.architecture})"
    for file in chosen.samples.glob("**/CMakeLists.txt"):
        text = file.read_text("utf-8")
        new = re.sub(r"set\(CMAKE_CUDA_ARCHITECTURES [^)]*\)", wanted, text)
        new = new.replace("-lineinfo", "")
        if new != text:
            file.write_text(new, "utf-8")


def build(chosen, results, name, source):
    place = chosen.build.resolve() / name
    log = []
    begin = time.monotonic()
    steps = (["-G", "Ninja", "-S", str(source.resolve()), "-B", str(place),
              "-DCMAKE_BUILD_TYPE=Release"],
             ["--build", str(place), "-j", "2"])
    for step in steps:
        code, output = execute([chosen.launcher, *step], chosen.build_limit)
        log.append(output)
        if code != 0:
            break
    programs = [] if code else programs_of(place)
    if not programs and not code:
        code = "nothing to build"
    results.add(sample=name, built=bool(programs), code=code,
                seconds=round(time.monotonic() - begin, 1),
                output="" if programs else "\n".join(log)[-1500:])
    return programs


def programs_of(place):
    return sorted(path for path in place.rglob("*")
                  if path.is_file() and os.access(path, os.X_OK)
                  and "CMakeFiles" not in path.parts
                  and path.suffix not in (".so", ".sh", ".bin", ".a")
                  and path.open("rb").read(4) == b"\x7fELF")


def argument_sets(chosen, name):
    file = chosen.samples / "test_args.json"
    known = json.loads(file.read_text("utf-8")).get(name, {}) if file.exists() else {}
    if known.get("skip"):
        return []
    if "runs" in known:
        return [run.get("args", []) for run in known["runs"] if not run.get("skip")]
    return [known.get("args", [])]


def run(chosen, results, program, way, arguments):
    name = program.name
    command = ways.command(chosen, way, [str(program), *arguments])
    begin = time.monotonic()
    code, output = execute(command, chosen.limit, cwd=program.parent,
                           env=ways.environment(chosen, way))
    results.add(sample=name, way=way, arguments=arguments, code=code,
                seconds=round(time.monotonic() - begin, 2),
                output=output if len(output) < 12000
                else output[:6000] + "\n[...]\n" + output[-6000:])
    print(f"samples.py: {name} {' '.join(arguments)} {way}: {code}", file=sys.stderr,
          flush=True)


def run_everywhere(chosen, results, program):
    for arguments in argument_sets(chosen, program.name):
        for way in chosen.ways:
            if time.monotonic() > chosen.until:
                return
            if (program.name, way, tuple(arguments)) not in results.known:
                run(chosen, results, program, way, arguments)


def build_and_run(chosen, results):
    one_architecture(chosen)
    alone = []
    with ThreadPoolExecutor(chosen.jobs) as builders, ThreadPoolExecutor(chosen.runs) as runners:
        building, running = {}, []
        for name, source in projects(chosen).items():
            if (name, None, ()) in results.known:
                built = programs_of(chosen.build.resolve() / name)
                building[builders.submit(lambda done=built: done)] = name
            else:
                building[builders.submit(build, chosen, results, name, source)] = name
        for future in as_completed(building):
            for program in future.result():
                if program.name in ALONE:
                    alone.append(program)
                else:
                    running.append(runners.submit(run_everywhere, chosen, results, program))
            if time.monotonic() > chosen.until:
                builders.shutdown(wait=False, cancel_futures=True)
                break
        for future in running:
            future.result()
    for program in alone:
        run_everywhere(chosen, results, program)


def plain(output):
    """The output without what differs from run to run."""
    lines = (VARIES.sub("#", line).strip() for line in output.splitlines())
    return [line for line in lines if line and not line.startswith("[")]


def verdicts(output):
    return [line for line in plain(output) if VERDICT.search(line)]


def compare(chosen, results):
    rows = {}
    for line in results.lines:
        if "way" in line:
            key = line["sample"] + " " + " ".join(line["arguments"])
            rows.setdefault(key.strip(), {})[line["way"]] = line
    differing = 0
    for name, row in sorted(rows.items()):
        native = row.get("native") or row.get("mapped")
        for way, line in row.items():
            same = line["code"] == native["code"]
            words = sorted(verdicts(line["output"])) == sorted(verdicts(native["output"]))
            if same and words:
                continue
            differing += not same
            print(f"{name}: {way} ends with {line['code']}, not {native['code']}" if not same
                  else f"{name}: {way} prints other lines")
            told = set(verdicts(native["output"]))
            for text in [text for text in verdicts(line["output"]) if text not in told][:4]:
                print(f"    {text[:150]}")
    builds = [line for line in results.lines if "built" in line]
    print(f"{sum(line['built'] for line in builds)} of {len(builds)} samples built; not: "
          + ", ".join(sorted(line["sample"] for line in builds if not line["built"])))
    for way in ways.WAYS:
        runs = [row[way] for row in rows.values() if way in row]
        print(f"{way}: {len(runs)} runs, {sum(run['code'] == 0 for run in runs)} end with 0; "
              "others: " + ", ".join(f"{run['sample']} ({run['code']})" for run in runs
                                     if run["code"] != 0))
    whole = [row for row in rows.values() if all(way in row for way in chosen.ways)]
    print(f"{len(whole)} of {len(rows)} runs complete, {differing} end with another code")
    return differing


def main():
    chosen = options()
    results = Results(chosen.results)
    if not chosen.compare:
        build_and_run(chosen, results)
    return 1 if compare(chosen, results) else 0


if __name__ == "__main__":
    sys.exit(main())
