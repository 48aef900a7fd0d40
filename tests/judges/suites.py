#!/usr/bin/env python3
"""Runs other people's test suites natively and on vGPUs, and compares test by test."""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import ways

HERE = Path(__file__).resolve().parent
NO_TESTS = 5  # pytest's exit status where it has no test to run
# A suite of this table runs as Debian's packages install it. Numba finds its compiler in
# CUDA_HOME.
NUMBA = {
    "python": "/usr/bin/python3",
    "plugins": ["suite_numba"],
    # A test whose kernel does not compile leaves a context to the tests after it.
    "alone": "file",
    "environment": {"CUDA_HOME": "/usr/local/cuda"},
    "packages": "python3-numba python3-pytest",
}
SUITES = {
    "numba": {**NUMBA, "paths": ["--pyargs", "numba.cuda.tests.cudadrv"]},
    "numba-kernels": {**NUMBA, "paths": ["--pyargs", "numba.cuda.tests.cudapy"]},
}
EXAMPLES = """
A suite (with --alone, a file or a test of it) runs in one process until a test ends that process or says nothing for longer
than --patience. Such a test is `crashed` or `hung`, and a new process goes on with the
next test. Results are appended to OUT/NAME.WAY.jsonl: what is there is not run again.

exit status: 0 if all ways have the same results, 1 if they differ, 2 for wrong usage

examples:
  tests/judges/suites.py numba --ways mapped,forwarded
  tests/judges/suites.py --paths pytorch/test/test_cuda.py --ways native,mapped
  tests/judges/suites.py --paths tests/ --name cupy --shard 2/8 --only 'test_memory'
"""


def options():
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", nargs="?", choices=sorted(SUITES),
                        help="a suite of Debian's packages")
    parser.add_argument("--paths", nargs="+", help="what pytest is given, in place of a suite")
    parser.add_argument("--name", help="the name of the results (the suite's, or `paths`)")
    ways.add_options(parser, "mapped,forwarded")
    parser.add_argument("--only", help="an expression for pytest's -k")
    parser.add_argument("--shard", default="1/1", help="I/N: each N-th test, from the I-th")
    parser.add_argument("--alone", choices=("test", "file"),
                        help="a process for each test, or for each file")
    parser.add_argument("--patience", type=float, default=300, metavar="S",
                        help="a test that runs for longer counts as hung (300)")
    parser.add_argument("--python", help="the interpreter with the suite's packages")
    parser.add_argument("--out", default="build/judges", type=Path, help="folder of results")
    parser.add_argument("--compare", action="store_true",
                        help="only compare what is there: the tests that all ways have")
    parser.add_argument("--json", action="store_true", help="the comparison as JSON")
    chosen = parser.parse_args()
    if bool(chosen.suite) == bool(chosen.paths):
        parser.error("give a suite, or --paths")
    ways.read_options(parser, chosen)
    shard = re.fullmatch(r"([1-9]\d{0,3})/([1-9]\d{0,3})", chosen.shard)
    if not shard or int(shard[1]) > int(shard[2]):
        parser.error(f"--shard '{chosen.shard}': give I/N with 1 <= I <= N")
    chosen.name = chosen.name or chosen.suite or "paths"
    return chosen


def read_lines(path):
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def results(path):
    """The result of each test: the worst of its phases."""
    order = ("passed", "skipped", "failed", "crashed", "hung")
    found = {}
    for line in read_lines(path):
        if "result" not in line:
            continue
        before = found.get(line["test"])
        if not before or order.index(line["result"]) > order.index(before["result"]):
            found[line["test"]] = line
    return found


def running_test(path):
    """The test that began and did not end, if there is one."""
    begun = None
    for line in read_lines(path):
        if line.get("begins"):
            begun = line["test"]
        elif line["test"] == begun:
            begun = None
    return begun


def append(path, **line):
    with path.open("a", encoding="utf-8") as out:
        out.write(json.dumps(line) + "\n")


def command(chosen, way):
    suite = SUITES.get(chosen.suite, {})
    python = chosen.python or suite.get("python", sys.executable)
    line = [python, "-m", "pytest", "-q", "-p", "one_line_a_test", "-p", "no:cacheprovider",
            "--tb=short", *(f"-p{plugin}" for plugin in suite.get("plugins", [])),
            *(chosen.paths or suite["paths"])]
    if chosen.only:
        line += ["-k", chosen.only]
    return ways.command(chosen, way, line)


