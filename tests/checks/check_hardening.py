#!/usr/bin/env python3
"""Checks that all programs and libraries in bin/ and lib/ of a build folder are
hardened as cmake/Hardening.cmake says. CUDA programs of tests and examples are not
there: they are made by nvcc alone, as users make theirs.

usage: check_hardening.py BUILD
"""

import re
import subprocess
import sys
from pathlib import Path

# What must be there. Whatever else is there is checked, too.
SHIPPED = {"bin/vgpu", "bin/vgpu-manager", "bin/vgpu-node", "bin/vgpu-worker",
           "bin/vgpu-client", "lib/libcuda.so.1", "lib/libnvidia-ml.so.1",
           "lib/libcupti.so.12", "lib/libcupti.so.13", "lib/smi/nvidia-smi"}
# These call no function of the C library that has a checked form.
CALL_NONE = {"lib/libcupti.so.12", "lib/libcupti.so.13", "lib/libfake_cupti.so",
             "lib/libfake_driver.so"}


def is_elf(path):
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def files_in(build):
    for folder in ("bin", "lib"):
        for path in sorted((build / folder).rglob("*")):
            if is_elf(path):
                yield path.relative_to(build).as_posix()


def readelf(options, path):
    return subprocess.run(["readelf", "-W", *options, path], check=True,
                          capture_output=True, text=True).stdout


def faults_of(path, may_call_none=False):
    dynamic = readelf(["-d"], path)
    segments = readelf(["-l"], path)
    symbols = readelf(["--dyn-syms"], path)
    if "INTERP" in segments and not re.search(r"FLAGS_1.*\bPIE\b", dynamic):
        yield "is not position-independent"
    if not re.search(r"FLAGS.*\bNOW\b", dynamic):
        yield "binds addresses late: -z now is missing"
    if "GNU_RELRO" not in segments:
        yield "has no section that is read-only after the start: -z relro is missing"
    if re.search(r"GNU_STACK.*RWE", segments):
        yield "has an executable stack"
    if "__stack_chk_fail" not in symbols:
        yield "has no guarded stacks: -fstack-protector-strong is missing"
    if not may_call_none and not re.search(
            r"__\w+_chk\b", symbols.replace("__stack_chk_fail", "")):
        yield "calls no checked function of the C library: _FORTIFY_SOURCE is missing"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build = Path(sys.argv[1])
    files = set(files_in(build))
    found = [f"{name} is missing" for name in sorted(SHIPPED - files)]
    for name in sorted(files):
        found += [f"{name} {fault}"
                  for fault in faults_of(build / name, name in CALL_NONE)]
    print(*found, sep="\n", end="\n" if found else "")
    print(f"expected {len(files)} hardened files, saw {len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
