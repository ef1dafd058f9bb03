"""Runs the child processes of ``opwright doctor``: a plugin can crash only a child."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

import opwright
from opwright.child import START_S, Child, ChildEnded
from opwright.cli.probe import CHECK, END, LOAD, TRY, Event
from opwright.errors import PluginError
from opwright.plugins.index import key_of
from opwright.plugins.load import is_machinery
from opwright.plugins.merge import merge
from opwright.plugins.record import PluginRecord, package_of
from opwright.plugins.scan import Source
from opwright.registry import Package, PluginFailure
from opwright.registry.import_notes import EndedImport

_FRAME: Final = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)
_FATAL: Final = "Fatal Python error: "


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
    faults: Sequence[str] = ()  # metadata of any distribution that cannot be read, and why


def examine(sources: list[Source], timeout_s: float) -> Diagnosis:
    """Run children until one completes, each without the plugins that ended the ones before.

    `timeout_s` is the time in seconds for the hooks of each plugin, and then for all that it names.
    """
    skipped: list[tuple[str, str]] = []
    crashes: list[Crash] = []
    by_key = {key_of(source): source for source in sources}
    while True:
        events, reason, trace = _run_child(sources, skipped, timeout_s)
        last = events[-1] if events else Event("", "")
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
    events: list[Event], crashes: tuple[Crash, ...], by_key: dict[str, Source]
) -> Diagnosis:
    records: list[PluginRecord] = []
    failures: list[PluginFailure] = []
    problems: dict[Package, dict[str, str]] = {}
    refusals: dict[Package, dict[str, list[str]]] = {}
    for phase, key, result in events:
        if result and phase == LOAD:
            records += result[0]
            failures += result[1]
        elif result and phase == CHECK:
            for texts, found in ((problems, result[0]), (refusals, result[1])):
                if found:
                    texts[package_of(by_key[key])] = found
    kept_out = merge(records, failures).report.failures
    return Diagnosis(records, kept_out, crashes, problems, refusals)


def _run_child(
    sources: list[Source], skipped: list[tuple[str, str]], timeout_s: float
) -> tuple[list[Event], str, str]:
    """Return the events of a child, how it ended, and the traceback where a signal ended it."""
    events: list[Event] = []
    limit_s, began = max(timeout_s, START_S), time.monotonic()
    child = Child("opwright.cli.probe:examine_plugins", sources, skipped, capture=True)
    with child:
        try:
            while not events or events[-1].phase != END:
                events.append(child.receive(limit_s, since=began))
                if events[-1].phase != TRY:
                    limit_s, began = timeout_s, time.monotonic()
        except ChildEnded as end:
            return events, str(end), _find_trace(child.printed)
    return events, "", ""


def _find_trace(printed: str) -> str:
    """Return the functions of plugins that were running, the outermost first, as a traceback."""
    own = Path(opwright.__file__).resolve().parent
    frames = [
        f'  File "{file}", line {line}, in {function}'
        for file, line, function in _FRAME.findall(printed.rpartition(_FATAL)[2])
        if not file.startswith("<")
        and not Path(file).resolve().is_relative_to(own)
        and not is_machinery(file)
    ]
    if not frames:
        return ""
    return "\n".join(["Traceback (most recent call last):", *reversed(frames)])
