#!/usr/bin/env python3
"""Walks the catalogue's column of tests.

usage: check_setters.py [CATALOGUE]

Every served call that sets something names the test in which it is told again
and acts, in the line of its newest version. A line without a test, a test that
does not exist, and a test that does not make the call are errors. Exit status:
0 all is well, 1 not.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINE = re.compile(r'VGPU_CALL\((\w+), (\w+), (\d+), (\w+), (\w+), [\w |]+, '
                  r'"[^"]*"(?:, "([^"]*)")?\)$')
# Parts of names of calls that set something, and calls that look like them.
SETS = re.compile(r"Set|Advise|Attach|Detach|Reset|Enable|Disable|Register|"
                  r"Unregister|CopyAttributes|Exchange")
SETS_NOTHING = {"cuGraphNodeGetEnabled"}
SOURCES = (".cpp", ".cu")


def newest(path):
    """The newest served line of each call, with its column."""
    out = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.startswith("VGPU_CALL("):
            continue
        found = LINE.match(line)
        if not found:
            sys.exit(f"{path}:{number}: not a line of the catalogue: {line}")
        _, name, version, flavour, served, test = found.groups()
        if served == "refused" or flavour != "none":
            if test:
                sys.exit(f"{path}:{number}: only the newest version names a "
                         "test")
            continue
        known = out.get(name)
        if known is None or int(version) >= known[0]:
            out[name] = (int(version), number, test)
    return out


def names_of(call):
    """A call's name, and those of the runtime that make it."""
    rest = call.removeprefix("cu")
    return {call, "cuda" + rest, "cudaDevice" + rest.removeprefix("Ctx")}


def case_in(text, case):
    """The text of a case, or null. A case ends with the first brace at the
    beginning of a line."""
    found = re.search(r"BOOST_\w+_TEST_CASE\(\s*" + case + r"\b", text)
    return found and text[found.start():].partition("\n}")[0]


def wrong_with(call, test, sources):
    stem, _, case = test.partition("/")
    if stem not in sources:
        return f"there is no source tests/**/{stem}.cpp or .cu"
    text = sources[stem].read_text()
    if case and not case_in(text, case):
        return f"{sources[stem].relative_to(ROOT)} has no case {case}"
    # Helpers of a case may make the call.
    if not any(re.search(rf"\b{x}\w*\b", text) for x in names_of(call)):
        return f"{sources[stem].relative_to(ROOT)} does not call it"
    return None


def main():
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else \
        ROOT / "schema/catalogue/catalogue.def"
    sources = {x.stem: x for x in (ROOT / "tests").rglob("*")
               if x.suffix in SOURCES}
    bad = 0
    for call, (_, number, test) in sorted(newest(path).items()):
        why = None
        if test:
            why = wrong_with(call, test, sources)
        elif SETS.search(call) and call not in SETS_NOTHING:
            why = "it sets something, and its line names no test of that"
        if why:
            print(f"{path}:{number}: {call}: {why}")
            bad += 1
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
