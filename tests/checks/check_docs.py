#!/usr/bin/env python3
"""Runs the shell blocks of the documentation that are marked as runnable.

usage: check_docs.py BUILD [PAGE...]

A block is marked by a line `<!-- runnable -->` right before its ```sh. The
blocks of one page run in one shell, as `set -eu` has it, in a folder that looks
like the root of the sources after a build: the sources are links, build/default
leads to BUILD, and what a block writes elsewhere goes with the folder. BUILD/bin
is first on PATH. A page has 60 seconds, and fails if a process that it started
is there 5 seconds after its end. Without PAGE, all pages of the repository with
such blocks run. A page whose block needs what this machine lacks is not
excused.

Exit status: 0 all pages ran, 1 one failed, 2 wrong usage.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGES = re.compile(r"^(README\.md|docs/.*\.md|[a-z]+/(.*/)?README\.md)$")
PAGE_SECONDS = 60
END_SECONDS = 5
MARK = "<!-- runnable -->"


def blocks_of(text):
    """The marked blocks, each as the number of its first line and its text."""
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if line.strip() != MARK:
            continue
        if i + 1 >= len(lines) or lines[i + 1].strip() != "```sh":
            raise ValueError(f"line {i + 1}: a mark without a ```sh after it")
        end = next((k for k in range(i + 2, len(lines))
                    if lines[k].strip() == "```"), None)
        if end is None:
            raise ValueError(f"line {i + 2}: the block has no end")
        yield i + 3, "\n".join(lines[i + 2:end])


def script_of(blocks):
    """One shell script; each block says where it is from, for whoever reads a
    failure."""
    parts = ["set -eu"]
    for line, text in blocks:
        parts.append(f"echo '-- the block at line {line}'")
        parts.append(text)
    return "\n".join(parts) + "\n"


def processes_of(scratch):
    """The processes that began in this folder's environment."""
    wanted = f"CHECK_DOCS={scratch}".encode()
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                yield int(entry.name), (entry / "cmdline").read_bytes().replace(
                    b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue


def left_running(scratch):
    """What is still there when time to end is over."""
    end = time.monotonic() + END_SECONDS
    while True:
        # A process that has ended and waits for its parent has no command line.
        left = [(pid, name) for pid, name in processes_of(scratch) if name]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.05)


def make_root(scratch, build):
    for entry in ROOT.iterdir():
        if entry.name not in ("build", ".git"):
            (scratch / entry.name).symlink_to(entry)
    for name in ("build", "tmp", "home", "xdg"):
        (scratch / name).mkdir(mode=0o700)
    (scratch / "build" / "default").symlink_to(build)


def environment(scratch, build):
    out = {name: value for name, value in os.environ.items()
           if not name.startswith("VGPU_")}
    out.update(CHECK_DOCS=str(scratch), HOME=str(scratch / "home"),
               TMPDIR=str(scratch / "tmp"),
               XDG_RUNTIME_DIR=str(scratch / "xdg"),
               VGPU_CLIENT_IDLE_MS="300",
               PATH=f"{build}/bin:{os.environ['PATH']}")
    return out


def run_page(page, build):
    """Why it failed, or nothing; and what it printed."""
    try:
        blocks = list(blocks_of((ROOT / page).read_text()))
    except ValueError as e:
        return str(e), ""
    if not blocks:
        return None, ""
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="vgpu-docs.", dir="/tmp"))
    try:
        make_root(scratch, build)
        with open(scratch / "tmp" / "output", "w+b") as output:
            shell = subprocess.Popen(
                ["bash", "-c", script_of(blocks)], cwd=scratch,
                env=environment(scratch, build), stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT)
            try:
                code = shell.wait(PAGE_SECONDS)
                why = f"exit status {code}" if code != 0 else None
            except subprocess.TimeoutExpired:
                shell.kill()
                shell.wait()
                why = f"it takes longer than {PAGE_SECONDS} s"
            if why is None:
                left = left_running(scratch)
                if left:
                    why = "left running: " + "; ".join(
                        f"{pid} {name}" for pid, name in left)
            output.seek(0)
            return why, output.read().decode(errors="replace")
    finally:
        for pid, _ in processes_of(scratch):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(scratch, ignore_errors=True)


def pages():
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, text=True,
                           stdout=subprocess.PIPE,
                           check=True).stdout.splitlines()
    return [x for x in files if PAGES.match(x) and (ROOT / x).is_file() and
            MARK in (ROOT / x).read_text(errors="replace").splitlines()]


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    build = pathlib.Path(sys.argv[1]).resolve()
    if not (build / "bin" / "vgpu").exists():
        print(f"check_docs.py: {build} has no bin/vgpu; build it first",
              file=sys.stderr)
        return 2
    failed = False
    for page in sys.argv[2:] or pages():
        began = time.monotonic()
        why, output = run_page(page, build)
        took = time.monotonic() - began
        print(f"{page}: {why or 'ran'} ({took:.1f} s)", flush=True)
        if why:
            failed = True
            print("".join(f"  {line}\n" for line in output.splitlines()[-40:]),
                  end="", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
