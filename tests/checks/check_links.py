#!/usr/bin/env python3
"""Checks the links of the documentation.

usage: check_links.py

Every relative link of a tracked Markdown file leads to a tracked file or folder,
and its anchor, if there is one, to a heading of that page. Links to other hosts
are not followed. Exit status: 0 all is well, 1 not, 2 wrong usage.
"""
import pathlib
import re
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FENCE = re.compile(r"^\s*(```|~~~)")
# [text](target) and ![text](target "title"); the text may hold brackets.
INLINE = re.compile(r"\]\(\s*<?([^()\s<>]*(?:\([^()\s]*\)[^()\s<>]*)*)>?"
                    r"(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^\s{0,3}\[[^\]]+\]:\s+<?(\S+?)>?(?:\s|$)")
SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:", re.I)


def tracked_files():
    return subprocess.run(["git", "ls-files"], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE,
                          check=True).stdout.splitlines()


def prose_of(text):
    """The lines outside of code blocks, with their numbers."""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        mark = FENCE.match(line)
        if mark and fence is None:
            fence = mark.group(1)
        elif mark and mark.group(1) == fence:
            fence = None
        elif fence is None:
            yield number, line


def anchors_of(text):
    """The anchors that a page's headings get, as code hosts make them."""
    found, seen = set(), {}
    for _, line in prose_of(text):
        found.update(re.findall(r'<a\s+(?:id|name)="([^"]+)"', line))
        heading = re.match(r"^\s{0,3}#{1,6}\s+(.*?)\s*#*\s*$", line)
        if not heading:
            continue
        # Only the text of a link counts, without the marks of emphasis and
        # code.
        title = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1))
        title = re.sub(r"[^\w\- ]", "", title.replace("`", "").lower())
        anchor = title.replace(" ", "-")
        count = seen.get(anchor, 0)
        seen[anchor] = count + 1
        found.add(anchor if count == 0 else f"{anchor}-{count}")
    return found


def links_of(text):
    for number, line in prose_of(text):
        bare = re.sub(r"`[^`]*`", "", line)
        for target in INLINE.findall(bare):
            yield number, target
        reference = REFERENCE.match(bare)
        if reference:
            yield number, reference.group(1)


def broken_links(files):
    folders = {str(parent) for x in files
               for parent in pathlib.PurePosixPath(x).parents}
    known = set(files) | folders
    texts = {x: (ROOT / x).read_text(errors="replace") for x in files
             if x.endswith(".md") and (ROOT / x).is_file()}
    anchors = {}
    for page, text in texts.items():
        for number, target in links_of(text):
            if SCHEME.match(target) or target.startswith("//"):
                continue
            path, _, anchor = urllib.parse.unquote(target).partition("#")
            if path.startswith("/"):
                where = path.lstrip("/")
            else:
                where = str(pathlib.PurePosixPath(page).parent / path)
            where = str(pathlib.PurePosixPath(
                *normal(where.split("/")))) if path else page
            if where not in known:
                yield f"{page}:{number}: {target}: there is no {where}"
            elif anchor and where in texts:
                if where not in anchors:
                    anchors[where] = anchors_of(texts[where])
                if anchor not in anchors[where]:
                    yield (f"{page}:{number}: {target}: {where} has no heading "
                           f"of the anchor #{anchor}")


def normal(parts):
    """A path's parts without `.` and `..`."""
    out = []
    for part in parts:
        if part == ".." and out and out[-1] != "..":
            out.pop()
        elif part not in ("", "."):
            out.append(part)
    return out


def main():
    if len(sys.argv) > 1:
        print(__doc__, file=sys.stderr)
        return 2
    broken = list(broken_links(tracked_files()))
    for line in broken:
        print(line, file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
