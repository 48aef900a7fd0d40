"""What all workloads share: their list, what they print, and how they are timed.

A workload prints lines that must be the same natively and on a vGPU, so that a
value goes out with all of its bits. What may differ, times, goes to the file of
--times, a line `NAME VALUE ns` each, in the form of calls.cu.
"""

import argparse
import hashlib
import os
import statistics
import sys
import time

# CUDA reads both variables when it starts.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
os.environ.setdefault("PYTHONHASHSEED", "0")

import torch

known = {}
times = None


class Skipped(Exception):
    """This machine lacks what the workload needs; says what."""


def workload(function):
    """Puts a function among the workloads, by its name."""
    known[function.__name__] = function
    return function


def device(index=0):
    return torch.device("cuda", index)


def digest(*tensors):
    """A digest of all bits of some tensors."""
    state = hashlib.sha256()
    for x in tensors:
        x = x.detach().resolve_conj().contiguous().cpu()
        state.update(x.reshape(-1).view(torch.uint8).numpy().tobytes())
    return state.hexdigest()[:16]


def say(name, *tensors):
    """Prints a digest of results."""
    print(name, digest(*tensors), flush=True)


def timed(name, call, rounds=20, warm_up=5, each=1):
    """The median time of `each` calls and a synchronisation, per call."""
    for _ in range(warm_up):
        call()
    torch.cuda.synchronize()
    measured = []
    for _ in range(rounds):
        begin = time.perf_counter_ns()
        for _ in range(each):
            call()
        torch.cuda.synchronize()
        measured.append((time.perf_counter_ns() - begin) / each)
    if times:
        times.write(f"{name} {statistics.median(measured):.0f} ns\n")
        times.flush()


def reproducible(seed=0):
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False


def main():
    global times
    parser = argparse.ArgumentParser(
        description="Runs PyTorch workloads that print the same results "
        "natively and on a vGPU.")
    parser.add_argument("names", nargs="*", help="all of them if there is none")
    parser.add_argument("--list", action="store_true", help="prints the names")
    parser.add_argument("--times", help="where times are written")
    asked = parser.parse_args()
    if asked.list:
        print("\n".join(known))
        return 0
    unknown = [x for x in asked.names if x not in known]
    if unknown:
        parser.error(f"no such workload: {unknown[0]}; --list names them")
    if asked.times:
        times = open(asked.times, "w")
    for name in asked.names or known:
        try:
            known[name]()
        except Skipped as why:
            print(f"{name}: skipped: {why}", flush=True)
    return 0


def run():
    sys.exit(main())
