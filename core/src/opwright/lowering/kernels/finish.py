"""Completes, at the end of lowering, work that kernels deferred in ``prepare``, such as compiling.

Kernels that passes tried and rejected are not completed, so nothing unused is compiled.
"""

from __future__ import annotations

import time
import weakref
from typing import Any

from opwright._runtime import Prepared
from opwright.context.context import Context
from opwright.errors import KernelError
from opwright.lowering.graph.graph import Graph
from opwright.lowering.graph.values import LoweredOp
from opwright.lowering.kernels.arguments import Arguments
from opwright.lowering.kernels.prepare import prepare_kernel
from opwright.lowering.kernels.prepare_context import Complete, Refuse
from opwright.lowering.request import Target
from opwright.registry import KernelEntry

MAX_REFERENCES = 8192
"""Number of additions after which entries whose kernel no longer exists are dropped."""

MAX_REFUSALS = 4096
"""Several times the number that the largest models have."""


def finish_kernels(graph: Graph) -> None:
    """Complete the deferred work of the chosen kernels, and re-prepare them.

    Raises OpwrightError if the ``prepare`` of a kernel fails now; the message names the operator.
    """
    if not graph.unfinished:
        return
    begin = time.perf_counter()
    waiting = [op for op in graph.ops if op.prepared in graph.unfinished]
    groups: dict[Complete, list[Any]] = {}
    for kernel in {op.prepared: None for op in waiting}:
        for complete, work in graph.unfinished[kernel][0]:
            groups.setdefault(complete, []).append(work)
    for complete, works in groups.items():
        complete(works)
    finished: dict[Prepared, Prepared] = {}
    for op in waiting:
        prepared = finished.get(op.prepared)
        if prepared is None:
            prepared = finished[op.prepared] = graph.unfinished[op.prepared][1](op)
        op.prepared = prepared
    graph.unfinished.clear()
    graph.prepare_s += time.perf_counter() - begin


def prepare_again(
    entry: KernelEntry,
    key: tuple[Any, ...],
    device: str,
    arguments: Arguments,
    target: Target,
    op: LoweredOp,
) -> Prepared:
    """Return the completed kernel of an operator; `key` is its key in the Context."""
    prepared = find_prepared(target.context, key)  # another thread may have done it already
    if prepared is None:
        prepared = prepare_kernel(entry, op, device, arguments, target)
        remember(target.context, key, prepared)
    before = op.prepared.workspace_bytes
    if isinstance(prepared, Refuse) or prepared.workspace_bytes != before:
        now = f"refused: {prepared.reason}" if isinstance(prepared, Refuse) else "another workspace"
        raise KernelError(
            f"{entry.who}: prepare must not change its decision for operator {op.index} after its "
            f"deferred work, got {now}; call ctx.defer after all decisions"
        )
    return prepared


def find_prepared(context: Context, key: Any) -> Prepared | Refuse | None:
    """Return the kernel with this key that some plan uses, or the cached refusal."""
    reference = context.prepared.get(key)
    prepared: Prepared | None = None if reference is None else reference()
    return context.refusals.get(key) if prepared is None else prepared


def remember(context: Context, key: Any, prepared: Prepared | Refuse) -> None:
    """Share a kernel with later plans for as long as a plan uses it.

    Refusals do not own resources; a limited number of refusals is kept.
    """
    if not isinstance(prepared, Refuse):
        # A WeakValueDictionary is unsuitable: its callbacks swallow exceptions of signal handlers.
        context.prepared[key] = weakref.ref(prepared)
        if len(context.prepared) % MAX_REFERENCES == 0:
            for other, reference in list(context.prepared.items()):
                if reference() is None:
                    context.prepared.pop(other, None)
        return
    if len(context.refusals) >= MAX_REFUSALS:
        context.refusals.pop(next(iter(context.refusals)), None)
    context.refusals[key] = prepared
