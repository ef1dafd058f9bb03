"""What kernels put off in ``prepare``, such as compiling: done together, once a plan is complete.

A kernel that passes tried and left is not among them, so nothing is compiled that is not used.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from opwright.errors import KernelError
from opwright.lowering.kernels.prepare import prepare_kernel
from opwright.registry.prepare_context import Refuse

if TYPE_CHECKING:
    from opwright._runtime import Prepared
    from opwright.lowering.graph.graph import Graph
    from opwright.lowering.graph.values import LoweredOp
    from opwright.lowering.request import Target
    from opwright.registry import KernelEntry
    from opwright.registry.prepare_context import Complete

MAX_PREPARED = 4096
"""Prepared kernels kept for later plans: those of the largest models, several times over."""


class Unfinished(NamedTuple):
    """A kernel whose ``prepare`` put something off, and how to call it again.

    Attributes
    ----------
    entry : KernelEntry
    key : tuple
        Of the context's prepared kernels.
    device : str
    packable : tuple of int
    target : Target
    deferred : tuple of (callable, object)
        What completes it, and what that is given.
    """

    entry: KernelEntry
    key: tuple[Any, ...]
    device: str
    packable: tuple[int, ...]
    target: Target
    deferred: tuple[tuple[Complete, Any], ...]


def finish_kernels(graph: Graph) -> None:
    """Complete what the chosen kernels have put off, and prepare them again.

    Raises
    ------
    OpwrightError
        Where a kernel's ``prepare`` fails now; it names the operator.
    """
    if not graph.unfinished:
        return
    begin = time.perf_counter()
    waiting = [op for op in graph.ops if op.prepared in graph.unfinished]
    _complete(graph.unfinished[prepared] for prepared in {op.prepared: None for op in waiting})
    finished: dict[Prepared, Prepared] = {}
    for op in waiting:
        prepared = finished.get(op.prepared)
        if prepared is None:
            prepared = _prepare_again(op, graph.unfinished[op.prepared])
            finished[op.prepared] = prepared
        op.prepared = prepared
    graph.unfinished.clear()
    graph.prepare_s += time.perf_counter() - begin


def _complete(unfinished: Iterable[Unfinished]) -> None:
    groups: dict[Complete, list[Any]] = {}
    for kernel in unfinished:
        for complete, work in kernel.deferred:
            groups.setdefault(complete, []).append(work)
    for complete, works in groups.items():
        complete(works)


def _prepare_again(op: LoweredOp, kernel: Unfinished) -> Prepared:
    entry, key, device, packable, target, _ = kernel
    kept = target.context.prepared
    prepared = kept.get(key)  # another thread may have been faster
    if prepared is None:
        prepared = prepare_kernel(entry, op, device, packable, target)
        remember(kept, key, prepared)
    before = op.prepared.workspace_bytes
    if isinstance(prepared, Refuse) or prepared.workspace_bytes != before:
        now = f"refused: {prepared.reason}" if isinstance(prepared, Refuse) else "other workspace"
        raise KernelError(
            f"{entry.who}: prepare must decide for operator {op.index} what it decided before it "
            f"put off work, got {now}; call ctx.defer after everything is decided"
        )
    return prepared


def remember(kept: dict[Any, Any], key: Any, prepared: object) -> None:
    """Keep a prepared kernel for later plans, and forget the oldest of too many."""
    if len(kept) >= MAX_PREPARED:
        kept.pop(next(iter(kept)), None)  # plans keep what they use
    kept[key] = prepared
