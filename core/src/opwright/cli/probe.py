"""The child process of ``opwright doctor``: runs what plugins provide, where a crash does no harm.

Sends an event before and after each plugin, and before each object that a plugin names, so that the
parent knows which of them crashed or hung.
"""

from __future__ import annotations

import faulthandler
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from opwright.child import Channel
from opwright.errors import OpwrightError
from opwright.foreign import describe_error, text_of_error
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


class Event(NamedTuple):
    """What the child does to a plugin: it begins (result None), or has a result."""

    phase: str
    key: str
    result: Any = None


def examine_plugins(
    channel: Channel, sources: list[Source], skipped: list[tuple[str, str]]
) -> Event:
    """Examine plugins, and send the events.

    `skipped` are pairs (phase, key) that ended an earlier child. Where a signal ends the process,
    the stack of Python functions is printed.
    """
    faulthandler.enable(all_threads=False)
    records = []
    for source in sources:
        key = key_of(source)
        if (LOAD, key) not in skipped:
            channel.send(Event(LOAD, key))
            loaded, failures = load_all([source])
            channel.send(Event(LOAD, key, (loaded, failures)))
            records += loaded
    registries = merge(records)
    for record in records:
        key = key_of(record.source)
        if record.package in registries.report.loaded and (CHECK, key) not in skipped:
            channel.send(Event(CHECK, key))
            channel.send(Event(CHECK, key, _check(record, registries, channel)))
    return Event(END, "")


def _check(
    record: PluginRecord, registries: Registries, channel: Channel
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Import every definition, kernel, device and pass of a plugin; return problems and refusals.

    Refusals of its kernels on this machine are not failures.
    """
    problems: dict[str, _Problem] = {}
    refusals: dict[str, list[str]] = {}
    options = registries.options.fill({})
    things = chain(_named_things(record, registries), _refusals(record, refusals, options))
    for who, action in things:
        channel.send(Event(TRY, key_of(record.source), who))
        try:
            action()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - doctor reports all
            is_ours = isinstance(error, OpwrightError)
            reason = text_of_error(error) if is_ours else describe_error(error)
            for begin in (f"{who}: ", f"{who} of {record.package.label}: ", "find_refusal: "):
                reason = reason.removeprefix(begin)
            advice = advise_command(error, record.package)
            problems.setdefault(reason, _Problem([], advice)).subjects.append(who)
    return {item.text(reason): item.advice for reason, item in problems.items()}, refusals


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
