#!/usr/bin/env python3
"""Checks that faults carry CUDA's codes only where CUDA's codes belong.

usage: check_faults.py

Code outside of the edge folders makes a fault of a fault_kind. It neither calls
cuda_fault() nor names a code of the CUDA driver.

Exit status: 0 all is so, 1 something is not.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("schema", "policies", "nodes", "actors")
# The folders that audit and execute programs' calls.
EDGES = ("actors/worker/execute/", "actors/worker/session/",
         "actors/state/vgpu_state", "actors/state/vgpu_mappings",
         "actors/state/event_times", "actors/state/device_wait",
         "schema/base/cuda_fault.hpp")
# These hold messages to programs, which carry codes.
MESSAGES = ("actors/",)
MAKES = re.compile(r"\bcuda_fault\(|\bdriver_code\b|\bfault\s*\{\s*CUDA_")
NAMES = re.compile(r"\bCUDA_ERROR_\w+")


def code_of(line):
    return re.sub(r'"(\\.|[^"\\])*"', '""', line).split("//")[0]


def main():
    wrong = 0
    for path in sorted(p for f in FOLDERS for p in (ROOT / f).rglob("*.[ch]pp")):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(EDGES) or name == "schema/base/fault.hpp":
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            text = code_of(line)
            if MAKES.search(text) or (NAMES.search(text)
                                      and not name.startswith(MESSAGES)):
                print(f"{name}:{number}: a fault here has a kind, not a code "
                      f"of the CUDA driver: {line.strip()}")
                wrong = 1
    return wrong


sys.exit(main())
