#!/usr/bin/env python3
"""Compares the catalogue's class of each entry point with what its body can do.

usage: check_catalogue.py LIBRARY CATALOGUE CUDA_H

The graph of calls comes from the machine code of libcuda.so.1. From each exported
symbol it is followed to the functions that append to the call log, and to those that
wait for an answer. It ends at on_occasion<...>(), whose occasion the catalogue's line
must name, and no other. A sync line names none, as no call does more, and may wait
for the program's memory alone (host_memory): the direction of a copy is data, which
the graph does not show.

Then each line is changed to each other class and by each occasion, and each change
must be noticed. Exit status: 0 all is well, 1 not, 2 wrong usage.
"""
import bisect
import collections
import pathlib
import re
import subprocess
import sys

OURS = "vgpu::interposer::"
APPEND = ("vgpu::log_writer::reserve", "vgpu::log_writer::reserve_written",
          "vgpu::log_writer::reserve_run")
WAIT = (OURS + "reply_slots::finish", OURS + "reply_slots::wait_for")
REFUSE = OURS + "refuse"
OCCASION = re.compile(r"on_occasion<\(vgpu::occasion\)(\d+),")
# Any call waits when all slots or the log are full, so the code behind the
# first two does not count for its class. The others only take addresses of
# functions, for later calls, for a signal handler and for threads of the
# interposer.
ENDS = (OURS + "reply_slots::take", "vgpu::log_writer::make_room",
        OURS + "driver_state::driver_state", "cuGetExportTable",
        OURS + "watch_managed_memory",
        OURS + "managed_memory::choose_service",
        OURS + "{unnamed}::conditional_launch::take_turn")
# Functions that run code of a folder above, by a registered pointer or as a
# virtual function. Each name must be in the library, or this table is out of
# date.
REGISTERED = {
    OURS + "session::synchronise": [OURS + "zero_copy_memory::tell_now"],
    # A context that is not green uses the device's default stream.
    OURS + "context_registry::create_green": [OURS + "stream_set::begin"],
    OURS + "context_registry::end_green": [OURS + "stream_set::end"],
    OURS + "context_registry::reset": [
        OURS + "unload_all", OURS + "stream_set::end",
        OURS + "destroy_textures", OURS + "destroy_arrays",
        OURS + "free_all"],
    # A graph's last shared_ptr ends with its nodes.
    OURS + "graph::~graph": [OURS + "graph_memory::~graph_memory"],
    OURS + "free_device": [OURS + "free_graph_memory"],
    OURS + "free_all": [OURS + "discard_graph_memory"],
}
CLASSES = ("local", "async", "create", "sync", "refused")
LINE = re.compile(r"VGPU_CALL\((\w+), (\w+), \d+, \w+, (\w+), ([\w |]+), \"")

entry = collections.namedtuple("entry", "symbol name served more")
# What a body does: whether it appends, waits or refuses, and its occasions.
effect = collections.namedtuple("effect", "appends waits refuses occasions")


