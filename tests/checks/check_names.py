#!/usr/bin/env python3
"""Checks the shape of the tree: names and sizes of folders.

usage: check_names.py

No two sources of different folders have the same name, and no folder of sources
has more than 45 files, so that a name says where a thing is and a folder can be
read at a glance. Exit status: 0 all is well, 1 not, 2 wrong usage.
"""
import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SOURCES = re.compile(r"\.(cpp|hpp|h|c|cu|cuh|inl|def|capnp|sh|py)$")
# e2e has one script per subject, and all share lib.sh and one CMakeLists.txt.
MOST_FILES = collections.defaultdict(lambda: 45, {"tests/e2e": 60})
# Programs for other projects, in folders that name what they test.
OWN_NAMES = re.compile(r"^(tests/(judges|gpu/judges|gpu/pytorch)|\.ci)/")


def main():
    if len(sys.argv) > 1:
        print(__doc__, file=sys.stderr)
        return 2
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, text=True,
                           stdout=subprocess.PIPE,
                           check=True).stdout.splitlines()
    sources = [x for x in files if SOURCES.search(x)]
    places = collections.defaultdict(set)
    for path in sources:
        folder, _, name = path.rpartition("/")
        if not OWN_NAMES.match(path):
            places[name].add(folder)
    failures = [f"{name}: there is one in {' and in '.join(sorted(folders))}"
                for name, folders in sorted(places.items()) if len(folders) > 1]
    count = collections.Counter(x.rpartition("/")[0] for x in sources)
    failures += [f"{folder}: {n} sources, more than {MOST_FILES[folder]}"
                 for folder, n in sorted(count.items())
                 if n > MOST_FILES[folder]]
    print("\n".join(failures), file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
