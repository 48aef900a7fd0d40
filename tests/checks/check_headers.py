#!/usr/bin/env python3
"""Checks that each header compiles alone.

usage: check_headers.py BUILD [--all] [--jobs N] [HEADER...]

Compiles a file that includes one header and nothing else, with the options of
that header's folder and without a precompiled header. It looks at the headers
that changed since the branch left main, or, on main, with the last commit; with
--all at every header; or at those that are named. BUILD is a build folder whose
sources are built: some headers include what the build makes.

BUILD/headers_alone.json remembers what compiled: a header is compiled again when
it, what it includes of ours, or its options changed.

Exit status: 0 all compile, 1 one does not, 2 wrong usage.
"""
import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HEADER = re.compile(r"\.(hpp|h)$")
INCLUDE = re.compile(rb'^\s*#\s*include\s*[<"]([^">]+)[">]', re.M)
# Files for other compilers, and files that tests use as text.
NOT_OURS = re.compile(r"^(tests/(cuda|judges|gpu|truth|libraries|e2e)|examples)/")
# Headers that begin and end a file's code, and do not compile alone.
BRACKETS = {"devices/cpu/exec/begin.hpp", "devices/cpu/exec/end.hpp"}
# Options with a value that name the object, or another file to read or write.
WITH_VALUE = {"-o", "-MF", "-MT", "-MQ", "-include"}
ALONE = re.compile(r"^(-c|-MD|-MMD|-Winvalid-pch|-fpch-preprocess|-g\d?|-O\S*|"
                   r"--param=.*|-fsanitize=.*)$")


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def all_headers():
    files = git("ls-files", "--cached", "--others",
                "--exclude-standard").stdout.splitlines()
    return sorted({x for x in files if HEADER.search(x) and
                   not NOT_OURS.match(x) and x not in BRACKETS and
                   (ROOT / x).is_file()})


def changed_headers(known):
    """Files that differ on the branch, in the last commit or uncommitted."""
    head = git("rev-parse", "HEAD").stdout.strip()
    base = git("merge-base", "HEAD", "main").stdout.strip()
    if base in ("", head):
        base = git("rev-parse", "--verify", "HEAD~1").stdout.strip() or head
    changed = set(git("diff", "--name-only", base).stdout.splitlines())
    changed |= set(git("ls-files", "--others",
                       "--exclude-standard").stdout.splitlines())
    return [x for x in known if x in changed]


def options_of(command):
    """The compiler and the options that matter to a header."""
    words = shlex.split(command)
    # A launcher such as ccache and its environment may come first.
    start = next(i for i, x in enumerate(words)
                 if re.search(r"(^|/)(c\+\+|g\+\+|clang\+\+)(-\d+)?$", x))
    out, skip = [words[start]], False
    for word in words[start + 1:]:
        if skip:
            skip = False
        elif word in WITH_VALUE:
            skip = True
        elif not ALONE.match(word):
            out.append(word)
    # The last word is the source.
    return tuple(out[:-1])


def options_by_folder(build):
    """The options of each folder's first C++ source, as CMake wrote them."""
    out = {}
    entries = json.loads((build / "compile_commands.json").read_text())
    for entry in sorted(entries, key=lambda x: x["file"]):
        file = pathlib.Path(entry["file"])
        if file.suffix not in (".cpp", ".cxx"):
            continue
        if "CMakeFiles" in file.parts: # of several files at once
            parts = file.relative_to(build).parts
            folder = "/".join(parts[:parts.index("CMakeFiles")])
        elif file.is_relative_to(ROOT):
            folder = str(file.relative_to(ROOT).parent)
        else:
            continue
        out.setdefault(folder, (options_of(entry["command"]),
                                entry["directory"]))
    return out


def nearest(folders, path):
    """The options of a header's folder, or of the nearest around it."""
    for parent in pathlib.PurePosixPath(path).parents:
        if str(parent) in folders:
            return folders[str(parent)]
    return folders.get(min(folders)) if folders else None


class digests:
    """What a header's compilation depends on, as one number."""

    def __init__(self):
        self.includes_, self.texts_ = {}, {}

    def look_at(self, path):
        if path not in self.texts_:
            text = (ROOT / path).read_bytes()
            self.texts_[path] = hashlib.sha256(text).hexdigest()
            own = str(pathlib.PurePosixPath(path).parent)
            self.includes_[path] = []
            for name in INCLUDE.findall(text):
                name = name.decode(errors="replace")
                for candidate in (name, f"{own}/{name}"):
                    if (ROOT / candidate).is_file():
                        self.includes_[path].append(candidate)
                        break
        return self.includes_[path]

    def of(self, path, options):
        seen, queue = set(), [path]
        while queue:
            at = queue.pop()
            if at not in seen:
                seen.add(at)
                queue.extend(self.look_at(at))
        lines = [f"{x} {self.texts_[x]}" for x in sorted(seen)]
        return hashlib.sha256("\n".join([*options, *lines]).encode()).hexdigest()


def compile_alone(path, options, directory):
    """What the compiler complains about; nothing if it does not."""
    got = subprocess.run(
        [*options, "-fsyntax-only", "-x", "c++", "-"], cwd=directory, text=True,
        input=f'#include "{path}"\n', stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT)
    return got.stdout or "the compiler failed" if got.returncode else ""


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("headers", nargs="*")
    if len(sys.argv) < 2 or "-h" in sys.argv or "--help" in sys.argv:
        print(__doc__, file=sys.stderr)
        return 2
    asked = parser.parse_intermixed_args()
    build = asked.build.resolve()
    folders = options_by_folder(build)
    known = all_headers()
    if asked.headers:
        chosen = asked.headers
    else:
        chosen = known if asked.all else changed_headers(known)

    memory = build / "headers_alone.json"
    try:
        done = json.loads(memory.read_text())
    except (OSError, ValueError):
        done = {}
    digest = digests()
    work = []
    for path in chosen:
        options, directory = nearest(folders, path)
        now = digest.of(path, options)
        if done.get(path) != now:
            work.append((path, options, directory, now))

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        results = pool.map(lambda x: compile_alone(*x[:3]), work)
        for (path, _, _, now), complaint in zip(work, results):
            if complaint:
                failed += 1
                done.pop(path, None)
                print(f"{path} does not compile alone:\n{complaint}", flush=True)
            else:
                done[path] = now
    fresh = memory.with_suffix(".new")
    fresh.write_text(json.dumps(done, indent=0, sort_keys=True))
    fresh.replace(memory)
    print(f"{len(chosen)} headers: {len(work)} compiled, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
