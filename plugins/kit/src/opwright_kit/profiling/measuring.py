"""Measures the steps of a plan, and relates them to the operators of the program."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from opwright import vocabulary
from opwright.device import HOST_DEVICE
from opwright.errors import ProgramError
from opwright.op import Branch, Meta
from opwright.rewriting import size_bytes
from opwright_kit.profiling.report import Profile, ProfileRow

if TYPE_CHECKING:
    from opwright import Network, Scope
    from opwright.rewriting import LoweredOp, LoweredPlan, Value
    from opwright.runtime import CompiledNetwork

DEFAULT_RUNS: Final = 30
"""With this number of runs, the median is robust to interrupts."""

MAX_RUNS: Final = 10_000
"""The time of every run of every step is kept until the end, in 8 bytes."""

_NOISY: Final = 0.9
"""Ratio of a run to the sum of its steps; the cost of clocks does not explain lower ratios."""

_WARMUP_RUNS: Final = 3
"""A device records its graph in the second run; kernels load and allocate in the first."""


def profile(
    network: Network | CompiledNetwork,
    feeds: Mapping[str, Any] | None = None,
    n: int | None = None,
    *,
    scope: Scope | None = None,
) -> Profile:
    """Measure each step of the plan compiled or run last; `print` shows a table.

    The plan runs `n` times as usual, and `n` times step by step, timed by a clock in the runtime. A
    device with a queue is synchronized around each step, and no graph is replayed. The runs write
    into copies: the scope does not change.

    Parameters
    ----------
    network : Network, or what its ``compile`` returned
    feeds : mapping of str to array, optional
        As for a call of the compiled network; their shapes select the plan.
    n : int, optional
        Number of runs, in [1, 10000]; default `DEFAULT_RUNS`.
    scope : Scope, optional
        The scope of the persistable variables; by default the scope of the compiled network, and
        for ``run`` the default scope.

    Returns
    -------
    Profile
        ``rows`` in the order of execution, ``to_json()`` plain data.

    Raises
    ------
    ProgramError
        If nothing was compiled or run yet, the result of ``compile`` is gone, or `n` is outside its
        range.
    FeedError
        For a missing, unknown or misshapen feed.
    KernelError
        If a kernel fails.
    """
    runs = _checked_runs(n)
    prepared = network.plan_for(feeds, scope)
    own = _scratch_scope(prepared.scope, prepared.written)
    return _measure(prepared.lowered, prepared.feeds, own, runs, prepared.fetch_device)


def _checked_runs(n: Any) -> int:
    if n is None:
        return DEFAULT_RUNS
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= MAX_RUNS:
        raise ProgramError(
            f"profile: n, how many runs are measured, must be an int in [1, {MAX_RUNS}], got {n!r}"
        )
    return n


def _scratch_scope(scope: Scope, written: frozenset[str]) -> Scope:
    """Return a scope for runs; variables that they write are copied, other variables are shared."""
    own = scope.new_scope()
    for name in sorted({*written, vocabulary.STEP}):
        variable = scope.find_var(name)
        if variable is not None and variable.is_set:
            own.var(name).set(variable.numpy(), device=variable.opened_device)
    return own


class _Step(NamedTuple):
    """A step as the runtime reports it."""

    op_index: int
    is_copy: bool
    runs_ns: list[int]
    n_calls: int
    children: list[Any]


def _measure(
    lowered: LoweredPlan, arrays: tuple[Any, ...], scope: Scope, n: int, fetch_device: bool
) -> Profile:
    plan, placement = lowered.plan, lowered.placement
    runs, _, root = plan.time_steps(arrays, scope, n, _WARMUP_RUNS, fetch_device)
    rows = _Rows(n)
    rows.add_plan(root, depth=0, block=0)
    parts_s = [row["median_s"] * row["runs"] / n for row in rows.rows]
    own = [part for part, row in zip(parts_s, rows.rows, strict=True) if row["depth"] == 0]
    total_s = math.fsum(own)
    run_s = median(runs) * 1e-9
    return Profile(
        device=placement.device,
        n_runs=n,
        n_threads=placement.n_threads,
        rows=tuple(
            ProfileRow(**row, share=part / total_s if total_s else 0.0)
            for part, row in zip(parts_s, rows.rows, strict=True)
        ),
        run_s=run_s,
        total_s=total_s,
        notes=_notes(
            placement.device, plan.capture_refusal, median(runs) * 1e-9 / (total_s or 1.0)
        ),
    )


def _notes(device: str, graph_refusal: str, run_over_steps: float) -> tuple[str, ...]:
    if device == HOST_DEVICE:
        if run_over_steps > _NOISY:
            return ()
        return (
            "a run takes less time than its steps: other work disturbed them, trust the minima",
        )
    notes = [f"{device} was idle before and after each step, so launches did not overlap"]
    if not graph_refusal:
        notes.append("a complete run replays a graph of the steps; steps were timed without it")
    return tuple(notes)


class _Rows:
    """Collects the rows of a plan, its children and its continuations."""

    def __init__(self, n: int) -> None:
        self._n = n
        self.rows: list[dict[str, Any]] = []

    def add_plan(self, node: Any, depth: int, block: int) -> None:
        plan, steps, shapes, following = node
        ops = plan.describe.ops
        steps = [_Step(*step) for step in steps]
        begin = 0
        while begin < len(steps):  # a loop copies carried values: steps of one operator
            end = begin + 1
            while end < len(steps) and steps[end].op_index == steps[begin].op_index:
                end += 1
            self._add_op(ops[steps[begin].op_index], steps[begin:end], shapes, depth, block)
            begin = end
        for next_node in following:
            self.add_plan(next_node, depth, block)

    def _add_op(
        self,
        op: LoweredOp,
        steps: list[_Step],
        shapes: dict[int, tuple[int, ...]],
        depth: int,
        block: int,
    ) -> None:
        if not steps[-1].runs_ns:  # the branch that was not taken
            return
        runs_ns = [sum(times) for times in zip(*(step.runs_ns for step in steps), strict=True)]
        entry = op.entry
        outputs = tuple(_typed(value, shapes) for value in op.writes())
        self.rows.append(
            {
                "step": len(self.rows),
                "op_type": "copy" if op.is_copy else op.type,
                "operators": _operators(op),
                "block": block,
                "depth": depth,
                "device": "" if entry is None else entry.device,
                "library": "" if entry is None else entry.library,
                "dtype": "" if entry is None else entry.dtype,
                "package": "" if entry is None else entry.package.label,
                "is_python": bool(op.prepared is not None and op.prepared.needs_gil),
                "inputs": tuple(_typed(value, shapes) for slot in op.inputs for value in slot),
                "outputs": outputs,
                "calls": steps[-1].n_calls / self._n,
                "runs": len(runs_ns),
                "median_s": median(runs_ns) * 1e-9,
                "min_s": min(runs_ns) * 1e-9,
                "output_bytes": sum(size_bytes(Meta(s, dtype)) for _, dtype, s in outputs),
            }
        )
        for child, inner in zip(steps[-1].children, _blocks(op), strict=True):
            self.add_plan(child, depth + 1, inner)


def _operators(op: LoweredOp) -> tuple[int, ...]:
    """Return the program operators that a lowered operator implements; () if lowering added it."""
    counts_runs = any(value.name.split("/")[0] == vocabulary.STEP for value in op.writes())
    if op.is_copy or counts_runs:
        return ()
    return op.origins or (op.index,)


def _blocks(op: LoweredOp) -> list[int]:
    """Return the indices of the blocks that are the bodies of a control-flow operator."""
    control = op.definition.control
    if control is None:
        return []
    names = [name for name, _ in control.blocks] if isinstance(control, Branch) else [control.block]
    return [op.attrs[name] for name in names]


def _typed(value: Value, shapes: Mapping[int, tuple[int, ...]]) -> tuple[str, str, tuple[int, ...]]:
    """Return name, dtype and shape, with the actual shape if it depends on values."""
    return value.name, value.meta.dtype, shapes.get(value.id, value.meta.shape)
