"""A pytest plugin that writes each result immediately, so results are not lost in a crash.

Options are environment variables, because a crashed process is restarted with the remaining tests:

``OPWRIGHT_RESULTS``
    File of JSON lines: ``collected``, then ``start`` and ``outcome`` of each test.
``OPWRIGHT_RESULTS_TEXT``
    Text file with the outcomes, shared by all processes.
``OPWRIGHT_SHARD``
    ``2/8`` selects the third of eight shards.
``OPWRIGHT_ONE_PER_OPERATOR``
    Selects only the first float32 case of each operator in the operator table.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

FILE = Path(os.environ["OPWRIGHT_RESULTS"])
TEXT_FILE = Path(os.environ["OPWRIGHT_RESULTS_TEXT"])
LOST = re.compile(r"context is lost|CUDA_ERROR_(ILLEGAL_ADDRESS|LAUNCH_FAILED|ASSERT)")
"""Errors after which no other test of this process can pass."""


def write(**what: Any) -> None:
    """Append a line to the file of JSON lines."""
    with FILE.open("a", encoding="utf-8") as file:
        file.write(json.dumps(what) + "\n")


def write_result(test: str, outcome: str, seconds: float, text: str, figures: Any) -> None:
    """Append the outcome of a test to both files."""
    write(test=test, outcome=outcome, seconds=round(seconds, 4), text=text, figures=figures)
    with TEXT_FILE.open("a", encoding="utf-8") as file:
        details = f"\n{text}" if outcome == "failed" else ""
        shown = f" {figures}" if figures else ""
        file.write(f"{outcome:8}{seconds:8.2f} s  {test}{shown}{details}\n")


def read_done() -> set[str]:
    """Return the tests that earlier processes of this shard have started."""
    if not FILE.exists():
        return set()
    lines = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
    return {line["start"] for line in lines if "start" in line}


def is_first_of_operator(item: pytest.Item, seen: set[str]) -> bool:
    """Return whether this is the first float32 case of its operator in its test."""
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    if "case" not in parameters or parameters.get("dtype") not in ("float32", "int64", "bool"):
        return False
    key = f"{item.originalname} {parameters['case'].op}"
    if key in seen:
        return False
    seen.add(key)
    return True


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select the tests of this process."""
    kept = list(items)
    if os.environ.get("OPWRIGHT_ONE_PER_OPERATOR"):
        seen: set[str] = set()
        kept = [item for item in kept if is_first_of_operator(item, seen)]
    index, _, n_shards = os.environ.get("OPWRIGHT_SHARD", "0/1").partition("/")
    kept = kept[int(index) :: int(n_shards)]
    write(collected=[item.nodeid for item in kept])
    done = read_done()
    chosen = [item for item in kept if item.nodeid not in done]
    left = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in left])
    items[:] = chosen


def pytest_runtest_logstart(nodeid: str) -> None:
    """Record the start of a test so that a crash can be attributed to it."""
    write(start=nodeid)


class Session:
    """Holds the running session."""

    current: pytest.Session | None = None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Store the session so that it can be stopped if the GPU is lost."""
    Session.current = session


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write the outcome of a test to the files."""
    if report.when != "call" and report.passed:
        return
    text = report.longreprtext if report.failed else ""
    if report.skipped and isinstance(report.longrepr, tuple):
        text = str(report.longrepr[2])
    write_result(report.nodeid, report.outcome, report.duration, text, dict(report.user_properties))
    if report.failed and LOST.search(text) and Session.current is not None:
        Session.current.shouldstop = "the GPU's context is lost"


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Record a file that cannot be imported as a failed test."""
    if report.failed:
        write(collected=[report.nodeid])
        write(start=report.nodeid)
        write_result(report.nodeid, "failed", 0.0, report.longreprtext, {})
