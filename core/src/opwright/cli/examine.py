"""Examines plugins for ``opwright doctor`` in child processes, so a plugin can crash only a child.

The child sends an event before and after each plugin, and before each object that a plugin names,
so that this process knows which one crashed or hung. The report of each package about services that
it uses, such as MPI, is made in a separate child.
"""

from __future__ import annotations

import faulthandler
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import opwright
from opwright.child import START_S, Channel, Child, ChildEnded, ChildRaised
from opwright.discovery.discover import Registries, merge
from opwright.discovery.index import key_of
from opwright.discovery.load import is_machinery, load_all
from opwright.discovery.scan import PluginRecord, Source
from opwright.errors import CommandError, OpwrightError, PluginError
from opwright.foreign import describe_error, import_object, text_of_error
from opwright.messages.tables import align
from opwright.packages import Package, PluginFailure
from opwright.packages.import_notes import EndedImport
from opwright.packages.package import advise_command
from opwright.registry import KernelEntry
from opwright.registry.kernels import find_refusal

_FRAME: Final = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)
_FATAL: Final = "Fatal Python error: "


DOCTOR_TOPIC: Final = "doctor"
"""The topic of annexes that are functions returning an `Examination`."""

_LAST_WORDS: Final = 2_000
"""The maximum number of characters to show from the output of a failed child."""

LOAD, CHECK, TRY, END = "load", "check", "try", "end"
"""Phases: running hooks, importing the named objects, one object, and the end of the child."""


class Event(NamedTuple):
    """An event about a plugin in the child: the start of a phase (result None), or its result."""

    phase: str
    key: str
    result: Any = None


class Diagnosis(NamedTuple):
    """The state of the examination of all plugins."""

    records: list[PluginRecord]  # plugins whose hooks returned
    failures: tuple[PluginFailure, ...]  # quarantined plugins
    # Plugins that crash or block every process (True), or only those that use an object (False).
    crashes: dict[PluginFailure, bool]
    problems: dict[Package, dict[str, str]]  # unusable objects, and the command that may help
    refusals: dict[Package, dict[str, list[str]]]  # why the kernels of some libraries would refuse
    # Modules and libraries that dead processes were importing.
    ended: Mapping[tuple[Package, str], list[EndedImport]] = MappingProxyType({})
    faults: Sequence[str] = ()  # unreadable metadata of distributions, and the reasons


def examine(sources: list[Source], timeout_s: float) -> Diagnosis:
    """Run children until one completes, each without the plugins that killed earlier children.

    `timeout_s` is the time limit in seconds of each plugin's hooks, and then of its objects.
    """
    skipped: list[tuple[str, str]] = []
    crashes: dict[PluginFailure, bool] = {}
    by_key = {key_of(source): source for source in sources}
    while True:
        events, reason, trace = _run_child(sources, skipped, timeout_s)
        last = events[-1] if events else Event("", "")
        if last.phase == END:
            return _diagnose(events, crashes, by_key)
        is_try = last.phase == TRY
        if last.key not in by_key or (last.result is not None and not is_try):
            raise PluginError(f"doctor: its child {reason} between plugins; run doctor again")
        skipped.append((CHECK if is_try else last.phase, last.key))
        package, subject = by_key[last.key].package, last.result if is_try else None
        doing = "its hooks ran" if subject is None else f"{subject} was loaded"
        advice = (
            f"pip install --upgrade {package.distribution}, or pip uninstall {package.distribution}"
        )
        failure = PluginFailure(package, f"{reason} while {doing}", trace, advice)
        crashes[failure] = subject is None


