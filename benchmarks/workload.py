"""The classes of a benchmark: a workload with its implementations and goals."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OURS = "opwright"
PEERS_VARIABLE = "OPWRIGHT_BENCH_PEERS"
"""The environment variable that names the peer interpreter to opwright implementations."""

# For units of time, smaller is better; for shares of bandwidth or peak performance, larger is
# better. Instead of times, `Timed.measure` can return ratios to another time, or bytes.
UNITS = {"ns": 1.0, "µs": 1e3, "ms": 1e6, "MiB": 2.0**20}
UNITS |= {"calm steps": 1.0, "small steps": 1.0, "steps of two": 1.0}
UNITS |= {"steps of whole states": 1.0}
RATES = {"GB/s": 1.0, "GFLOP/s": 1.0}


class NotAvailableError(Exception):
    """Raised if an implementation cannot run here; the message names the missing requirement."""


@dataclass(frozen=True)
class Timed:
    """A prepared implementation.

    Attributes
    ----------
    call : callable without arguments
        The timed call.
    per : float
        The work of one call: operators of a chain, bytes, floating-point operations. The figure is
        the time of a call divided by this number, or for a rate, this number divided by the time.
    values : list of float
        The results before timing; all implementations of a workload must agree on them.
    measure : callable, optional
        Replaces the timing of `call`. Returns the durations in ns of several calls, in this process
        or a separate one, or bytes if memory is measured.
    wait : callable, optional
        Waits until a device has finished the enqueued calls; timed once together with many calls.
    """

    call: Callable[[], Any] | None = None
    per: float = 1.0
    values: list[float] = field(default_factory=list)
    measure: Callable[[], list[float]] | None = None
    wait: Callable[[], Any] | None = None


@dataclass(frozen=True)
class Goal:
    """A goal of an opwright implementation.

    Attributes
    ----------
    figure : float, optional
        A bound in the unit of the workload.
    ratio : float, optional
        A bound relative to the figure of `of`.
    of : str
        A prefix of peer names; the best matching peer is used. "torch" matches all variants of
        PyTorch. It can also be the full name of one opwright implementation. Empty for all peers.
    """

    figure: float | None = None
    ratio: float | None = None
    of: str = ""


@dataclass(frozen=True)
class Workload:
    """One row of the table.

    Attributes
    ----------
    name : str
        The name on the command line.
    title : str
        A description of the measurement.
    unit : str
        A key of `UNITS` or `RATES`.
    implementations : mapping of str to callable
        Each function returns a `Timed`, in a separate process, or raises NotAvailableError. Names
        of opwright implementations begin with "opwright".
    goals : mapping of str to list of Goal
        The goals by name of the opwright implementation.
    tolerance : float
        The maximum difference of `values` between two implementations, relative to the largest
        value.
    tolerances : mapping of str to float
        Different tolerances, by implementation.
    """

    name: str
    title: str
    unit: str
    implementations: Mapping[str, Callable[[], Timed]]
    goals: Mapping[str, list[Goal]] = field(default_factory=dict)
    tolerance: float = 1e-4
    tolerances: Mapping[str, float] = field(default_factory=dict)

    def figure(self, call_ns: float, per: float) -> float:
        """Convert the time of a call in ns to a figure in the unit of the workload."""
        if self.unit in RATES:
            return per / call_ns
        return call_ns / per / UNITS[self.unit]

    @property
    def more_is_better(self) -> bool:
        """Return whether the figure is a rate, for which larger is better."""
        return self.unit in RATES


def is_ours(implementation: str) -> bool:
    """Return whether the implementation is an opwright variant."""
    return implementation.startswith(OURS)


def load_workloads(file: Path) -> list[Workload]:
    """Return the list `WORKLOADS` of a file."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    workloads: list[Workload] = module.WORKLOADS
    return workloads
