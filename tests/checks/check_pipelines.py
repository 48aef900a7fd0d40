#!/usr/bin/env python3
"""Checks that no pipeline of a script fails because its reader left early.

usage: check_pipelines.py

Under `set -o pipefail` a pipeline fails when a command in it does. `grep -q`,
`grep -m` and `head` stop to read when they know enough, and the command before
them is ended by SIGPIPE if it has more to write: now and then, on a busy
machine. Bash scripts use a reader that reads to the end, for example
`grep ... >/dev/null`, `sed -n 1,20p` or `jq -s 'any(.[]; ...)'`. Exit status:
0 all is well, 1 not, 2 wrong usage.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("actors", "cmake", "devices", "docs", "examples", "interposer",
           "nodes", "policies", "schema", "tests", ".ci")
LEAVES = re.compile(r"(?<!\|)\|\s*(?:LC_ALL=\w+ +)?"
                    r"(?:(?P<tool>grep)(?: +-\w+)* +-\w*[qm]\w*"
                    r"|(?P<head>head)\b"
                    r"|jq\b[^|]*\b(?P<first>first\(inputs))")
COMMENT = re.compile(r"(^|\s)#.*$")


def scripts():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix == ".sh" or path == ROOT / ".ci" / "run":
                yield path


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
    if len(sys.argv) != 1:
        sys.exit(__doc__)
    wrong = 0
    for path in scripts():
        text = path.read_text()
        if text.startswith("#!/bin/sh"):
            continue  # has no such option
        for number, command in commands_of(text):
            found = LEAVES.search(command)
            if found:
                wrong += 1
                print(f"{path.relative_to(ROOT)}:{number}: "
                      f"`{found[0].strip()}` leaves before the end: the "
                      "pipeline fails when the writer has more to say")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
