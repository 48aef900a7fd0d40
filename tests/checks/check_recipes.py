#!/usr/bin/env python3
"""Follows a recipe of the documentation in a copy of the tree, and builds the result.

usage: check_recipes.py BUILD CUDA_INCLUDE RECIPE

RECIPE names a file of tests/checks/recipes, an example with all that the recipe adds.
Each of its parts begins with `@@ FILE`, and with `before`, `after` or `replace` and a
regular expression for one place in that file. `{next}` is one more than the largest
number that the expression after `next` finds in front of that place. The recipe must
name each file that the example changes, and the example must follow each numbered step.
The result is then compiled, and the tests of the codec are run with it. Exit status: 0
all is well, 1 not, 2 wrong usage.
"""
import collections
import fnmatch
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COPIED = ("schema", "interposer", "actors", "policies", "devices/interface",
          "tests/main.cpp", "tests/unit/actors/link", "tests/unit/schema/wire")


class recipe:
    """`pages`: where it is written, by page and heading. `tests`: sources of one
    program of tests. `compiled`: what else has to compile. `entry_point`: a symbol,
    and the source that has its body now, in place of a stub."""

    def __init__(self, pages, tests, compiled, entry_point=None):
        self.pages = pages
        self.tests = tests
        self.compiled = compiled
        self.entry_point = entry_point


RECIPES = {
    "driver_call": recipe(
        pages=(("schema/README.md", "Recipe: add a driver call"),
               ("interposer/README.md", "Recipe: serve one more entry point")),
        tests=("tests/unit/schema/wire/call_codec_test.cpp",),
        compiled=("actors/worker/execute/dispatch_streams.cpp",
                  "actors/worker/execute/executor.cpp"),
        entry_point=("cuCheckpointProcessGetState",
                     "interposer/api/init_calls.cpp")),
    "control_message": recipe(
        pages=(("schema/wire/README.md", "How to add a control message"),),
        tests=("tests/unit/actors/link/codec_test.cpp", "actors/link/codec.cpp",
               "actors/link/printable.cpp", "actors/link/frames.cpp"),
        compiled=("actors/manager/sessions/vgpu_settings.cpp",)),
}


def fail(text):
    print(text)
    sys.exit(1)


def run(what, *command, **options):
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **options)
    if done.returncode != 0:
        fail(f"{what}:\n{done.stdout[-6000:]}")
    return done.stdout


def copy_tree(to):
    shutil.rmtree(to, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--",
                             *COPIED], cwd=ROOT, check=True, text=True,
                            stdout=subprocess.PIPE).stdout.splitlines()
    for name in listed:
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def section(page, heading):
    text = (ROOT / page).read_text()
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text,
                      re.M | re.S)
    if not found:
        fail(f"{page} has no recipe '{heading}' any more")
    return found[1]


def names(text, path):
    """Whether a word in backquotes names the file: by path, by name, by folder or by
    pattern."""
    return any(word.endswith("/") and word in path
               or fnmatch.fnmatch(path, word) or fnmatch.fnmatch(path, "*/" + word)
               for word in re.findall(r"`([^`\n]+)`", text))


def check_places(pages, changed):
    texts = [section(*page) for page in pages]
    for path in changed:
        if not any(names(text, path) for text in texts):
            fail(f"the recipe '{pages[0][1]}' does not name {path}")
    for step in re.findall(r"^\d+\. .*\n(?:[ ].*\n|\n(?=[ ]))*", texts[0], re.M):
        if not any(names(step, path) for path in changed):
            fail(f"the example does not follow this step of {pages[0][0]}:\n{step}")


part = collections.namedtuple("part", "path how place next text")


def read_parts(path):
    for block in re.split(r"^@@ ", path.read_text(), flags=re.M)[1:]:
        lines = block.rstrip("\n").splitlines()
        file, lines = lines[0], lines[1:]
        following = None
        if lines[0].startswith("next "):
            following, lines = lines[0][len("next "):], lines[1:]
        how, place = lines[0].split(" ", 1)
        yield part(file, how, place, following, "\n".join(lines[1:]) + "\n")


def follow(x, tree):
    file = tree / x.path
    if not file.is_file():
        fail(f"{x.path} is gone, where the recipe has a step")
    text = file.read_text()
    places = list(re.finditer(x.place, text, re.M))
    if len(places) != 1:
        fail(f"{x.path}: {len(places)} places match {x.place}, in place of one")
    begin, end = places[0].span()
    added = x.text
    if x.next:
        numbers = [int(n) for n in re.findall(x.next, text[:begin], re.M)]
        added = added.replace("{next}", str(max(numbers) + 1))
    if x.how == "before":
        end = begin
    elif x.how == "after":
        begin = end = end + 1
    else:
        added = added.rstrip("\n")
    file.write_text(text[:begin] + added + text[end:])


class builder:
    def __init__(self, tree, build, cuda):
        self.tree = tree
        self.flags = ["-std=c++20", "-O0", "-w", "-DBOOST_TEST_DYN_LINK",
                      f"-I{tree}", f"-isystem{tree}/generated",
                      f"-isystem{build}/generated", f"-isystem{cuda}"]
        self.build = build

    def schemas(self):
        """The schemas that the recipe changed, as C++."""
        out = self.tree / "generated"
        out.mkdir()
        run("capnp", "capnp", "compile", f"-oc++:{out}",
            "--src-prefix=" + str(self.tree), f"-I{self.tree}",
            *(str(x) for x in sorted(self.tree.glob("schema/wire/*.capnp"))))
        return sorted(str(x) for x in out.glob("schema/wire/*.c++"))

    def examine(self, source):
        run(source, "c++", *self.flags, "-fsyntax-only", str(self.tree / source))

    def compile(self, source):
        out = self.tree / (pathlib.Path(source).name + ".o")
        run(source, "c++", *self.flags, "-c", str(self.tree / source), "-o",
            str(out))
        return out

    def test(self, sources, generated):
        program = self.tree / "recipe_test"
        run("the tests", "c++", *self.flags, str(self.tree / "tests/main.cpp"),
            *(str(self.tree / x) for x in sources), *generated, "-o", str(program),
            *(str(self.build / "schema" / x)
              for x in ("log/libvgpu_schema_log.a", "base/libvgpu_schema_base.a")),
            "-lboost_unit_test_framework", "-lcapnp", "-lkj", "-lzmq",
            "-lcaf_core", "-lfmt")
        run("the tests", str(program))


def defines(object_file, symbol):
    return bool(re.search(rf" T {symbol}$",
                          run("nm", "nm", str(object_file)), re.M))


def main():
    if len(sys.argv) != 4 or sys.argv[3] not in RECIPES:
        sys.exit(__doc__)
    build, cuda, name = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3]
    what = RECIPES[name]
    parts = list(read_parts(pathlib.Path(__file__).parent / "recipes" /
                            (name + ".steps")))
    check_places(what.pages, sorted({x.path for x in parts}))
    tree = build / "recipes" / name
    copy_tree(tree)
    for x in parts:
        follow(x, tree)
    made = builder(tree, build, cuda)
    generated = made.schemas()
    made.test(what.tests, generated)
    for source in what.compiled:
        made.examine(source)
    if what.entry_point is not None:
        symbol, source = what.entry_point
        if not defines(made.compile(source), symbol):
            fail(f"{source} does not define {symbol}")
        if defines(made.compile("interposer/exports/refused.cpp"), symbol):
            fail(f"{symbol} still has a stub of a refused call")
    shutil.rmtree(tree)


if __name__ == "__main__":
    main()
