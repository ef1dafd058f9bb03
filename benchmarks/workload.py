"""The parts of a benchmark: a workload with its implementations and goals."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OURS = "opwright"
PEERS_VARIABLE = "OPWRIGHT_BENCH_PEERS"
"""The environment variable that names the peers' interpreter to our implementations."""

# For a unit of time smaller is better; for a share of bandwidth or peak larger is better.
# Besides times, `Timed.measure` may return their ratio to another time, or bytes.
UNITS = {"ns": 1.0, "µs": 1e3, "ms": 1e6, "MiB": 2.0**20}
UNITS |= {"calm steps": 1.0, "small steps": 1.0, "steps of two": 1.0}
UNITS |= {"steps of whole states": 1.0}
RATES = {"GB/s": 1.0, "GFLOP/s": 1.0}


class NotAvailableError(Exception):
    """An implementation cannot run here; the message names the missing requirement."""


@dataclass(frozen=True)
class Timed:
    """A prepared implementation.

    Attributes
    ----------
    call : callable without arguments
        The timed call.
    per : float
        The work of one call: operators of a chain, bytes, floating-point operations. The figure is
        the time of a call by this number, or for a rate this number by the time.
    values : list of float
        Its results before any timing; all implementations of a workload must agree.
    measure : callable, optional
        Instead of timing `call` here: returns the ns of each of some calls, in this process or a
        separate one; for memory, bytes.
    wait : callable, optional
        Waits until a device has finished the enqueued calls; timed once with many calls.
    """

    call: Callable[[], Any] | None = None
    per: float = 1.0
    values: list[float] = field(default_factory=list)
    measure: Callable[[], list[float]] | None = None
    wait: Callable[[], Any] | None = None


@dataclass(frozen=True)
class Goal:
    """Our goal.

    Attributes
    ----------
    figure : float, optional
        In the unit of the workload.
    ratio : float, optional
        To the figure of `of`.
    of : str
        A name prefix; the best of the peers that match it counts: "torch" matches all variants
        of PyTorch. The full name of one of our implementations: only that one. Empty: all peers.
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
        To choose it at the command line.
    title : str
        A description of the measurement.
    unit : str
        A key of `UNITS` or `RATES`.
    implementations : mapping of str to callable
        Each makes a `Timed`, in a separate process; it may raise NotAvailableError. A name that
        begins with "opwright" marks one of our implementations.
    goals : mapping of str to list of Goal
        By the name of our implementation.
    tolerance : float
        How far `values` of two implementations may be apart, as a share of the largest value.
    tolerances : mapping of str to float
        Other tolerances, by implementation.
    """

    name: str
    title: str
    unit: str
    implementations: Mapping[str, Callable[[], Timed]]
    goals: Mapping[str, list[Goal]] = field(default_factory=dict)
    tolerance: float = 1e-4
    tolerances: Mapping[str, float] = field(default_factory=dict)

    def figure(self, call_ns: float, per: float) -> float:
        """Convert the time of a call, in ns, to a figure in the workload's unit."""
        if self.unit in RATES:
            return per / call_ns
        return call_ns / per / UNITS[self.unit]

    @property
    def more_is_better(self) -> bool:
        """Whether the figure is a rate."""
        return self.unit in RATES


def is_ours(implementation: str) -> bool:
    """Return whether the implementation is opwright, in any variant."""
    return implementation.startswith(OURS)


def load_workloads(file: Path) -> list[Workload]:
    """Return the list `WORKLOADS` of a file."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file}: no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    workloads: list[Workload] = module.WORKLOADS
    return workloads