def run(*command):
    return subprocess.run(command, check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def plain(name):
    """A function's name without its parameters and the compiler's marks."""
    name = name.replace("(anonymous namespace)", "{unnamed}")
    return re.sub(r"\(.*|\[.*| \[clone.*", "", name)


class call_graph:
    def __init__(self, library):
        self.names = {}
        self.next = collections.defaultdict(set)
        self._read_code(library)
        self._read_tables(library)
        self.named = collections.defaultdict(list)
        for at, name in self.names.items():
            self.named[plain(name)].append(at)
        for who, steps in REGISTERED.items():
            for at in self._must_have(who):
                for step in steps:
                    self.next[at].update(self._must_have(step))
        for name in WAIT + APPEND + ENDS + (REFUSE,):
            self._must_have(name)

    def _must_have(self, name):
        if name not in self.named:
            sys.exit(f"{name}: the library has no such function; correct the "
                     "tables of check_catalogue.py")
        return self.named[name]

    def _read_code(self, library):
        start = re.compile(r"^([0-9a-f]+) <(.*)>:$")
        target = re.compile(r"(?:^|# |\s)([0-9a-f]+) <.*>$")
        current, raw = None, collections.defaultdict(set)
        for line in run("objdump", "-d", "-C", "--no-show-raw-insn",
                        library).splitlines():
            if found := start.match(line):
                current = int(found[1], 16)
                self.names[current] = found[2]
            elif current is not None and line.endswith(">"):
                if found := target.search(line.split("\t")[-1]):
                    raw[current].add(int(found[1], 16))
        order = sorted(self.names)
        self.tables = collections.defaultdict(set)
        for at, found in raw.items():
            for x in found:
                place = bisect.bisect(order, x) - 1
                if place >= 0 and x <= order[-1]:
                    self.next[at].add(order[place])
                self.tables[x].add(at)

    def _read_tables(self, library):
        """Who names a virtual table can come to its functions."""
        pointers = {}
        for line in run("readelf", "-rW", library).splitlines():
            words = line.split()
            if len(words) == 4 and words[2] == "R_X86_64_RELATIVE":
                pointers[int(words[0], 16)] = int(words[3], 16)
        users = sorted(self.tables)
        for line in run("nm", "-SC", library).splitlines():
            words = line.split(None, 3)
            if len(words) < 4 or not words[3].startswith("vtable for "):
                continue
            begin = int(words[0], 16)
            end = begin + int(words[1], 16)
            inside = {pointers[x] for x in range(begin, end, 8)
                      if pointers.get(x) in self.names}
            for x in users[bisect.bisect_left(users, begin):
                           bisect.bisect_left(users, end)]:
                for at in self.tables[x]:
                    self.next[at].update(inside)

    def effect_of(self, symbol):
        appends = waits = False
        occasions = set()
        seen = set(self.named.get(symbol, ()))
        if not seen:
            return None
        left = list(seen)
        while left:
            at = left.pop()
            name = self.names[at]
            if found := OCCASION.search(name):
                occasions.add(int(found[1]))
                continue
            short = plain(name)
            if short in ENDS:
                continue
            appends = appends or short in APPEND
            waits = waits or short in WAIT
            for x in self.next[at] - seen:
                seen.add(x)
                left.append(x)
        refuses = any(plain(self.names[x]) == REFUSE
                      for at in self.named[symbol] for x in self.next[at])
        return effect(appends, waits, refuses, frozenset(occasions))


def occasions_of(header):
    text = pathlib.Path(header).read_text()
    body = re.search(r"enum class occasion .*?\{(.*?)\};", text, re.S)[1]
    return {name: int(value)
            for name, value in re.findall(r"^\s*(\w+) = (\d+),", body, re.M)}


def read_catalogue(path, occasions):
    out = []
    for line in pathlib.Path(path).read_text().splitlines():
        if not line.startswith("VGPU_CALL("):
            continue
        found = LINE.match(line)
        if not found:
            sys.exit(f"{path}: not a line of the catalogue: {line}")
        more = frozenset(occasions[x] for x in found[4].split(" | "))
        out.append(entry(found[1], found[2], found[3], more - {0}))
    return out


class prototypes:
    """Which entry points give a handle or an address: their first parameter is a
    pointer to one, and no count says that it is a list."""

    def __init__(self, path):
        text = pathlib.Path(path).read_text()
        self.all = {}
        for name, parameters in re.findall(r"CUDAAPI (cu\w+)\(([^;]*)\);", text):
            self.all.setdefault(name, parameters)

    def gives(self, x):
        parameters = self.all.get(re.sub(r"_pt[ds][sz]$", "", x.symbol)) or \
            self.all.get(x.name, "")
        first = parameters.split(",")[0]
        return "*" in first and "const" not in first and \
            not re.search(r"\bcount\b", parameters)


def wrong(x, can, gives, host_memory):
    """Says what is wrong with a line, or nothing."""
    if can is None:
        return "the library has no such function"
    waits = can.waits or \
        (x.served == "sync" and host_memory in can.occasions)
    does = "sync" if waits else "create" if can.appends and gives else \
        "async" if can.appends else "refused" if can.refuses else "local"
    if does != x.served:
        return f"it is {x.served} in the catalogue, and its body is {does}"
    reached = frozenset() if does == "sync" else can.occasions
    if x.more != reached:
        return f"its occasions are {sorted(reached)}, and the catalogue names " \
               f"{sorted(x.more)}"
    return None


def unnoticed(x, can, gives, occasions):
    """The changes of a right line that would pass for right too."""
    numbers = [n for n in occasions.values() if n != 0]
    host_memory = occasions["host_memory"]
    for served in CLASSES:
        changed = [x._replace(served=served)] if served != x.served else []
        changed += [x._replace(served=served, more=x.more ^ {n})
                    for n in numbers]
        for y in changed:
            # A copy in either direction: see above.
            copies = {x.served, y.served} == {"sync", "async"} and \
                host_memory in can.occasions
            if not copies and wrong(y, can, gives, host_memory) is None:
                yield y


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    library, path, cuda_h = sys.argv[1:]
    occasions = occasions_of(pathlib.Path(path).with_name("catalogue.hpp"))
    graph = call_graph(library)
    declared = prototypes(cuda_h)
    found = False
    met = set()
    names = {n: name for name, n in occasions.items()}
    for x in read_catalogue(path, occasions):
        can = graph.effect_of(x.symbol)
        gives = declared.gives(x)
        met |= can.occasions if can else set()
        if why := wrong(x, can, gives, occasions["host_memory"]):
            why = re.sub(r"\[[\d, ]*\]", lambda m: " | ".join(
                names[int(n)] for n in re.findall(r"\d+", m[0])) or "none", why)
            print(f"{x.symbol}: {why}")
            found = True
            continue
        for y in unnoticed(x, can, gives, occasions):
            print(f"{y.symbol}: {y.served} {sorted(y.more)} would not be noticed")
            found = True
    for n in set(names) - {0} - met:
        print(f"no entry point comes to the occasion {names[n]}")
        found = True
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
