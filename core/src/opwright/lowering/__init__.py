"""Lowering: from operators and metas to a plan of the runtime.

``build_graph`` infers shapes and turns names into values, ``passes`` rewrites the graph, ``select``
chooses and prepares kernels, ``order`` lets updates run early, ``finish`` completes deferred work
of kernels, ``memory`` assigns memory, and ``plan`` builds the plan.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from opwright.device.opening import open_device
from opwright.errors import FeedError
from opwright.lowering.building.build_graph import GraphBuilder
from opwright.lowering.graph.constants import hoist_constants
from opwright.lowering.graph.graph import Graph
from opwright.lowering.graph.values import LoweredOp, Role
from opwright.lowering.kernels.finish import finish_kernels
from opwright.lowering.kernels.select import select_kernels
from opwright.lowering.layout.memory import plan_memory
from opwright.lowering.layout.order import advance_updates
from opwright.lowering.layout.plan import LoweredPlan, Placement, PlanAssembler
from opwright.lowering.request import Fetches, Given, LowerRequest, Persistables, Target
from opwright.lowering.rewriting.passes import remove_dead_ops, run_passes

if TYPE_CHECKING:  # imported if a graph is cut
    from opwright.lowering.cut import Halves

__all__ = [
    "Fetches",
    "Given",
    "LowerRequest",
    "LoweredPlan",
    "Persistables",
    "Placement",
    "Target",
    "lower",
    "lower_halves",
]


Result = TypeVar("Result")


def lower(request: LowerRequest) -> LoweredPlan:
    """Return a plan; everything that can be decided before a run is decided here.

    Raises OpwrightError, with nothing run or changed, if shapes or dtypes do not fit, a variable is
    read before it is written, or no kernel is registered.
    """
    return _lower(request, lambda graph: _finish(graph, request))


def lower_halves(request: LowerRequest) -> tuple[list[LoweredPlan], Halves]:
    """Lower one graph to two plans; the second depends on ``request.given.late``."""
    from opwright.lowering.cut import cut_graph

    def finish(graph: Graph) -> tuple[list[LoweredPlan], Halves]:
        halves = cut_graph(graph, request)
        return [_finish(*part) for part in halves[0]], halves

    return _lower(request, finish)


def _lower(request: LowerRequest, finish: Callable[[Graph], Result]) -> Result:
    was_enabled = gc.isenabled()
    gc.disable()  # a plan has many long-lived objects, which every collection would rescan
    try:
        graph = GraphBuilder(request, lower).build()
        built = graph.ops
        remove_dead_ops(graph)
        run_passes(graph, ("canonicalize", "fuse", "layout"))
        select_kernels(graph)
        advance_updates(graph)
        run_passes(graph, ("memory",))
        finish_kernels(graph)
        _check_unread(graph, request.given.shape_only)
        result = finish(graph)
        _forget(built, ())
        if not graph.is_body and not graph.keep_all:  # other targets are for one plan
            inferred = request.target.inferred
            inferred.clear()
            for key, signature in graph.signatures.items():
                inferred[key, signature.definition] = signature.outputs, signature.sizes
        return result
    finally:
        if was_enabled:
            gc.enable()


def _check_unread(graph: Graph, names: frozenset[str]) -> None:
    """Raise FeedError if an operator reads the elements of a feed given only by its shape."""
    if not names:
        return
    kept = (*graph.keeps, *(value for value, _ in graph.sinks))
    reads = [("a fetch or later plan", value) for value in kept]
    for op in graph.ops:
        reads += [(op.type, value) for value in op.data_reads()]
    for reader, value in reads:
        external = (value.source or value).buffer.external
        if external is not None and external.role is Role.FEED and external.name in names:
            raise FeedError(
                f"shape_only: the elements of {external.name!r} must not be read, got {reader}, "
                "which reads them; feed an array, and omit the name from shape_only"
            )


def _finish(graph: Graph, request: LowerRequest) -> LoweredPlan:
    hoist_constants(graph)
    device = open_device(request.target.device, request.target.context)
    plan = PlanAssembler(graph, request, plan_memory(graph, device)).build()
    _forget(graph.ops, graph.ops)
    return plan


def _forget(built: Iterable[LoweredOp], kept: Iterable[LoweredOp]) -> None:
    """Drop references that are not needed once a plan is built.

    References from values to operators form cycles, which only the garbage collector would free.
    The collector would also traverse operator signatures that a plan keeps for error messages.
    """
    for op in built:
        for values in op.outputs:
            for value in values:
                value.op = None
    for op in kept:
        op.signature = None
