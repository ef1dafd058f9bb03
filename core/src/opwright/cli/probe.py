"""The child process of ``opwright doctor``: runs what plugins bring, where a crash does no harm.

Writes one line of JSON before and after each plugin, so that the parent knows which one it was
that crashed or hung.
"""

from __future__ import annotations

import json
import os
from typing import Any, TextIO

from opwright.discovery import PluginRecord, Registries, Source, merge
from opwright.discovery.index import key_of
from opwright.discovery.load import load_all
from opwright.errors import OpwrightError
from opwright.registry import KernelEntry, Package
from opwright.registry.advice import advise_command

LOAD, CHECK, END = "load", "check", "end"
"""What is done with each plugin: its hooks run, what they named imported. Then the last word."""


def main(sources: list[list[Any]], skipped: list[list[str]]) -> None:
    """Examine plugins, write what was found to the standard output, and end the process.

    Parameters
    ----------
    sources : list
        `Source` after `Source`, as lists.
    skipped : list of [phase, key]
        What brought down an earlier child.
    """
    report = _take_stdout()
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
    os._exit(0)  # what plugins would do at the exit of the interpreter is not asked here


def _take_stdout() -> TextIO:
    """Return the standard output for ourselves: what plugins print goes to the error output."""
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return report


def _write(report: TextIO, phase: str, key: str, result: object = None) -> None:
    report.write(json.dumps([phase, key, result]) + "\n")
    report.flush()


def _load(source: Source, report: TextIO) -> list[PluginRecord]:
    _write(report, LOAD, key_of(source))
    records, failures = load_all([source])
    result = {
        "record": records[0].to_json() if records else None,
        "failure": list(failures[0]) if failures else None,
    }
    _write(report, LOAD, key_of(source), result)
    return records


def _check(record: PluginRecord, registries: Registries, report: TextIO) -> None:
    """Import every definition, kernel, device and pass of one plugin, and say what fails."""
    _write(report, CHECK, key_of(record.source))
    problems: dict[str, str] = {}
    for op in record.ops:
        _try(lambda type=op.type: registries.ops.get(type), record.package, problems)
    for op_type in dict.fromkeys(kernel.op_type for kernel in record.kernels):
        for entry in registries.kernels.entries(op_type):
            # Kernels of an operator, or for a device, that nobody here brings are no fault.
            if entry.package == record.package and _is_served(entry, registries):
                _try(entry.load, record.package, problems)
    for device in record.devices:
        found = registries.devices.get(device.name)
        _try(lambda found=found: found.load(registries.ops.libraries), record.package, problems)
        _try(found.load_arrays, record.package, problems)
    for item in record.passes:
        _try(registries.passes.get(item.name).load, record.package, problems)
    _write(report, CHECK, key_of(record.source), problems)


def _is_served(entry: KernelEntry, registries: Registries) -> bool:
    if entry.device not in ("*", *registries.devices.names()):
        return False
    try:
        return registries.ops.find(entry.op_type) is not None
    except OpwrightError:  # told at its own plugin
        return False


def _try(action: Any, package: Package, problems: dict[str, str]) -> None:
    """Note what an action raises, and the command that is most likely to help."""
    try:
        action()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever it is, doctor tells it
        text = (
            str(error) if isinstance(error, OpwrightError) else f"{type(error).__name__}: {error}"
        )
        problems[text] = advise_command(error, package)
