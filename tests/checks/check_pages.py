#!/usr/bin/env python3
"""Checks that pages stay short enough to be read.

usage: check_pages.py

README.md has at most 150 lines, and a folder's README.md at most 80: what lives
there, what it may include, where to start, and how to make the change that
people make most. The rest belongs into docs/. Exit status: 0 all is well, 1 not,
2 wrong usage.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MOST_LINES = {"README.md": 150}
MOST_LINES_OF_A_FOLDER = 80
# Pages that are still longer. Remove a line when its page is short enough, and
# add none.
LONGER = {
}


def complaints(lengths):
    for page, lines in sorted(lengths.items()):
        most = MOST_LINES.get(page, MOST_LINES_OF_A_FOLDER)
        allowed = LONGER.get(page, most)
        if lines > allowed:
            yield (f"{page}: {lines} lines, more than {allowed}; move what not "
                   "every reader needs to docs/")
        elif page in LONGER and lines <= most:
            yield f"{page}: {lines} lines: take it off the list in {__file__}"
    for page in sorted(LONGER.keys() - lengths.keys()):
        yield f"{page}: there is no such page: take it off the list in {__file__}"


def main():
    if len(sys.argv) > 1:
        print(__doc__, file=sys.stderr)
        return 2
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, text=True,
                           stdout=subprocess.PIPE,
                           check=True).stdout.splitlines()
    lengths = {x: len((ROOT / x).read_text(errors="replace").splitlines())
               for x in files
               if re.search(r"(^|/)README\.md$", x) and (ROOT / x).is_file() and
               not x.startswith("docs/")}
    wrong = list(complaints(lengths))
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
