"""``opwright doctor``: examines every plugin in a child process and says what helps."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from typing import Any, Final

import numpy as np

import opwright
from opwright.cli.examine import Diagnosis, examine
from opwright.discovery import Settings, index, scan, select_allowed
from opwright.registry import PluginFailure
from opwright.tables import align

_TITLE: Final = ("plugin", "distribution", "state", "import ms")
_DEFAULT_TIMEOUT_S: Final = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the time that a plugin is given."""
    parser.add_argument(
        "--timeout",
        type=float,
        default=_DEFAULT_TIMEOUT_S,
        metavar="SECONDS",
        help=f"for each plugin (default: {_DEFAULT_TIMEOUT_S:g})",
    )


def run(args: argparse.Namespace) -> int:
    """Print the report; 1 where a plugin is kept out, crashes, or names what cannot be used."""
    settings = Settings.from_environment()
    sources = scan()
    folder = settings.cache_folder
    version = str(getattr(opwright, "__version__", ""))
    path = None if folder is None else index.index_path(folder, sources, version)
    environment = {
        "opwright": version,
        "python": f"{platform.python_version()} ({sys.executable})",
        "numpy": np.__version__,
        "index": f"{path} ({index.read(path, sources).state})",
    }
    diagnosis = examine(select_allowed(sources, settings.allowed), args.timeout)
    if args.json:
        print(json.dumps(to_json(diagnosis, environment), indent=2))
    else:
        print("\n".join(format_report(diagnosis, environment)))
    return 1 if diagnosis.failures or diagnosis.crashes or diagnosis.problems else 0


def format_report(diagnosis: Diagnosis, environment: dict[str, str]) -> list[str]:
    """Return the lines of the report."""
    lines = align(list(environment.items()), indent="")
    rows = [_TITLE, *_rows(diagnosis)]
    lines += ["", *align(rows, right={3}, indent="")]
    for failure in (*diagnosis.failures, *diagnosis.crashes):
        package = failure.package
        what = "is kept out" if failure in diagnosis.failures else "brings down the process"
        lines += ["", f"plugin {package.plugin!r} of {package.label} {what}"]
        lines += [f"  reason: {failure.reason}", f"  to mend it: {failure.advice}"]
        lines += [f"  | {line}" for line in failure.traceback.splitlines()]
    for package, texts in diagnosis.problems.items():
        lines += ["", f"plugin {package.plugin!r} of {package.label} names what cannot be used"]
        lines += [f"  {line}" for text in texts for line in text.splitlines()]
        lines += [f"  to mend it: {advice}" for advice in dict.fromkeys(texts.values())]
    count = sum(state != "good" for _, _, state, _ in _rows(diagnosis))
    found = "1 plugin needs mending" if count == 1 else f"{count} plugins need mending"
    return [*lines, "", "no problem found" if count == 0 else found]


def _rows(diagnosis: Diagnosis) -> list[tuple[str, str, str, str]]:
    states = dict.fromkeys((record.package for record in diagnosis.records), "good")
    states |= dict.fromkeys(diagnosis.problems, "broken")
    states |= {failure.package: "kept out" for failure in diagnosis.failures}
    states |= {crash.package: "crashes" for crash in diagnosis.crashes}
    costs = {record.package: f"{record.load_ms:.1f}" for record in diagnosis.records}
    return [(p.plugin, p.label, state, costs.get(p, "-")) for p, state in states.items()]


def to_json(diagnosis: Diagnosis, environment: dict[str, str]) -> dict[str, Any]:
    """Return the report as plain data."""
    states = {(plugin, label): state for plugin, label, state, _ in _rows(diagnosis)}
    return {
        "environment": environment,
        "plugins": [
            {
                **record.package._asdict(),
                "import_ms": record.load_ms,
                "state": states[record.package.plugin, record.package.label],
            }
            for record in diagnosis.records
        ],
        "failures": list(map(_failure_to_json, diagnosis.failures)),
        "crashes": list(map(_failure_to_json, diagnosis.crashes)),
        "problems": [
            {
                **package._asdict(),
                "problems": list(texts),
                "advice": list(dict.fromkeys(texts.values())),
            }
            for package, texts in diagnosis.problems.items()
        ],
    }


def _failure_to_json(failure: PluginFailure) -> dict[str, Any]:
    return {
        **failure.package._asdict(),
        "reason": failure.reason,
        "advice": failure.advice,
        "traceback": failure.traceback,
    }