def environment(chosen, way, lines):
    suite = SUITES.get(chosen.suite, {})
    path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    ours = {"JUDGE_LINES": str(lines.resolve()), "JUDGE_SHARD": chosen.shard,
            "JUDGE_ALONE": chosen.alone or suite.get("alone", ""),
            "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    return {**suite.get("environment", {}), **ways.environment(chosen, way), **ours}


def end_process(process):
    """Ends the process with all that it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def run_once(chosen, way, lines, output):
    """Runs until the suite's process ends. Returns its status, or None if a test hung."""
    process = subprocess.Popen(
        command(chosen, way), env=environment(chosen, way, lines), stdin=subprocess.DEVNULL,
        stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    size, since = -1, time.monotonic()
    while process.poll() is None:
        now = lines.stat().st_size if lines.exists() else 0
        if now != size:
            size, since = now, time.monotonic()
        elif time.monotonic() - since > chosen.patience:
            end_process(process)
            return None
        try:
            process.wait(1)
        except subprocess.TimeoutExpired:
            pass
    # Children of a process that died may hold its vGPU.
    end_process(process)
    return process.returncode


def run_way(chosen, way):
    chosen.out.mkdir(parents=True, exist_ok=True)
    lines = chosen.out / f"{chosen.name}.{way}.jsonl"
    alone = chosen.alone or SUITES.get(chosen.suite, {}).get("alone")
    if cut := running_test(lines):
        # Whoever ended this script ended the test, which says nothing of the test.
        print(f"{way}: {cut} was interrupted and runs again", file=sys.stderr)
    with (chosen.out / f"{chosen.name}.{way}.out").open("ab") as output:
        while True:
            before = len(read_lines(lines))
            status = run_once(chosen, way, lines, output)
            done = len(results(lines))
            print(f"{way}: {done} tests", file=sys.stderr)
            test = running_test(lines)
            if status == NO_TESTS or (status in (0, 1) and not test and not alone):
                return results(lines)
            if status in (0, 1) and not test and len(read_lines(lines)) > before:
                continue
            if test and len(read_lines(lines)) > before:
                append(lines, test=test, result="hung" if status is None else "crashed",
                       why=f"status {status}")
                continue
            sys.exit(f"suites.py: pytest ended with {status} before a test ran; see "
                     f"{output.name}")


def compare(chosen, found):
    together = set.intersection if chosen.compare else set.union
    tests = sorted(together(*(set(tests) for tests in found.values())))
    differences = []
    for test in tests:
        row = {way: found[way].get(test, {"result": "missing", "why": ""}) for way in found}
        if len({cell["result"] for cell in row.values()}) > 1:
            differences.append({"test": test, **{
                way: {"result": cell["result"], "why": cell["why"]}
                for way, cell in row.items()}})
    counts = {way: dict(Counter(line["result"] for line in found[way].values()))
              for way in found}
    if chosen.json:
        print(json.dumps({"suite": chosen.name, "counts": counts,
                          "differences": differences}, indent=2))
        return len(differences)
    columns = ("passed", "skipped", "failed", "crashed", "hung")
    print(f"{chosen.name:<12}" + "".join(f"{column:>9}" for column in columns))
    for way in found:
        print(f"{way:<12}" + "".join(f"{counts[way].get(c, 0):>9}" for c in columns))
    for row in differences:
        print(f"\n{row['test']}")
        for way in found:
            print(f"  {way:<10} {row[way]['result']:<8} {row[way]['why']}")
    print(f"\n{len(tests)} tests, {len(differences)} with different results")
    return len(differences)


def main():
    chosen = options()
    packages = "" if chosen.compare else SUITES.get(chosen.suite, {}).get("packages", "")
    for package in packages.split():
        known = subprocess.run(["dpkg-query", "-W", package], capture_output=True, check=False)
        if known.returncode:
            sys.exit(f"suites.py: {chosen.suite} needs a package: apt-get install {packages}")
    if chosen.compare:
        found = {way: results(chosen.out / f"{chosen.name}.{way}.jsonl") for way in chosen.ways}
    else:
        found = {way: run_way(chosen, way) for way in chosen.ways}
    return 1 if compare(chosen, found) else 0


if __name__ == "__main__":
    sys.exit(main())
