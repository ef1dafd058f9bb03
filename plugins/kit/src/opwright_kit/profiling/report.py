"""The result of ``network.profile()``: a row for each step, and the overhead of the plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from opwright.commands import align, format_seconds
from opwright.op import Meta

_TITLE: Final = ("step", "operator", "place", "kernel", "output", "calls", "median", "min", "share")
_TO_THE_RIGHT: Final = {0, 5, 6, 7, 8, 9}
_SIZES: Final = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (0, "B"))


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One step of a plan.

    Attributes
    ----------
    step : int
        Its place in the order of execution; bodies of control flow follow their operator.
    op_type : str
        The operator type, possibly of an operator that a pass added, or ``"copy"``.
    operators : tuple of int
        The operators of the program that it computes, as indices into their block: several if a
        pass has fused them. Steps of an expanded composite all name the composite.
    block : int
        Index of the block of these operators.
    depth : int
        0 for the plan's own steps, 1 for the body of a control-flow operator, and so on. The time
        of a body is part of its operator's.
    device, library, dtype, package : str
        The properties of the chosen kernel, `package` with its version; empty without a
        kernel.
    is_python : bool
        Whether the kernel is written in Python.
    inputs, outputs : tuple of (str, str, tuple of int)
        Name, dtype and shape of each variable.
    calls : float
        How often it ran in one run, on average: more than once in a loop, less in a branch.
    runs : int
        How many of the measured runs reached it: all, except in a branch, and after an output whose
        shape changes from run to run.
    median_s, min_s : float
        Seconds in one of these runs, all its calls together.
    share : float
        The share in the sum over all steps of depth 0, in [0, 1].
    output_bytes : int
        Size of its outputs.
    """

    step: int
    op_type: str
    operators: tuple[int, ...]
    block: int
    depth: int
    device: str
    library: str
    dtype: str
    package: str
    is_python: bool
    inputs: tuple[tuple[str, str, tuple[int, ...]], ...]
    outputs: tuple[tuple[str, str, tuple[int, ...]], ...]
    calls: float
    runs: int
    median_s: float
    min_s: float
    share: float
    output_bytes: int

    @property
    def kernel(self) -> str:
        """Device and library of the kernel, as `Network.placement` counts them."""
        return f"{self.device}/{self.library}" if self.library else ""


@dataclass(frozen=True, slots=True)
class Profile:
    """The time of each step of a plan: ``print(network.profile(feeds))``.

    Attributes
    ----------
    device : str
        Device of the plan.
    n_runs : int
        Number of measured runs of each kind.
    n_threads : int
        Threads that the kernels of the plan itself use.
    rows : tuple of ProfileRow
        The steps in the order in which they run.
    run_s : float
        Median of a normal run: feeds, all steps and fetches, without timers inside.
    total_s : float
        Sum of the median step times, each weighted by the fraction of runs that reached the step.
    notes : tuple of str
        How this device was measured, if that matters.
    """

    device: str
    n_runs: int
    n_threads: int
    rows: tuple[ProfileRow, ...]
    run_s: float
    total_s: float
    notes: tuple[str, ...] = ()

    @property
    def overhead_s(self) -> float:
        """The time of a run beyond its steps; negative if steps run faster in a run than alone."""
        return self.run_s - self.total_s

    def to_json(self) -> dict[str, Any]:
        """Return the profile as plain data."""
        plain = asdict(self)
        plain["rows"] = [asdict(row) for row in self.rows]
        plain["notes"] = list(self.notes)
        return {**plain, "overhead_s": self.overhead_s}

    def __str__(self) -> str:
        threads = f"{self.n_threads} thread" + ("s" if self.n_threads > 1 else "")
        title = f"profile of {self.n_runs} runs on {self.device}, {threads}"
        table = align([(*_TITLE, "memory"), *map(_cells, self.rows)], _TO_THE_RIGHT)
        n_own = sum(row.depth == 0 for row in self.rows)
        ends = [
            (f"sum of {n_own} steps", format_seconds(self.total_s), ""),
            ("the plan itself", format_seconds(self.overhead_s), "feeds, fetches and the loop"),
            ("one run", format_seconds(self.run_s), "without a clock inside"),
        ]
        return "\n".join([title, *table, *align(ends, {1}), *self.notes])

    def __repr__(self) -> str:
        return str(self)


def _cells(row: ProfileRow) -> tuple[str, ...]:
    place = format_places(row.operators)
    return (
        str(row.step),
        "  " * row.depth + row.op_type,
        place if row.block == 0 else f"{row.block}:{place}",
        f"{row.kernel} {row.package}".strip() + (" (Python)" if row.is_python else ""),
        ", ".join(format_type(dtype, shape) for _, dtype, shape in row.outputs[:1])
        + (" ..." if len(row.outputs) > 1 else ""),
        f"{row.calls:g}",
        format_seconds(row.median_s),
        format_seconds(row.min_s),
        f"{100 * row.share:.1f} %",
        format_bytes(row.output_bytes),
    )


def format_places(operators: Sequence[int]) -> str:
    """Return indices in a short form: ``0+1`` or ``35-44``."""
    runs: list[list[int]] = []
    for index in operators:
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return "+".join(
        f"{run[0]}-{run[-1]}" if len(run) > 2 else "+".join(map(str, run)) for run in runs
    )


def format_type(dtype: str, shape: Sequence[int]) -> str:
    """Return dtype and shape in a readable form: ``float32[?, 64]``."""
    return str(Meta(tuple(shape), dtype))


def format_bytes(count: int) -> str:
    """Return a size with the unit that fits: ``1.5 MiB``."""
    scale, unit = next((s, u) for s, u in _SIZES if count >= s)
    return f"{count} B" if scale == 0 else f"{math.floor(10 * count / scale) / 10:g} {unit}"
