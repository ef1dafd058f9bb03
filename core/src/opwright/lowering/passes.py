"""The pipeline of passes: functions from plugins that rewrite a `Graph`, phase by phase."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from opwright.describe.names import hint
from opwright.errors import PluginError, ProgramError
from opwright.lowering.graph.graph import Graph
from opwright.lowering.graph.values import LoweredOp, Role, Value
from opwright.lowering.graph.verify import find_violation, last_writes
from opwright.plugins.discover import Settings

if TYPE_CHECKING:
    from opwright.lowering.graph.values import Buffer
    from opwright.lowering.request import Target
    from opwright.registry import PassEntry


def run_passes(graph: Graph, phases: tuple[str, ...]) -> None:
    """Run the passes of ``phases`` that the target allows, each over the whole graph.

    After a pass that changed the list of operators the graph is verified, with OPWRIGHT_STRICT=1
    after every pass: a graph that lost a value is an error here, not a wrong number later.

    Raises
    ------
    PluginError
        If the target names an unknown pass, or a pass fails or leaves the graph inconsistent.
    ProgramError
        If a pass refuses the program.
    """
    if graph.keep_all:
        return
    allowed = _allowed(graph.target)
    entries = graph.target.context.passes.of_phases(phases, graph.device)
    chosen = [entry for entry in entries if allowed is None or entry.name in allowed]
    if not chosen:
        return
    graph.target.choices.passes.update(dict.fromkeys(chosen))
    lasting = last_writes(graph)
    strict = Settings.from_environment().strict
    changed = False
    for entry in chosen:
        changed |= _run_pass(entry, graph, lasting, strict)
    if changed:
        remove_dead_ops(graph)


def _run_pass(entry: PassEntry, graph: Graph, lasting: dict[Buffer, Value], strict: bool) -> bool:
    """Run one pass; return whether the graph may have changed."""
    before = list(graph.ops)
    try:
        entry.load()(graph)
    except (MemoryError, ProgramError):
        raise  # no fault of the pass: of the machine, or of the program, which the pass refuses
    except Exception as error:
        raise PluginError(
            f"pass {entry.name!r} of {entry.package.label} failed: "
            f"{type(error).__name__}: {error}; {_switch_off(entry)}"
        ) from error
    if graph.ops == before and not strict:
        return False
    graph.forget_uses()
    fault = find_violation(graph, lasting)
    if fault is None and entry.phase == "memory":
        fault = _find_unserved(graph)
    if fault is not None:
        raise PluginError(
            f"pass {entry.name!r} of {entry.package.label} must leave a graph that can run, got "
            f"one where {fault}; {_switch_off(entry)}"
        )
    return True


def _find_unserved(graph: Graph) -> str | None:
    """Name an operator without a kernel, where kernels have been chosen already."""
    for op in graph.ops:
        if op.entry is None and not op.is_copy and not op.children:
            return f"{op.type} has no kernel, for graph.has_kernel was not asked"
    return None


def _switch_off(entry: PassEntry) -> str:
    return f"leave it out with passes=['-{entry.name}']"


def _allowed(target: Target) -> frozenset[str] | None:
    """The names of the passes to run; None for all."""
    given = target.passes
    if given is None:
        return None
    known = target.context.passes.names()
    left_out = [name[1:] for name in given if name.startswith("-")]
    if left_out and len(left_out) < len(given):
        raise PluginError(
            f"passes: must name the only passes to run, or those to leave out, got {list(given)}; "
            "give one or the other"
        )
    _check_names(left_out or given, known)
    return frozenset(known) - frozenset(left_out) if left_out else frozenset(given)


def _check_names(names: Sequence[str], known: tuple[str, ...]) -> None:
    for name in names:
        if name not in known:
            raise PluginError(f"passes: unknown pass, got {name!r}{hint(name, known)}")


def remove_dead_ops(graph: Graph) -> None:
    """Remove operators whose results are unused; what writes the scope stays."""
    if graph.keep_all:
        return
    wanted: set[Value] = {value.source or value for value, _ in graph.sinks}
    wanted.update([value.source or value for value in graph.keeps])
    kept: list[LoweredOp] = []
    for op in reversed(graph.ops):
        writes = op.writes()
        if wanted.isdisjoint(writes) and not _has_effect(op, writes):
            continue
        kept.append(op)
        for values in op.data_slots():
            for value in values:
                wanted.add(value.source or value)
    kept.reverse()
    graph.ops = kept
    graph.forget_uses()


def _has_effect(op: LoweredOp, writes: list[Value]) -> bool:
    """Whether an operator writes memory that outlives the plan, or does more than to write."""
    for value in writes:
        external = value.buffer.external
        if external is not None and external.role is Role.PERSISTABLE:
            return True
    return op.has_effect