def _diagnose(
    events: list[Event], crashes: dict[PluginFailure, bool], by_key: dict[str, Source]
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
                    texts[by_key[key].package] = found
    kept_out = merge(records, failures).report.failures
    return Diagnosis(records, kept_out, crashes, problems, refusals)


def _run_child(
    sources: list[Source], skipped: list[tuple[str, str]], timeout_s: float
) -> tuple[list[Event], str, str]:
    """Run a child; return its events, how it ended, and a traceback if a signal killed it."""
    events: list[Event] = []
    limit_s, began = max(timeout_s, START_S), time.monotonic()
    child = Child("opwright.cli.examine:examine_plugins", sources, skipped, capture=True)
    with child:
        try:
            while not events or events[-1].phase != END:
                events.append(child.receive(limit_s, since=began))
                if events[-1].phase != TRY:
                    limit_s, began = timeout_s, time.monotonic()
        except ChildEnded as end:
            return events, str(end), _find_trace(child.printed)
        except ChildRaised as error:  # a plugin may raise KeyboardInterrupt
            return events, f"raised {error}", ""
    return events, "", ""


def _find_trace(printed: str) -> str:
    """Return the plugin functions that were running, the outermost first, as a traceback."""
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


def examine_plugins(
    channel: Channel, sources: list[Source], skipped: list[tuple[str, str]]
) -> Event:
    """Examine plugins, and send the events.

    `skipped` has pairs (phase, key) that killed earlier children. If a signal kills the process,
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
    """Import definitions, kernels, devices and passes of a plugin; return problems and refusals.

    Refusals of kernels on this machine are not failures.
    """
    problems: dict[str, tuple[list[str], str]] = {}
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
            problems.setdefault(reason, ([], advice))[0].append(who)
    return {_describe(r, whom): advice for r, (whom, advice) in problems.items()}, refusals


def _describe(reason: str, subjects: list[str]) -> str:
    """Return one line with a reason, which often applies to all kernels of an unusable library."""
    first, *others = dict.fromkeys(subjects)
    return f"{first}{f' and {len(others)} more' if others else ''}: {reason}"


def _refusals(
    record: PluginRecord, reasons: dict[str, list[str]], options: Mapping[str, Any]
) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield names, and functions that find why kernels would refuse, as `_named_things` does.

    Calling such a function adds its reason to `reasons`, with the libraries of its kernels.
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


def _named_things(
    record: PluginRecord, registries: Registries
) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield, for each object that a plugin names, a name for errors and a loading function."""
    for op in record.ops:
        yield op.type, partial(registries.ops.get, op.type)
    for op_type in dict.fromkeys(kernel.op_type for kernel in record.kernels):
        for entry in registries.kernels.entries(op_type):
            # A kernel for an operator or device that no installed plugin provides is not an error.
            if entry.package == record.package and _is_served(entry, registries):
                yield str(entry.key), entry.load
    for device in record.devices:
        opened = registries.devices.get(device.name)
        yield device.name, opened.load
        yield device.name, opened.load_arrays
    for item in record.passes:
        yield item.name, registries.passes.get(item.name).load


def _is_served(entry: KernelEntry, registries: Registries) -> bool:
    if entry.device not in ("*", *registries.devices.names()):
        return False
    try:
        return registries.ops.find(entry.op_type) is not None
    except OpwrightError:  # reported with its own plugin
        return False


class Examination(NamedTuple):
    """The report of `opwright doctor` about a service that a package uses.

    An annex of the topic ``doctor`` is a function without arguments that returns an Examination. It
    runs in a separate process, with the time limit of ``opwright doctor --timeout``.

    Attributes
    ----------
    facts : dict of str to str
        The findings, as in ``{"library": "MPICH 5.0.2", "self-test": "2 processes: ..."}``.
    reason : str
        The fault; empty if there is none. A missing service is a fact, not a fault.
    advice : str
        The fix.
    """

    facts: dict[str, str]
    reason: str = ""
    advice: str = ""


def examine_services(records: Iterable[PluginRecord], timeout_s: float) -> list[dict[str, Any]]:
    """Run each function of the topic in a child process; return the results as plain data."""
    named = [(record.package, annex) for record in records for annex in record.annexes]
    services = [
        {
            "name": annex.subject,
            "distribution": package.label,
            **_examine(annex.target, package, timeout_s)._asdict(),
        }
        for package, annex in named
        if annex.topic == DOCTOR_TOPIC
    ]
    return sorted(services, key=lambda service: str(service["name"]))


def _examine(target: str, package: Package, timeout_s: float) -> Examination:
    with Child("opwright.cli.examine:run_examination", target, capture=True) as child:
        try:
            return Examination(*child.receive(timeout_s))
        except ChildEnded as end:
            reason = f"its examination {end}"
        except (ChildRaised, OpwrightError) as error:
            reason = f"its examination raised {error}"
        words = child.printed.strip()[-_LAST_WORDS:]
    owner = package.distribution
    reason += f":\n{words}" if words else ""
    return Examination({}, reason, f"pip install --upgrade {owner}, or pip uninstall {owner}")


def run_examination(_: Channel, target: str) -> tuple[object, ...]:
    """Run one function, ``"module:function"``, in the child process, and return its result."""
    examination = import_object(target)()
    if not isinstance(examination, Examination):
        raise CommandError(
            f"{target}: an annex of the topic {DOCTOR_TOPIC!r} must return an "
            f"opwright.commands.Examination, got {examination!r}"
        )
    return tuple(examination)


def format_services(services: list[dict[str, Any]]) -> list[str]:
    """Return the lines of the report."""
    lines = []
    for service in services:
        lines += ["", f"{service['name']} ({service['distribution']})"]
        lines += align(service["facts"].items())
        if service["reason"]:
            first, *rest = service["reason"].splitlines()
            lines += [f"  reason: {first}", *(f"  | {line}" for line in rest)]
            lines.append(f"  to fix it: {service['advice']}")
    return lines
