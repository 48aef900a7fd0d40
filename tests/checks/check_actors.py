#!/usr/bin/env python3
"""Checks the table of actors against the actors' headers.

usage: check_actors.py

Every interface NAME_actor of a header actors/**/*_actor.hpp has one row in the
table of docs/design/actors.md. The row names, in code font, each message that
the interface takes and no other, and in what the actor says each of its answers
and nothing that no interface takes. Exit status: 0 all is well, 1 not, 2 wrong
usage.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = pathlib.Path("docs/design/actors.md")

COMMENT = re.compile(r"//[^\n]*")
INTERFACE = re.compile(
    r"using\s+(\w+)\s*=\s*caf::typed_actor<((?:[^;])*)>\s*;")
MESSAGE = re.compile(
    r"caf::(?:reacts_to|replies_to)<([^<>]*)>(?:::with<([^<>]*)>)?")
CODE = re.compile(r"`([^`]+)`")
COLUMNS = ["actor", "process", "supervised by", "is asked", "says",
           "when it dies"]


def name_of(types):
    """The message of a list of types: the last one, without its namespace.
    Handles of the sender stand before it."""
    return types.split(",")[-1].strip().rpartition("::")[2]


def interfaces_in(text):
    """Each interface of a header, with what it takes and what it answers."""
    for name, body in INTERFACE.findall(COMMENT.sub("", text)):
        found = MESSAGE.findall(body)
        yield name, ({name_of(x) for x, _ in found},
                     {name_of(y) for _, y in found if y})


def rows_in(page):
    """The rows of the table, each as a list of its cells."""
    found = False
    for line in page.splitlines():
        cells = [x.strip() for x in line.strip().strip("|").split("|")]
        if cells == COLUMNS:
            found = True
        elif found and not line.startswith("|"):
            return
        elif found and not set(line) <= set("|- "):
            yield cells


def list_of(names):
    return ", ".join(sorted(names))


def differences(of, named, there):
    if there - named:
        yield f"{of} does not name {list_of(there - named)}"
    if named - there:
        yield f"{of} names {list_of(named - there)}, which is not there"


def complaints(headers, page):
    """`headers`: the text of each header of actors/, by its path."""
    typed = {}
    actors = {}
    for path, text in headers.items():
        found = dict(interfaces_in(text))
        typed.update(found)
        if path.endswith("_actor.hpp"):
            actors.update({name: x for name, x in found.items()
                           if name.endswith("_actor")})
    known = {x for takes, answers in typed.values() for x in takes | answers}
    rows = {}
    for cells in rows_in(page):
        if len(cells) != len(COLUMNS):
            yield f"a row has {len(cells)} cells: {cells[0]}"
            continue
        for name in CODE.findall(cells[0]) or [cells[0]]:
            if name in rows:
                yield f"{name} has two rows"
            rows[name] = [set(CODE.findall(cells[i])) for i in (3, 4)]
    if not rows:
        yield "there is no table with the columns " + ", ".join(COLUMNS)
    for name in sorted(actors.keys() - rows.keys()):
        yield f"{name} has no row"
    for name, (asked, says) in sorted(rows.items()):
        if name.endswith("_actor") and name not in actors:
            yield f"{name} has a row, and no header"
        takes, answers = actors.get(name, (set(), set()))
        yield from differences(f"the row of {name}", asked, takes)
        if answers - says:
            yield (f"the row of {name} does not say that it answers "
                   f"{list_of(answers - says)}")
        if says - known:
            yield (f"the row of {name} says {list_of(says - known)}, which no "
                   "interface takes")


def main():
    if len(sys.argv) > 1:
        print(__doc__, file=sys.stderr)
        return 2
    headers = {str(x.relative_to(ROOT)): x.read_text()
               for x in sorted((ROOT / "actors").rglob("*.hpp"))}
    wrong = list(complaints(headers, (ROOT / PAGE).read_text()))
    for line in wrong:
        print(f"{PAGE}: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
