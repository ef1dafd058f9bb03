"""Runs the child processes of ``opwright doctor``: a plugin can crash only a child."""

from __future__ import annotations

import marshal
import queue
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import opwright
from opwright.cli.probe import CHECK, END, TRY
from opwright.errors import PluginError
from opwright.plugins.child import child_command, describe_exit
from opwright.plugins.index import key_of
from opwright.plugins.load import is_machinery
from opwright.plugins.merge import merge
from opwright.plugins.record import PluginRecord, package_of
from opwright.plugins.scan import Source
from opwright.registry import Package, PluginFailure
from opwright.registry.import_notes import EndedImport

_FRAME: Final = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)
_LAST_WORDS_S: Final = 5.0
_START_S: Final = 60.0  # for the child itself, before the first plugin


class Crash(NamedTuple):
    """A plugin that crashes or blocks the processes that load it."""

    failure: PluginFailure
    always: bool  # in its hooks, which every process runs; else where its objects are used


class Diagnosis(NamedTuple):
    """The state of all plugins."""

    records: list[PluginRecord]  # of plugins whose hooks returned
    failures: tuple[PluginFailure, ...]  # of plugins that are quarantined
    crashes: tuple[Crash, ...]
    problems: dict[Package, dict[str, str]]  # what cannot be used, and the command that may help
    refusals: dict[Package, dict[str, list[str]]]  # why kernels of which libraries would refuse
    # Modules and libraries that earlier processes were importing when they ended.
    ended: Mapping[tuple[Package, str], list[EndedImport]] = MappingProxyType({})


class _Event(NamedTuple):
    """A line of a child: it begins with a plugin (result None), or reports the result."""

    phase: str
    key: str
    result: Any


def examine(sources: list[Source], timeout_s: float) -> Diagnosis:
    """Run children until one completes, each without the plugins that ended the ones before.

    `timeout_s` is the time in seconds for the hooks of each plugin, and then for all that it names.
    """
    skipped: list[tuple[str, str]] = []
    crashes: list[Crash] = []
    by_key = {key_of(source): source for source in sources}
    while True:
        events, reason, trace = _run_child(sources, skipped, timeout_s)
        last = events[-1] if events else _Event("", "", None)
        if last.phase == END:
            return _diagnose(events, tuple(crashes), by_key)
        is_try = last.phase == TRY
        if last.key not in by_key or (last.result is not None and not is_try):
            raise PluginError(f"doctor: its child process {reason} between plugins; run it again")
        skipped.append((CHECK if is_try else last.phase, last.key))
        package, subject = package_of(by_key[last.key]), last.result if is_try else None
        doing = "its hooks ran" if subject is None else f"{subject} was loaded"
        advice = (
            f"pip install --upgrade {package.distribution}, or pip uninstall {package.distribution}"
        )
        failure = PluginFailure(package, f"{reason} while {doing}", trace, advice)
        crashes.append(Crash(failure, subject is None))


def _diagnose(
    events: list[_Event], crashes: tuple[Crash, ...], by_key: dict[str, Source]
) -> Diagnosis:
    records: list[PluginRecord] = []
    failures: list[PluginFailure] = []
    problems: dict[Package, dict[str, str]] = {}
    refusals: dict[Package, dict[str, list[str]]] = {}
    for phase, key, result in events:
        if not result or phase == TRY:
            continue
        if phase == CHECK:
            package = package_of(by_key[key])
            if result["problems"]:
                problems[package] = result["problems"]
            if result["refusals"]:
                refusals[package] = result["refusals"]
        elif result["record"] is not None:
            records.append(PluginRecord.from_plain(result["record"]))
        else:
            whose, *rest = result["failure"]
            failures.append(PluginFailure(Package(*whose), *rest))
    kept_out = merge(records, failures).report.failures
    return Diagnosis(records, kept_out, crashes, problems, refusals)


def _run_child(
    sources: list[Source], skipped: list[tuple[str, str]], timeout_s: float
) -> tuple[list[_Event], str, str]:
    """Return the events of a child, how it ended, and the traceback where a signal ended it."""
    with tempfile.TemporaryDirectory(prefix="opwright-doctor-") as folder:
        trace = Path(folder) / "trace"
        order = {"sources": sources, "skipped": skipped, "trace_path": str(trace)}
        command = child_command("opwright.cli.probe", **order)
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as child:
            events, reason = _follow(child, timeout_s)
        return events, reason, _read_trace(trace)


def _follow(child: subprocess.Popen[str], timeout_s: float) -> tuple[list[_Event], str]:
    """Read the events of a child until it ends, or takes too long for one plugin."""
    events: list[_Event] = []
    lines = _read_lines(child)
    deadline = time.monotonic() + max(timeout_s, _START_S)
    while True:
        try:
            line = lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            _stop(child)
            return events, f"took more than {timeout_s:g} s"
        if line is None:
            return events, describe_exit(child.wait())
        events.append(_Event(*marshal.loads(bytes.fromhex(line))))
        if events[-1].phase != TRY:
            deadline = time.monotonic() + timeout_s


def _stop(child: subprocess.Popen[str]) -> None:
    """End a child that hangs, first by a signal that makes it write its traceback."""
    child.send_signal(signal.SIGABRT)
    try:
        child.wait(timeout=_LAST_WORDS_S)
    except subprocess.TimeoutExpired:
        child.kill()


def _read_trace(path: Path) -> str:
    """Return the functions of plugins that were running, the outermost first, as a traceback."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    own = Path(opwright.__file__).resolve().parent
    frames = [
        f'  File "{file}", line {line}, in {function}'
        for file, line, function in _FRAME.findall(text)
        if not file.startswith("<")
        and not Path(file).resolve().is_relative_to(own)
        and not is_machinery(file)
    ]
    if not frames:
        return ""
    return "\n".join(["Traceback (most recent call last):", *reversed(frames)])


def _read_lines(child: subprocess.Popen[str]) -> queue.Queue[str | None]:
    """Return a queue that a thread fills with the child's lines, and with None at the end."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        for line in child.stdout or ():
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    return lines
