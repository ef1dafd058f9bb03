"""``opwright doctor`` examines every plugin in a child process; prints faults, fixes and costs."""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np

from opwright._version import __version__
from opwright.cli.command import print_json, print_report
from opwright.cli.examine import Diagnosis, examine, examine_services, format_services
from opwright.discovery import index
from opwright.discovery.discover import Settings, merge, select_allowed
from opwright.discovery.scan import PluginRecord, Source, scan
from opwright.errors import CommandError
from opwright.messages.names import hint
from opwright.messages.tables import align
from opwright.packages import ANY, Package, PluginFailure
from opwright.packages.import_notes import (
    ImportNotes,
    advise_retry,
    describe_ended,
    ended_to_json,
    is_left_out,
)
from opwright.packages.package import find_requirement
from opwright.registry import HOST_DEVICE
from opwright.registry.kernels import WOULD_REFUSE
from opwright.vocabulary import PROVIDER

_TITLE: Final = ("plugin", "distribution", "state", "import ms", "index ms")
_REPEATS: Final = 3
_DEFAULT_TIMEOUT_S: Final = 60.0
_MAX_TIMEOUT_S: Final = 24 * 3600.0

_T = TypeVar("_T")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: the time limit of a plugin, and whether to retry skipped plugins."""
    parser.epilog = (
        "import ms: importing the hook module and running the hooks, in the first process after an "
        "install. index ms: reading what they registered from the index, in each process after it. "
        "Kernels that would refuse on this machine, as for an optional library, are not a fault."
    )
    parser.add_argument(
        "--retry",
        metavar="PLUGIN",
        help="let the next process retry the imports of a plugin that are skipped because they "
        "ended earlier processes",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=_DEFAULT_TIMEOUT_S,
        metavar="SECONDS",
        help=f"for the hooks of each plugin, and for all that it names (default: "
        f"{_DEFAULT_TIMEOUT_S:g})",
    )


def run(args: argparse.Namespace) -> int:
    """Print the report; return 1 if a plugin is faulty or skipped, or no operator can run."""
    if not 0 < args.timeout <= _MAX_TIMEOUT_S:
        raise CommandError(
            f"doctor: --timeout must be more than 0 and at most {_MAX_TIMEOUT_S:g} seconds, got "
            f"{args.timeout:g}; give the time of the slowest plugin"
        )
    settings = Settings.from_environment()
    faults: list[str] = []
    sources, scan_ms = _measure(lambda: scan(faults=faults))
    folder = settings.cache_folder
    notes = ImportNotes(folder)
    if args.retry is not None:
        _retry(args, sources, notes)
        return 0
    path = None if folder is None else index.index_path(folder, sources, __version__)
    environment = {
        "opwright": __version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "numpy": np.__version__,
        "index": f"{path} ({index.read(path, sources)[1]})",
        "scan": f"{_count(len(sources), 'plugin')} found in {scan_ms:.1f} ms",
    }
    allowed = select_allowed(sources, settings.allowed)
    diagnosis = examine(allowed, args.timeout)._replace(
        ended=notes.group(source.package for source in sources),
        faults=list(dict.fromkeys(faults)),
    )
    lack = find_lack(diagnosis, len(sources) - len(allowed))
    services = examine_services(diagnosis.records, args.timeout)
    report = (diagnosis, environment, lack, services)
    if args.json:
        print_json(to_json(*report))
    else:
        print(*format_report(*report), sep="\n")
    is_good = lack is None and not any(service["reason"] for service in services)
    return 0 if is_good and set(_states(diagnosis).values()) <= {"good"} else 1


def _retry(args: argparse.Namespace, sources: list[Source], notes: ImportNotes) -> None:
    plugin, known = args.retry, sorted({source.name for source in sources})
    if plugin not in known:
        raise CommandError(
            f"doctor: --retry must name an installed plugin, got {plugin!r}"
            f"{hint(plugin, known, 'installed plugins')}"
        )
    count = notes.forget(plugin)
    removed = f"{_count(count, 'note')} about plugin {plugin!r} removed"
    data = {"plugin": plugin, "removed_notes": count}
    print_report(args, data, [f"{removed}: the next process imports it again"])


def find_lack(diagnosis: Diagnosis, n_disabled: int) -> dict[str, str] | None:
    """Return the reason why no operator can be computed, and advice.

    Returns None if an operator can be computed, or fixing a broken plugin may help. `n_disabled` is
    the number of plugins that OPWRIGHT_PLUGINS disables.
    """
    if diagnosis.failures or diagnosis.crashes:
        return None
    types = {op.type for record in diagnosis.records for op in record.ops}
    kernels = (kernel for record in diagnosis.records for kernel in record.kernels)
    if types & {kernel.op_type for kernel in kernels if kernel.device in (HOST_DEVICE, ANY)}:
        return None
    none = f"no operator has a kernel for the device {HOST_DEVICE}"
    advice = f"pip install {find_requirement(HOST_DEVICE) or PROVIDER}"
    if n_disabled:
        advice = f"unset OPWRIGHT_PLUGINS, which excludes {_count(n_disabled, 'plugin')}"
    return {"reason": none if types else "no operator is installed", "advice": advice}


def format_report(
    diagnosis: Diagnosis,
    environment: dict[str, str],
    lack: dict[str, str] | None,
    services: list[dict[str, Any]],
) -> list[str]:
    """Return the lines of the report."""
    lines = align(list(environment.items()), indent="")
    rows = [_TITLE, *_rows(diagnosis)]
    lines += ["", *align(rows, right={3, 4}, indent="")]
    for failure in diagnosis.failures:
        lines += _format_failure(failure, "is kept out")
    for failure, always in diagnosis.crashes.items():
        whom = "every process" if always else "processes that use it"
        lines += _format_failure(failure, f"crashes or blocks {whom}")
    for package, texts in diagnosis.problems.items():
        lines += ["", f"plugin {package.plugin!r} of {package.label} names unusable objects"]
        lines += [f"  {line}" for text in texts for line in text.splitlines()]
        lines += [f"  to fix it: {advice}" for advice in dict.fromkeys(texts.values())]
    for package, reasons in diagnosis.refusals.items():
        for reason, libraries in reasons.items():
            whose = f"kernels of {' and '.join(libraries)} from {package.label}"
            lines += ["", f"{whose} {WOULD_REFUSE}{reason}"]
    for (package, _), ended in diagnosis.ended.items():
        lines += ["", f"plugin {package.plugin!r}: {describe_ended(ended)}"]
        if is_left_out(ended):
            lines.append(f"  to try it again: {advise_retry(package.plugin)}")
    if diagnosis.faults:
        lines += ["", "skipped, for its metadata cannot be read:"]
        lines += [f"  {line}" for fault in diagnosis.faults for line in fault.splitlines()]
    lines += format_services(services)
    states = _states(diagnosis)
    count = sum(state != "good" for state in states.values())
    count += sum(bool(service["reason"]) for service in services)
    if diagnosis.crashes:
        others = [p.plugin for p, state in states.items() if state in ("good", "broken")]
        lines += ["", f"to continue without the crashing ones: OPWRIGHT_PLUGINS={','.join(others)}"]
    if lack is not None:
        lines += ["", lack["reason"], f"  to fix it: {lack['advice']}"]
    if count:
        return [*lines, "", f"{_count(count, 'plugin')} need{'s' if count == 1 else ''} fixing"]
    return [*lines, "", "no problem found" if lack is None else "nothing can be computed"]


def _format_failure(failure: PluginFailure, what: str) -> list[str]:
    package = failure.package
    return [
        "",
        f"plugin {package.plugin!r} of {package.label} {what}",
        f"  reason: {failure.reason}",
        f"  to fix it: {failure.advice}",
        *(f"  | {line}" for line in failure.traceback.splitlines()),
    ]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _states(diagnosis: Diagnosis) -> dict[Package, str]:
    states = dict.fromkeys((record.package for record in diagnosis.records), "good")
    states |= {p: "left out" for (p, _), ended in diagnosis.ended.items() if is_left_out(ended)}
    states |= dict.fromkeys(diagnosis.problems, "broken")
    states |= {failure.package: "kept out" for failure in diagnosis.failures}
    return states | {failure.package: "crashes" for failure in diagnosis.crashes}


def _rows(diagnosis: Diagnosis) -> list[tuple[str, ...]]:
    costs = {
        record.package: (f"{record.load_ms:.1f}", f"{measure_index_ms(record):.2f}")
        for record in diagnosis.records
    }
    states = _states(diagnosis).items()
    return [(p.plugin, p.label, state, *costs.get(p, ("-", "-"))) for p, state in states]


def measure_index_ms(record: PluginRecord) -> float:
    """Measure how long a process takes to read one plugin from the index."""
    data = index.dump([record])
    return _measure(lambda: merge(index.parse(data)))[1]


def _measure(call: Callable[[], _T]) -> tuple[_T, float]:
    """Call a function several times; return its result and the shortest time in ms."""
    times_ms = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        result = call()
        times_ms.append((time.perf_counter() - began) * 1e3)
    return result, min(times_ms)


def to_json(
    diagnosis: Diagnosis,
    environment: dict[str, str],
    lack: dict[str, str] | None,
    services: list[dict[str, Any]],
) -> dict[str, Any]:
    """Return the report as plain data."""
    states = _states(diagnosis)
    return {
        "environment": environment,
        "plugins": [
            _record_to_json(record, states[record.package]) for record in diagnosis.records
        ],
        "lack": lack,
        "failures": list(map(_failure_to_json, diagnosis.failures)),
        "crashes": [
            {**_failure_to_json(failure), "always": always}
            for failure, always in diagnosis.crashes.items()
        ],
        "problems": [
            {**p._asdict(), "problems": list(texts), "advice": list(dict.fromkeys(texts.values()))}
            for p, texts in diagnosis.problems.items()
        ],
        "refusals": [
            {**package._asdict(), "libraries": libraries, "reason": reason}
            for package, reasons in diagnosis.refusals.items()
            for reason, libraries in reasons.items()
        ],
        "ended_imports": [
            {**package._asdict(), **ended_to_json(subject, ended)}
            for (package, subject), ended in diagnosis.ended.items()
        ],
        "unreadable_metadata": list(diagnosis.faults),
        "services": services,
    }


def _record_to_json(record: PluginRecord, state: str) -> dict[str, Any]:
    index_ms = round(measure_index_ms(record), 3)
    times = {"import_ms": record.load_ms, "index_ms": index_ms}
    return {**record.package._asdict(), **times, "state": state}


def _failure_to_json(failure: PluginFailure) -> dict[str, Any]:
    package, *rest = failure
    return {**package._asdict(), **dict(zip(PluginFailure._fields[1:], rest, strict=True))}
