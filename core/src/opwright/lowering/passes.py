"""The pipeline of passes: functions from plugins that rewrite a `Graph`, phase by phase."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opwright.errors import PluginError
from opwright.lowering.graph import Graph, LoweredOp, Role, Value
from opwright.names import hint

if TYPE_CHECKING:
    from opwright.lowering.request import LowerRequest
    from opwright.registry import PassEntry


def run_passes(graph: Graph, request: LowerRequest, phases: tuple[str, ...]) -> None:
    """Run the passes of ``phases`` that the request allows, each over the whole graph.

    Raises
    ------
    PluginError
        If the request names an unknown pass, or a pass fails.
    """
    if graph.keep_all:
        return
    registry = request.context.passes
    if request.passes is not None:
        _check_names(request.passes, registry.names())
    for entry in registry.of_phases(phases, graph.device):
        if request.passes is None or entry.name in request.passes:
            _run_pass(entry, graph)


def _run_pass(entry: PassEntry, graph: Graph) -> None:
    try:
        entry.load()(graph)
    except Exception as error:
        raise PluginError(
            f"pass {entry.name!r} of {entry.package.label} failed: "
            f"{type(error).__name__}: {error}; leave it out with passes=[...]"
        ) from error


def _check_names(names: tuple[str, ...], known: tuple[str, ...]) -> None:
    for name in names:
        if name not in known:
            raise PluginError(f"passes: unknown pass, got {name!r}{hint(name, known)}")


def remove_dead_ops(graph: Graph) -> None:
    """Drop operators whose results nobody reads; what writes the scope stays."""
    if graph.keep_all:
        return
    wanted: set[Value] = {value for value, _ in graph.sinks}
    wanted.update(graph.keeps)
    kept: list[LoweredOp] = []
    for op in reversed(graph.ops):
        writes = op.writes()
        if not wanted.isdisjoint(writes) or _has_effect(writes):
            kept.append(op)
            wanted.update(op.data_reads())
    kept.reverse()
    graph.ops = kept


def _has_effect(writes: list[Value]) -> bool:
    """Whether an operator writes memory that outlives the plan, or nothing at all (it prints)."""
    for value in writes:
        external = value.buffer.external
        if external is not None and external.role is Role.PERSISTABLE:
            return True
    return not writes
