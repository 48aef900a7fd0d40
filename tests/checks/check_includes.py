#!/usr/bin/env python3
"""Checks that includes go one way.

usage: check_includes.py

Reads include_order.txt, which lies beside this file, and every #include of the
tracked sources. An include against the order fails, and so does a folder of
sources that has no place in it. spdlog is included by actors/link/log.hpp alone.

Exit status: 0 all is well, 1 something is against the order, 2 wrong usage.
"""
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def read_order():
    """The folders with their places, and what each block may use."""
    places, uses, block = {}, {}, None
    for line in (HERE / "include_order.txt").read_text().splitlines():
        words = line.split()
        if not words or words[0] == "#":
            continue
        if words[0] == "block":
            block = words[1]
            uses[block] = set(words[3:])
        else:
            places[words[0]] = (block, len(places))
    return places, uses


def includes_of(path):
    text = (ROOT / path).read_text(errors="replace")
    return re.findall(r'^\s*#\s*include\s*[<"]([^">]+)[">]', text, re.M)


def wrong_includes(places, uses, files):
    known = set(files)
    folder_of = lambda path: path.rpartition("/")[0]
    for path in files:
        if folder_of(path) not in places:
            continue
        block, place = places[folder_of(path)]
        for target in includes_of(path):
            target = target.removesuffix(".h") if target.endswith(
                ".capnp.h") else target
            if target not in known or folder_of(target) not in places:
                continue
            other_block, other_place = places[folder_of(target)]
            if other_block == block:
                allowed = other_place <= place
            else:
                allowed = other_block in uses[block]
            if not allowed:
                yield f"{path} {target}"


def direct_log_includes(files):
    for path in files:
        if re.search(r"\.[ch]pp$", path) and not path.startswith(
                "actors/link/log."):
            if "spdlog/spdlog.h" in includes_of(path):
                yield path


def main():
    if len(sys.argv) > 1:
        print(__doc__, file=sys.stderr)
        return 2
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, text=True,
                           stdout=subprocess.PIPE,
                           check=True).stdout.splitlines()
    places, uses = read_order()
    failures = [f"{x}: against the order of include_order.txt"
                for x in sorted(wrong_includes(places, uses, files))]
    homeless = {x.rpartition("/")[0] for x in files
                if re.match(r"(schema|devices|policies|actors|interposer|nodes)/"
                            r".*\.[ch]pp$", x)} - set(places)
    failures += [f"{x}: a folder without a place in include_order.txt"
                 for x in sorted(homeless)]
    failures += [f"{x}: include actors/link/log.hpp in place of spdlog"
                 for x in direct_log_includes(files)]
    print("\n".join(failures), file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
