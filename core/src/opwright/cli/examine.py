"""Drives the child processes of ``opwright doctor``, of which a plugin can bring down only one."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
from typing import Any, Final, NamedTuple

from opwright.cli.probe import CHECK, END, LOAD
from opwright.discovery import PluginRecord, Source, merge, package_of
from opwright.discovery.index import key_of
from opwright.errors import PluginError
from opwright.registry import Package, PluginFailure

# The path comes first: the child must see what this process sees, before it imports anything.
_BOOT: Final = (
    "import json, sys; order = json.loads(sys.argv[1]); sys.path[:] = order.pop('path'); "
    "from opwright.cli.probe import main; main(**order)"
)


class Diagnosis(NamedTuple):
    """What was found in all plugins.

    Attributes
    ----------
    records : list of PluginRecord
        Plugins whose hooks returned.
    failures : tuple of PluginFailure
        Plugins that are kept out.
    crashes : tuple of PluginFailure
        Plugins that bring down, or hold up, every process that uses them.
    problems : dict of Package to dict of str to str
        What plugins name that cannot be used, each with the command most likely to help.
    """

    records: list[PluginRecord]
    failures: tuple[PluginFailure, ...]
    crashes: tuple[PluginFailure, ...]
    problems: dict[Package, dict[str, str]]


class _Event(NamedTuple):
    """What a child said: that it begins with a plugin (result None), or what came of it."""

    phase: str
    key: str
    result: Any


def examine(sources: list[Source], timeout_s: float) -> Diagnosis:
    """Run children until one comes to its end, each without what brought down the one before.

    Parameters
    ----------
    sources : list of Source
        The plugins.
    timeout_s : float
        Seconds that each of them may take.
    """
    skipped: list[tuple[str, str]] = []
    crashed: list[PluginFailure] = []
    by_key = {key_of(source): source for source in sources}
    while True:
        events, reason = _run_child(sources, skipped, timeout_s)
        last = events[-1] if events else _Event("", "", None)
        if last.phase == END:
            return _diagnose(events, tuple(crashed), by_key)
        if last.key not in by_key or last.result is not None:
            raise PluginError(f"doctor: its child process {reason} between plugins; run it again")
        skipped.append((last.phase, last.key))
        crashed.append(_describe_crash(package_of(by_key[last.key]), last.phase, reason))


def _diagnose(
    events: list[_Event], crashes: tuple[PluginFailure, ...], by_key: dict[str, Source]
) -> Diagnosis:
    records: list[PluginRecord] = []
    failures: list[PluginFailure] = []
    problems: dict[Package, dict[str, str]] = {}
    for phase, key, result in events:
        if not result:
            continue
        if phase == CHECK:
            problems[package_of(by_key[key])] = result
        elif result["record"] is not None:
            records.append(PluginRecord.from_json(result["record"]))
        else:
            package, *rest = result["failure"]
            failures.append(PluginFailure(Package(*package), *rest))
    kept_out = merge(records, failures).report.failures
    return Diagnosis(records, kept_out, crashes, problems)


def _describe_crash(package: Package, phase: str, reason: str) -> PluginFailure:
    doing = "its hooks ran" if phase == LOAD else "what it names was imported"
    name = package.distribution
    advice = f"pip install --upgrade {name}, or pip uninstall {name}"
    return PluginFailure(package, f"{reason} while {doing}", "", advice)


def _run_child(
    sources: list[Source], skipped: list[tuple[str, str]], timeout_s: float
) -> tuple[list[_Event], str]:
    """Return what a child said, and how it ended."""
    order = json.dumps({"path": sys.path, "sources": sources, "skipped": skipped})
    command = [sys.executable, "-c", _BOOT, order]
    events: list[_Event] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as child:
        lines = _read_lines(child)
        while True:
            try:
                line = lines.get(timeout=timeout_s)
            except queue.Empty:
                child.kill()
                return events, f"took more than {timeout_s:g} s"
            if line is None:
                return events, _describe_exit(child.wait())
            events.append(_Event(*json.loads(line)))


def _read_lines(child: subprocess.Popen[str]) -> queue.Queue[str | None]:
    """Return a queue that a thread fills with the child's lines, and with None at the end."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        for line in child.stdout or ():
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    return lines


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"ended the process with exit code {code}"
    return f"crashed with {signal.Signals(-code).name}"
