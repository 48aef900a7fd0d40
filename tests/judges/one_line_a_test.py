"""A pytest plugin for suites.py: one line of JSON for each test's beginning and end.

The lines are written at once, so that they say which test was running when its process
died. Tests that already have a result in the file are left out, so that the next process
goes on after the one that died. $JUDGE_LINES names the file.
"""

import json
import os

LINES = os.environ["JUDGE_LINES"]
ALONE = os.environ.get("JUDGE_ALONE", "")
SHARD, SHARDS = (int(part) for part in os.environ.get("JUDGE_SHARD", "1/1").split("/"))


def write(**line):
    with open(LINES, "a", encoding="utf-8") as out:
        out.write(json.dumps(line) + "\n")


def ended_tests():
    try:
        with open(LINES, encoding="utf-8") as lines:
            return {line["test"] for line in map(json.loads, lines) if "result" in line}
    except FileNotFoundError:
        return set()


def pytest_collection_modifyitems(config, items):
    ended = ended_tests()
    mine = [item for at, item in enumerate(items) if at % SHARDS == SHARD - 1]
    keep = [item for item in mine if item.nodeid not in ended]
    if ALONE == "test":
        keep = keep[:1]
    elif ALONE == "file":
        keep = [item for item in keep if item.path == keep[0].path]
    kept = set(map(id, keep))
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = keep


def pytest_collectreport(report):
    # A file that cannot be imported counts as one test.
    if report.failed and report.nodeid not in ended_tests():
        write(test=report.nodeid, result="failed", why=last_line(report))
    elif report.skipped and report.nodeid not in ended_tests():
        write(test=report.nodeid, result="skipped", why=last_line(report))


def pytest_runtest_logstart(nodeid, location):
    write(test=nodeid, begins=True)


def last_line(report):
    """The failed statement's message, or the reason to skip."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])[:300]
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash else str(report.longrepr or "")
    return (text.strip().splitlines() or [""])[0][:300]


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        # An expected failure counts as passed, as it does for pytest's status.
        expected = report.outcome == "skipped" and hasattr(report, "wasxfail")
        outcome = "passed" if expected else report.outcome
        write(test=report.nodeid, result=outcome,
              why="" if outcome == "passed" else last_line(report))
