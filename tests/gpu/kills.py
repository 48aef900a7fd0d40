"""Runs a program that prints a line for each step, kills its worker at a random
step of each round, and prints as JSON how long the program waited.

    kills.py [--kill | --in-turns] --vgpu FILE --wanted FILE --steps N
             --rounds N --seed N -- COMMAND...

COMMAND prints `rounds` times `steps` lines. Without --wanted, its lines are not
compared. Waits are in seconds: from the line before to the first line after the
death. Without --kill nothing is killed, and the time of all rounds but the first
is what counts. With --in-turns, snapshots are taken in every second round alone,
from the third one on, and it prints how long these rounds took and the others.
"""

import argparse
import json
import random
import subprocess
import sys
import time


class Program:
    """A running program, its lines, and when each of them came."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, text=True)
        self.lines = []
        self.times = []

    def read(self):
        line = self.process.stdout.readline()
        if line:
            self.lines.append(line)
            self.times.append(time.monotonic())
        return bool(line)

    def longest_gap(self, first, end):
        """Between the lines `first` and `end`, without the latter."""
        times = self.times[first:end]
        return max((b - a for a, b in zip(times, times[1:])), default=0)


def running_sessions(vgpu):
    status = json.loads(subprocess.check_output(
        [vgpu, "status", "--json"], stdin=subprocess.DEVNULL))
    return [session for node in status["nodes"] for gpu in node["pgpus"]
            for session in gpu["sessions"]]


def kill_worker(vgpu):
    """Kills the only worker, once the one before it was replaced."""
    for _ in range(1000):
        found = running_sessions(vgpu)
        if len(found) == 1:
            break
        time.sleep(0.01)
    else:
        sys.exit(f"kills.py: {len(found)} sessions run, 1 is expected")
    subprocess.run([vgpu, "kill-worker", str(found[0])], check=True,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def let_snapshots(vgpu, percent):
    """Sets which part of its time the only vGPU may spend on snapshots."""
    status = json.loads(subprocess.check_output(
        [vgpu, "status", "--json"], stdin=subprocess.DEVNULL))
    subprocess.run([vgpu, "set", str(status["vgpus"][0]["id"]),
                    f"protect-cost={percent}"], check=True,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def run(asked):
    """The program with its deaths: a list of the lines at which they were."""
    program = Program(asked.command)
    chance = random.Random(asked.seed)
    deaths = []
    for start in range(0, asked.rounds * asked.steps, asked.steps):
        # A step of the first round tells that the program works.
        deaths.append(start + chance.randrange(1, asked.steps))
    while program.read():
        lines = len(program.lines)
        if asked.kill and lines in deaths:
            kill_worker(asked.vgpu)
        rounds, rest = divmod(lines, asked.steps)
        if asked.in_turns and rest == 0 and rounds < asked.rounds:
            # The first round is not counted.
            let_snapshots(asked.vgpu, 2 if rounds % 2 == 0 else 0)
    return program, deaths, program.process.wait()


def rounds_in_turns(program, steps):
    """How long the rounds took: without snapshots, and with them."""
    ends = program.times[steps - 1::steps]
    took = [round(b - a, 3) for a, b in zip(ends, ends[1:])]
    without, with_them = sorted(took[0::2]), sorted(took[1::2])
    return {"without": without, "with": with_them,
            "ratio": round(with_them[len(with_them) // 2] /
                           without[len(without) // 2], 4)}


def report(asked, program, deaths, status):
    steps = asked.rounds * asked.steps
    told = {"status": status, "steps": len(program.lines)}
    if status == 0 and len(program.lines) == steps and asked.rounds > 1:
        times = program.times
        told["seconds"] = round(times[-1] - times[asked.steps - 1], 3)
    if asked.wanted:
        with open(asked.wanted) as wanted:
            told["same"] = wanted.readlines() == program.lines
    if asked.in_turns:
        told.update(rounds_in_turns(program, asked.steps))
    elif asked.kill:
        # A line may have been under way when the worker died.
        ends = deaths[1:] + [len(program.lines) + 1]
        waits = sorted(program.longest_gap(a - 1, b)
                       for a, b in zip(deaths, ends))
        told["waits"] = [round(x, 3) for x in waits]
        told["median"] = round(waits[len(waits) // 2], 3)
    else:
        told["longest"] = round(program.longest_gap(0, steps), 3)
    return told


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--vgpu", required=True)
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--in-turns", action="store_true")
    parser.add_argument("--wanted")
    parser.add_argument("--lines", help="a file for what the program prints")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("command", nargs="+")
    asked = parser.parse_args()
    program, deaths, status = run(asked)
    if asked.lines:
        with open(asked.lines, "w") as lines:
            lines.writelines(program.lines)
    print(json.dumps(report(asked, program, deaths, status)))
    return 0 if status == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
