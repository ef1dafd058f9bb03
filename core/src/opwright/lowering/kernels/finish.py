"""Completes what kernels defer in ``prepare``, such as compiling, at the end of lowering.

Kernels that passes tried and did not use are not completed, so nothing unused is compiled.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from opwright._runtime import Prepared
from opwright.errors import KernelError
from opwright.lowering.graph.graph import Graph
from opwright.lowering.graph.values import LoweredOp
from opwright.lowering.kernels.arguments import Arguments
from opwright.lowering.kernels.prepare import prepare_kernel
from opwright.lowering.request import Target
from opwright.registry import KernelEntry
from opwright.registry.prepare_context import Complete, Refuse

MAX_PREPARED = 4096
"""Prepared kernels cached for later plans: several times as many as the largest models have."""


class Unfinished(NamedTuple):
    """A kernel whose ``prepare`` deferred something, and the arguments to prepare it again."""

    entry: KernelEntry
    key: tuple[Any, ...]  # in the context's prepared kernels
    device: str
    arguments: Arguments
    target: Target
    deferred: tuple[tuple[Complete, Any], ...]  # functions with their arguments


def finish_kernels(graph: Graph) -> None:
    """Complete what the chosen kernels have deferred, and prepare them again.

    OpwrightError if a kernel's ``prepare`` fails now; the message names the operator.
    """
    if not graph.unfinished:
        return
    begin = time.perf_counter()
    waiting = [op for op in graph.ops if op.prepared in graph.unfinished]
    groups: dict[Complete, list[Any]] = {}
    for kernel in {op.prepared: None for op in waiting}:
        for complete, work in graph.unfinished[kernel].deferred:
            groups.setdefault(complete, []).append(work)
    for complete, works in groups.items():
        complete(works)
    finished: dict[Prepared, Prepared] = {}
    for op in waiting:
        prepared = finished.get(op.prepared)
        if prepared is None:
            prepared = _prepare_again(op, graph.unfinished[op.prepared])
            finished[op.prepared] = prepared
        op.prepared = prepared
    graph.unfinished.clear()
    graph.prepare_s += time.perf_counter() - begin


def _prepare_again(op: LoweredOp, kernel: Unfinished) -> Prepared:
    entry, key, device, arguments, target, _ = kernel
    cache = target.context.prepared
    prepared = cache.get(key)  # another thread may have been faster
    if prepared is None:
        prepared = prepare_kernel(entry, op, device, arguments, target)
        remember(cache, key, prepared)
    before = op.prepared.workspace_bytes
    if isinstance(prepared, Refuse) or prepared.workspace_bytes != before:
        now = f"refused: {prepared.reason}" if isinstance(prepared, Refuse) else "other workspace"
        raise KernelError(
            f"{entry.who}: prepare must decide for operator {op.index} what it decided before it "
            f"put off work, got {now}; call ctx.defer after everything is decided"
        )
    return prepared


def remember(cache: dict[Any, Any], key: Any, prepared: object) -> None:
    """Cache a prepared kernel for later plans, and drop the oldest if there are too many."""
    if len(cache) >= MAX_PREPARED:
        cache.pop(next(iter(cache)), None)  # plans keep what they use
    cache[key] = prepared
