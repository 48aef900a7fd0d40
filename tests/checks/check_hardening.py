#!/usr/bin/env python3
"""Checks that programs and libraries are hardened as cmake/Hardening.cmake says.

usage: check_hardening.py BUILD
"""

import re
import subprocess
import sys
from pathlib import Path

PROGRAMS = ("vgpu", "vgpu-manager", "vgpu-node", "vgpu-worker", "vgpu-client")
LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")


def readelf(options, path):
    return subprocess.run(["readelf", "-W", *options, path], check=True,
                          capture_output=True, text=True).stdout


def faults_of(path, is_program):
    dynamic = readelf(["-d"], path)
    segments = readelf(["-l"], path)
    symbols = readelf(["--dyn-syms"], path)
    if is_program and not re.search(r"FLAGS_1.*\bPIE\b", dynamic):
        yield "is not position-independent"
    if not re.search(r"FLAGS.*\bNOW\b", dynamic):
        yield "binds addresses late: -z now is missing"
    if "GNU_RELRO" not in segments:
        yield "has no section that is read-only after the start: -z relro is missing"
    if re.search(r"GNU_STACK.*RWE", segments):
        yield "has an executable stack"
    if "__stack_chk_fail" not in symbols:
        yield "has no guarded stacks: -fstack-protector-strong is missing"
    if not re.search(r"__\w+_chk\b", symbols.replace("__stack_chk_fail", "")):
        yield "calls no checked function of the C library: _FORTIFY_SOURCE is missing"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build = Path(sys.argv[1])
    found = 0
    for folder, names in (("bin", PROGRAMS), ("lib", LIBRARIES)):
        for name in names:
            for fault in faults_of(build / folder / name, folder == "bin"):
                print(f"{folder}/{name} {fault}")
                found += 1
    print(f"expected {len(PROGRAMS) + len(LIBRARIES)} hardened files, saw {found} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
