"""A hook module is a table: it imports in 5 ms, so many plugins cost little."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

from opwright_kit.testing.observation.context import CheckContext
from opwright_kit.testing.results.scorecard import Finding
from opwright_kit.testing.results.subjects import PackageSubject

RULE = "import-cost"
SUMMARY = "each hook module is imported in at most 5 ms"
SUBJECT = PackageSubject

LIMIT_MS: Final = 5.0

_TRIES: Final = 7
"""Only the fastest attempt counts, since other work on the machine can only slow it down."""

_FAR: Final = 4
"""After two attempts above this multiple of the limit, other work cannot be the cause."""

_TIMEOUT_S: Final = 60.0

_SHOWN: Final = 4

# The cost of core does not count: it is imported before a hook module. importlib.import_module is
# not shown by -X importtime, __import__ is. The time that the process waited for a processor (the
# second number of schedstat, if available) is subtracted, since it depends only on other processes.
_CODE: Final = """
import sys, time, opwright.plugin
def waited_ns():
    try:
        with open("/proc/thread-self/schedstat") as file:
            return int(file.read().split()[1])
    except OSError:
        return 0
before = waited_ns()
began = time.perf_counter_ns()
__import__(sys.argv[1])
took = time.perf_counter_ns() - began
print("took", (took - (waited_ns() - before)) / 1e6)
"""

_LINE: Final = re.compile(r"import time:\s+\d+ \|\s+(\d+) \|( +)(\S+)")


def check(subject: PackageSubject, context: CheckContext) -> Iterator[Finding]:
    """Yield each hook module whose import takes too long, with its slowest imports."""
    for record in subject.records:
        module = record.source.target.partition(":")[0]
        best = _measure(module)
        if best > LIMIT_MS:
            yield Finding(
                RULE,
                subject.name,
                f"{subject.name}: import of {module} must take at most {LIMIT_MS:g} ms, got "
                f"{best:.1f} ms at best; {_blame(module)}",
            )


def _measure(module: str) -> float:
    """Return the time of the fastest of several imports in milliseconds, each in a new process."""
    best = float("inf")
    for tries in range(_TRIES):
        best = min(best, float(_run(module).stdout.split()[-1]))
        if best <= LIMIT_MS or (tries and best > _FAR * LIMIT_MS):
            break
    return best


def _blame(module: str) -> str:
    """Describe which imports of a module take long, or that its own code takes long."""
    costs = [(name, ms) for name, ms in _imported(module) if ms >= LIMIT_MS / 20]
    if not costs:
        return "none of its imports takes long, so its own code does: do that at the first use"
    costs.sort(key=lambda cost: -cost[1])
    slowest = ", ".join(f"{name} ({ms:.1f} ms)" for name, ms in costs[:_SHOWN])
    return f"it imports {slowest}: import them where they are used"


def _imported(module: str) -> Iterator[tuple[str, float]]:
    """Yield the modules that the module itself imports for the first time, with milliseconds."""
    lines = _run(module, "-X", "importtime").stderr.splitlines()
    rows = [(m[3], len(m[2]), int(m[1]) / 1e3) for m in map(_LINE.match, lines) if m]
    matches = [i for i, (name, _, _) in enumerate(rows) if name == module]
    if not matches:
        return
    at, depth = matches[0], rows[matches[0]][1]
    # A module is listed after its imports, which are indented by one more step.
    for name, inner, ms in reversed(rows[:at]):
        if inner <= depth:
            break
        if inner == depth + 2:
            yield name, ms


def _run(module: str, *options: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        [sys.executable, *options, "-c", _CODE, module],
        check=True,
        capture_output=True,
        text=True,
        env=environ,
        timeout=_TIMEOUT_S,
    )
