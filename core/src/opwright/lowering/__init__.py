"""Lowering: from operators and metas to a plan of the runtime.

``build_graph`` infers shapes and turns names into values, ``passes`` rewrites the graph, ``select``
chooses and prepares kernels, ``order`` lets updates run early, ``finish`` completes what kernels
defer, ``memory`` assigns memory, and ``plan`` builds the plan.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable

from opwright.device.opening import open_device
from opwright.lowering.building.build_graph import GraphBuilder
from opwright.lowering.graph.constants import hoist_constants
from opwright.lowering.graph.values import LoweredOp
from opwright.lowering.kernels.finish import finish_kernels
from opwright.lowering.kernels.select import select_kernels
from opwright.lowering.layout.memory import plan_memory
from opwright.lowering.layout.order import advance_updates
from opwright.lowering.layout.plan import LoweredPlan, Placement, PlanAssembler
from opwright.lowering.passes import remove_dead_ops, run_passes
from opwright.lowering.request import Fetches, Given, LowerRequest, OpRange, Persistables, Target

__all__ = [
    "Fetches",
    "Given",
    "LowerRequest",
    "LoweredPlan",
    "OpRange",
    "Persistables",
    "Placement",
    "Target",
    "lower",
]


def lower(request: LowerRequest) -> LoweredPlan:
    """Decide everything that can be decided before a run.

    OpwrightError if shapes or dtypes do not fit, a variable is read before it is written, or no
    kernel is registered; nothing has been run or changed then.
    """
    was_enabled = gc.isenabled()
    gc.disable()  # a plan has many long-lived objects: each collection would scan them again
    try:
        graph = GraphBuilder(request, lower).build()
        built = graph.ops
        remove_dead_ops(graph)
        run_passes(graph, ("canonicalize", "fuse", "layout"))
        select_kernels(graph)
        advance_updates(graph)
        run_passes(graph, ("memory",))
        finish_kernels(graph)
        hoist_constants(graph)
        device = open_device(request.target.device, request.target.context)
        plan = PlanAssembler(graph, request, plan_memory(graph, device)).build()
        _forget(built, graph.ops)
        return plan
    finally:
        if was_enabled:
            gc.enable()


def _forget(built: Iterable[LoweredOp], kept: Iterable[LoweredOp]) -> None:
    """Remove what nothing needs when a plan is built.

    The references from values to operators are cycles, which would wait for the collector; the
    signatures of the operators that a plan keeps for its errors would be visited by it.
    """
    for op in built:
        for values in op.outputs:
            for value in values:
                value.op = None
    for op in kept:
        op.signature = None
