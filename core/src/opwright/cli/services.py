"""What packages report to ``opwright doctor`` about the services that they use, such as MPI."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Collection
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Final, NamedTuple

from opwright.errors import CommandError
from opwright.plugins.child import child_command, describe_exit, end_without_core

DOCTOR_GROUP: Final = "opwright.doctor"
"""The entry-point group of functions that return an `Examination`."""

_LAST_WORDS: Final = 2_000
"""Characters of what a child has printed that are shown where it failed."""


class Examination(NamedTuple):
    """What `opwright doctor` prints about a service that a package uses.

    An entry point of the group ``opwright.doctor`` names a function without arguments that returns
    one. It runs in a process of its own, and may take as long as ``opwright doctor --timeout``.

    Attributes
    ----------
    facts : dict of str to str
        What is found, in lines: ``{"library": "MPICH 5.0.2", "self-test": "2 processes: ..."}``.
    reason : str
        What is broken; empty where nothing is. A service that is not installed is a fact.
    advice : str
        What fixes it.
    """

    facts: dict[str, str]
    reason: str = ""
    advice: str = ""


class Service(NamedTuple):
    """One entry point, and what came of it."""

    name: str  # of the entry point
    label: str  # of the distribution, with its version
    examination: Examination


def examine_services(left_out: Collection[str], timeout_s: float) -> list[Service]:
    """Run each function of the group in a child process, but those of plugins that are left out."""
    points = sorted(entry_points(group=DOCTOR_GROUP), key=lambda point: point.name)
    return [
        Service(point.name, _label(point), _examine(point, timeout_s))
        for point in points
        if point.name not in left_out
    ]


def _label(point: EntryPoint) -> str:
    return point.value if point.dist is None else f"{point.dist.name} {point.dist.version}"


def _examine(point: EntryPoint, timeout_s: float) -> Examination:
    with tempfile.TemporaryDirectory(prefix="opwright-doctor-") as folder:
        answer, output = Path(folder) / "answer", Path(folder) / "output"
        command = child_command(__name__, target=point.value, answer_path=str(answer))
        ending = _run(command, output, timeout_s)
        if answer.exists():
            return Examination(*json.loads(answer.read_text(encoding="utf-8")))
        words = output.read_text(encoding="utf-8", errors="replace").strip()[-_LAST_WORDS:]
    owner = point.value if point.dist is None else point.dist.name
    reason = f"its examination {ending}" + (f":\n{words}" if words else "")
    return Examination({}, reason, f"pip install --upgrade {owner}, or pip uninstall {owner}")


def _run(command: list[str], output: Path, timeout_s: float) -> str:
    """Run a child, what it prints into a file; say how it ended, and end what it has started."""
    with (
        output.open("wb") as file,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as child,
    ):
        try:
            return describe_exit(child.wait(timeout_s))
        except subprocess.TimeoutExpired:
            return f"took more than {timeout_s:g} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)


def main(target: str, answer_path: str) -> None:
    """Run one function, ``"module:function"``, and write what it returns; in the child process."""
    end_without_core()
    examination = EntryPoint("", target, DOCTOR_GROUP).load()()
    if not isinstance(examination, Examination):
        raise CommandError(
            f"{target}: a function of {DOCTOR_GROUP} must return an opwright.commands.Examination, "
            f"got {examination!r}"
        )
    beside = Path(f"{answer_path}.part")
    beside.write_text(json.dumps(examination), encoding="utf-8")
    beside.rename(answer_path)


def format_services(services: list[Service]) -> list[str]:
    """Return the lines of the report."""
    lines = []
    for service in services:
        facts, reason, advice = service.examination
        lines += ["", f"{service.name} ({service.label})"]
        width = max(map(len, facts), default=0)
        lines += [f"  {name:<{width}}  {fact}" for name, fact in facts.items()]
        if reason:
            first, *rest = reason.splitlines()
            lines += [f"  reason: {first}", *(f"  | {line}" for line in rest)]
            lines.append(f"  to fix it: {advice}")
    return lines
