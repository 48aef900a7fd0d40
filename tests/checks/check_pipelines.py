#!/usr/bin/env python3
"""Checks that no pipeline of a script fails because its reader left early.

usage: check_pipelines.py

Under `set -o pipefail` a pipeline fails when a command in it does. `grep -q`,
`grep -m` and `head` stop reading when they know enough, and the command before
them is ended by SIGPIPE if it has more to write: now and then, on a busy
machine. Bash scripts use a reader that reads to the end, for example
`grep ... >/dev/null`, `sed -n 1,20p` or `jq -s 'any(.[]; ...)'`. Exit status:
0 all is well, 1 not, 2 wrong usage.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LEAVES = re.compile(r"(?<!\|)\|\s*(grep( +-\w+)* +-\w*[qm]\w*|head\b"
                    r"|jq\b[^|]*\bfirst\(inputs)")
COMMENT = re.compile(r"(^|\s)#.*$")


def commands_of(text):
    """Each command's first line and its text, in one line."""
    start, joined = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        start = start if joined else number
        joined += COMMENT.sub("", line).rstrip("\\") + " "
        if not line.rstrip().endswith(("|", "\\")):
            yield start, joined
            joined = ""


def main():
    if len(sys.argv) > 1:
        print(__doc__, file=sys.stderr)
        return 2
    scripts = subprocess.run(["git", "ls-files", "*.sh", ".ci/run"], cwd=ROOT,
                             text=True, stdout=subprocess.PIPE,
                             check=True).stdout.splitlines()
    failures = []
    for script in scripts:
        text = (ROOT / script).read_text()
        if text.startswith("#!/bin/sh"):
            continue  # has no such option
        failures += [f"{script}:{number}: `{found[0].strip()}` leaves before "
                     "the end: the pipeline fails when the writer has more to "
                     "say"
                     for number, command in commands_of(text)
                     if (found := LEAVES.search(command))]
    print("\n".join(failures), file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
