"""What packages report to ``opwright doctor`` about the services that they use, such as MPI."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from opwright.child import Channel, Child, ChildEnded, ChildRaised
from opwright.errors import CommandError, OpwrightError
from opwright.foreign import import_object
from opwright.plugins.record import PluginRecord
from opwright.plugins.tables import align
from opwright.registry import Package

DOCTOR_TOPIC: Final = "doctor"
"""The topic of annexes that are functions and return an `Examination`."""

_LAST_WORDS: Final = 2_000
"""Characters of what a child has printed that are shown where it failed."""


class Examination(NamedTuple):
    """What `opwright doctor` prints about a service that a package uses.

    An annex of the topic ``doctor`` is a function without arguments that returns one. It runs in a
    process of its own, and may take as long as ``opwright doctor --timeout``.

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


def examine_services(records: Iterable[PluginRecord], timeout_s: float) -> list[dict[str, Any]]:
    """Run each function of the topic in a child process; return what came of it as plain data."""
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
    with Child("opwright.cli.services:run_examination", target, capture=True) as child:
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
    """Run one function, ``"module:function"``, and return what it does; in the child process."""
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
