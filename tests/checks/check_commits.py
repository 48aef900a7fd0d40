#!/usr/bin/env python3
"""Checks what commits say.

usage: check_commits.py [RANGE]
       check_commits.py --message FILE

A subject reads `part: verb ...`, where the part is a folder or file of the tree
or a word such as `docs`; it has at most 72 characters, no semicolon and no full
stop at its end. More than 30 changed lines need a body that says why. Without a
range, every commit after FIRST is looked at: it brought this rule. A clone too
shallow to know FIRST has its own commits checked. With --message it checks the
message in that file for the staged change, as git's commit-msg hook does.

Exit status: 0 all is well, 1 a commit is not, 2 wrong usage.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# The rule holds for the commits after this one.
FIRST = "82dfe9d4e58a0648e1bad8cbd9c1fcaec9f8eab0"
LONGEST_SUBJECT = 72
MOST_LINES_WITHOUT_BODY = 30
SUBJECT = re.compile(r"^[A-Za-z0-9_./,+*{}-]+( and [A-Za-z0-9_./-]+)?: \S")
# Subjects that git makes.
MADE = re.compile(r"^(Merge|Revert|fixup!|squash!|amend!) ?")
# After its part, a subject begins with a verb in the imperative. No list of
# verbs is complete, so this lists beginnings that are not verbs.
NO_VERB = re.compile(
    r"^(an?|the|this|that|these|those|its?|our|my|your|his|her|their|some|any|"
    r"no|not|more|less|most|fewer|all|each|every|both|what|which|who|whoever|"
    r"whose|where|when|why|how|if|as|than|then|there|in|on|at|of|for|from|to|"
    r"with|without|by|and|or|but|one|two|three|four|five|[0-9].*|"
    r"\w+(ed|ing))\b", re.I)
# Verbs that match NO_VERB.
VERBS = {"embed", "feed", "need", "seed", "speed", "shed", "bring", "ping",
         "ring", "sing", "string", "exceed", "proceed", "succeed", "weed"}


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def complaints(message, changed_lines):
    """What is wrong with a message, as sentences."""
    lines = message.rstrip("\n").split("\n")
    subject = lines[0]
    if MADE.match(subject):
        return []
    out = []
    if len(subject) > LONGEST_SUBJECT:
        out.append(f"its subject has {len(subject)} characters; "
                   f"{LONGEST_SUBJECT} are the most")
    if ";" in subject:
        out.append("its subject has a semicolon; make two commits of it")
    if subject.endswith("."):
        out.append("its subject ends with a full stop")
    if not SUBJECT.match(subject):
        out.append("its subject does not read `part: verb ...`")
    else:
        rest = subject.split(": ", 1)[1]
        first = re.match(r"[\w'-]*", rest).group(0).lower()
        if first not in VERBS and NO_VERB.match(rest):
            out.append(f"after the part, its subject begins with `{first}` "
                       "instead of a verb, as in `link: drop late frames`")
    body = [line for line in lines[1:] if line.strip()]
    if len(lines) > 1 and lines[1].strip():
        out.append("no empty line follows its subject")
    if not body and changed_lines > MOST_LINES_WITHOUT_BODY:
        out.append(f"it changes {changed_lines} lines and has no body that says "
                   "why")
    return out


def changed_lines(*arguments):
    """Added and removed lines; what was only moved, or is no text, has none."""
    count = 0
    for line in git(*arguments, "--numstat", "-M",
                    "--format=").stdout.splitlines():
        added, removed, _ = line.split("\t", 2)
        if added != "-":
            count += int(added) + int(removed)
    return count


def check_commit(commit):
    message = git("log", "-1", "--format=%B", commit).stdout
    return complaints(message, changed_lines("show", commit))


def check_file(path):
    text = pathlib.Path(path).read_text(errors="replace")
    text = text.split("\n# ------------------------ >8", 1)[0]
    text = "\n".join(x for x in text.split("\n") if not x.startswith("#"))
    # `git diff` takes no --format.
    count = sum(int(x) for line in
                git("diff", "--cached", "--numstat", "-M").stdout.splitlines()
                for x in line.split("\t")[:2] if x != "-")
    return complaints(text.strip("\n"), count)


def commits_of(wanted):
    """The commits to check, oldest first; nothing where there is no
    repository."""
    if git("rev-parse", "HEAD").returncode != 0:
        return []
    if wanted is None:
        known = git("merge-base", "--is-ancestor", FIRST, "HEAD")
        wanted = f"{FIRST}..HEAD" if known.returncode == 0 else "HEAD"
        shallow = git("rev-parse", "--is-shallow-repository").stdout.strip()
        # A complete history without FIRST is that of another repository.
        if wanted == "HEAD" and shallow != "true":
            return []
    got = git("rev-list", "--no-merges", "--reverse", wanted)
    if got.returncode != 0:
        print(got.stderr, end="", file=sys.stderr)
        return None
    commits = got.stdout.split()
    # In a shallow clone, the oldest commits seem to change all files.
    shallow_file = git("rev-parse", "--git-path", "shallow").stdout.strip()
    edge = set()
    if (ROOT / shallow_file).is_file():
        edge = set((ROOT / shallow_file).read_text().split())
    return [x for x in commits if x not in edge]


def main():
    arguments = sys.argv[1:]
    if len(arguments) == 2 and arguments[0] == "--message":
        wrong = check_file(arguments[1])
        for line in wrong:
            print(f"commit message: {line}", file=sys.stderr)
        return 1 if wrong else 0
    if len(arguments) > 1 or (arguments and arguments[0].startswith("-")):
        print(__doc__, file=sys.stderr)
        return 2
    commits = commits_of(arguments[0] if arguments else None)
    if commits is None:
        return 2
    failed = False
    for commit in commits:
        for line in check_commit(commit):
            failed = True
            subject = git("log", "-1", "--format=%h %s", commit).stdout.strip()
            print(f"{subject}\n  {line}", file=sys.stderr)
    print(f"{len(commits)} commits", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
