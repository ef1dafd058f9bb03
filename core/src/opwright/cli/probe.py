"""The child process of ``opwright doctor``: runs what plugins provide, where a crash does no harm.

Writes a line before and after each plugin, and before each object that a plugin names, so
that the parent knows which of them crashed or hung.
"""

from __future__ import annotations

import faulthandler
import marshal
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TextIO

from opwright.errors import OpwrightError
from opwright.plugins.child import end_without_core
from opwright.plugins.index import key_of
from opwright.plugins.load import load_all
from opwright.plugins.merge import Registries, merge
from opwright.plugins.record import PluginRecord
from opwright.plugins.scan import Source
from opwright.registry import KernelEntry
from opwright.registry.advice import advise_command
from opwright.registry.refusals import find_refusal

LOAD, CHECK, TRY, END = "load", "check", "try", "end"
"""The phases: hooks run, objects that they name imported, one object, and the end of the child."""


def main(sources: list[list[Any]], skipped: list[list[str]], trace_path: str) -> None:
    """Examine plugins, write the results to the standard output, and end the process.

    `sources` are `Source` tuples as lists, `skipped` pairs [phase, key] that ended an earlier
    child. Where a signal ends the process, the stack of Python functions is written to
    `trace_path`.
    """
    report = _take_stdout()
    end_without_core()
    faulthandler.enable(open(trace_path, "w", encoding="utf-8"), all_threads=False)  # noqa: SIM115
    without = {(phase, key) for phase, key in skipped}
    records = []
    for source in (Source(*item) for item in sources):
        if (LOAD, key_of(source)) not in without:
            records += _load(source, report)
    registries = merge(records)
    for record in records:
        if record.package in registries.report.loaded and (
            (CHECK, key_of(record.source)) not in without
        ):
            _check(record, registries, report)
    _write(report, END, "")
    os._exit(0)  # without the exit handlers of plugins


def _take_stdout() -> TextIO:
    """Return the standard output for results: what plugins print goes to the error output."""
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return report


def _write(report: TextIO, phase: str, key: str, result: Any = None) -> None:
    report.write(marshal.dumps((phase, key, result)).hex() + "\n")  # which keeps tuples
    report.flush()


def _load(source: Source, report: TextIO) -> list[PluginRecord]:
    _write(report, LOAD, key_of(source))
    records, failures = load_all([source])
    result = {
        "record": records[0].to_plain() if records else None,
        "failure": (tuple(failures[0].package), *failures[0][1:]) if failures else None,
    }
    _write(report, LOAD, key_of(source), result)
    return records


def _check(record: PluginRecord, registries: Registries, report: TextIO) -> None:
    """Import every definition, kernel, device and pass of one plugin, and write which of them fail.

    Refusals of its kernels on this machine are not failures.
    """
    _write(report, CHECK, key_of(record.source))
    problems: dict[str, _Problem] = {}
    refusals: dict[str, list[str]] = {}
    options = registries.options.fill({})
    things = chain(_named_things(record, registries), _refusals(record, refusals, options))
    for who, action in things:
        _write(report, TRY, key_of(record.source), who)
        try:
            action()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - doctor reports all
            is_ours = isinstance(error, OpwrightError)
            reason = str(error) if is_ours else f"{type(error).__name__}: {error}"
            for begin in (f"{who}: ", f"{who} of {record.package.label}: ", "find_refusal: "):
                reason = reason.removeprefix(begin)
            advice = advise_command(error, record.package)
            problems.setdefault(reason, _Problem([], advice)).subjects.append(who)
    texts = {problem.text(reason): problem.advice for reason, problem in problems.items()}
    _write(report, CHECK, key_of(record.source), {"problems": texts, "refusals": refusals})


def _refusals(
    record: PluginRecord, reasons: dict[str, list[str]], options: Mapping[str, Any]
) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the functions that return why kernels would refuse, as `_named_things` does.

    Calling one enters its reason into `reasons`, with the libraries of its kernels.
    """
    libraries: dict[str, set[str]] = {}
    for kernel in record.kernels:
        if kernel.find_refusal:
            libraries.setdefault(kernel.find_refusal, set()).add(kernel.library)

    def ask(target: str) -> None:
        reason = find_refusal(target, record.package, options)
        if reason is not None:
            reasons[reason] = sorted({*reasons.get(reason, ()), *libraries[target]})

    for target, names in libraries.items():
        yield f"find_refusal of {' and '.join(sorted(names))}", partial(ask, target)


class _Problem(NamedTuple):
    """Objects that cannot be used for one reason: a library that does not open has many kernels."""

    subjects: list[str]
    advice: str

    def text(self, reason: str) -> str:
        first, *others = dict.fromkeys(self.subjects)
        return f"{first}{f' and {len(others)} more' if others else ''}: {reason}"


def _named_things(
    record: PluginRecord, registries: Registries
) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the objects that a plugin names: the name for errors, and a function to load each."""
    for op in record.ops:
        yield op.type, partial(registries.ops.get, op.type)
    for op_type in dict.fromkeys(kernel.op_type for kernel in record.kernels):
        for entry in registries.kernels.entries(op_type):
            # Kernels for an operator or device that no plugin here provides are no fault.
            if entry.package == record.package and _is_served(entry, registries):
                yield str(entry.key), entry.load
    for device in record.devices:
        opened = registries.devices.get(device.name)
        yield device.name, partial(opened.load, registries.ops.libraries)
        yield device.name, opened.load_arrays
    for item in record.passes:
        yield item.name, registries.passes.get(item.name).load


def _is_served(entry: KernelEntry, registries: Registries) -> bool:
    if entry.device not in ("*", *registries.devices.names()):
        return False
    try:
        return registries.ops.find(entry.op_type) is not None
    except OpwrightError:  # reported at its own plugin
        return False
