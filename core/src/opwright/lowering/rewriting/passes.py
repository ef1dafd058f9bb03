"""Runs passes, which are functions from plugins that rewrite a `Graph`.

Operators whose results are unused are removed, and the graph is verified.
"""

from __future__ import annotations

from collections.abc import Sequence

from opwright.errors import PluginError, ProgramError
from opwright.foreign import describe_error
from opwright.lowering.graph.graph import Graph
from opwright.lowering.graph.values import Buffer, LoweredOp, Value
from opwright.lowering.request import Target
from opwright.messages.names import hint
from opwright.registry import PassEntry

Contents = dict[Buffer, Value]


def run_passes(graph: Graph, phases: tuple[str, ...]) -> None:
    """Run the passes of ``phases`` that the target allows, each over the whole graph.

    A pass that names operators runs only if the graph contains one of these.

    The graph is verified at the end if edits changed it, after a pass that changed the list of
    operators itself, and with OPWRIGHT_STRICT=1 after every pass: a lost value then raises an error
    instead of causing a wrong result later. Raises PluginError if the target names an unknown pass,
    or a pass fails or leaves such a graph, and ProgramError if a pass refuses the program.
    """
    if graph.keep_all:
        return
    allowed = _allowed(graph.target)
    entries = graph.target.context.passes.of_phases(phases, graph.device)
    chosen = [entry for entry in entries if allowed is None or entry.name in allowed]
    if not chosen:
        return
    graph.target.chosen_passes.update(dict.fromkeys(chosen))
    changing: list[PassEntry] = []
    for entry in chosen:
        if not (entry.operators and graph.type_names().isdisjoint(entry.operators)) and _run_pass(
            entry, graph
        ):
            changing.append(entry)
    if changing:
        _verify(changing, graph)
        remove_dead_ops(graph)


def _run_pass(entry: PassEntry, graph: Graph) -> bool:
    """Run one pass; return whether the graph may have changed."""
    before = list(graph.ops)
    try:
        entry.load()(graph)
    except (MemoryError, ProgramError):
        raise  # the pass is not at fault if memory runs out, or it refuses the program
    except Exception as error:  # noqa: BLE001 - raised as the cause of another
        failure = PluginError(
            f"pass {entry.name!r} of {entry.package.label} failed: {describe_error(error)}; "
            f"exclude it with passes=['-{entry.name}']"
        )
        failure.__cause__ = error
        raise failure  # noqa: B904
    is_strict = graph.target.context.settings.strict
    if graph.ops == before and not is_strict:
        return False
    if not graph.check_uses() or is_strict:
        _verify([entry], graph)
    return True


def _verify(entries: Sequence[PassEntry], graph: Graph) -> None:
    """Raise PluginError if the graph cannot run after these passes have changed it."""
    fault = find_violation(graph)
    if fault is None and entries[-1].phase == "memory":
        fault = _find_unserved(graph)
    if fault is not None:
        who = " or ".join(f"{entry.name!r} of {entry.package.label}" for entry in entries)
        raise PluginError(
            f"pass {who} must leave a graph that can run, got one where {fault}; exclude it "
            f"with passes={[f'-{entry.name}' for entry in entries]}"
        )


def _find_unserved(graph: Graph) -> str | None:
    """Describe the fault of an operator that a pass created after kernel selection, or None."""
    faults = (
        f"{op.type} has no kernel, since graph.has_kernel was not called"
        for op in graph.ops
        if op.entry is None and not op.is_copy and not op.children
    )
    return next(faults, None)


def _allowed(target: Target) -> frozenset[str] | None:
    """Return the names of the passes to run, or None for all."""
    given = target.passes
    if given is None:
        return None
    known = target.context.passes.names()
    excluded = [name[1:] for name in given if name.startswith("-")]
    if excluded and len(excluded) < len(given):
        raise PluginError(
            f"passes: must name either the passes to run or the passes to skip, got {list(given)}; "
            "give one or the other"
        )
    for name in excluded or given:
        if name not in known:
            raise PluginError(f"passes: unknown pass, got {name!r}{hint(name, known)}")
    return frozenset(known) - frozenset(excluded) if excluded else frozenset(given)


def remove_dead_ops(graph: Graph) -> None:
    """Remove operators whose results are unused, except operators that write to the scope."""
    if graph.keep_all:
        return
    needed: set[Value] = {value.source or value for value, _ in graph.sinks}
    needed.update([value.source or value for value in graph.keeps])
    kept: list[LoweredOp] = []
    dead: list[LoweredOp] = []
    for op in reversed(graph.ops):
        # fast path: the first output is nearly always needed
        if not (op.outputs and not needed.isdisjoint(op.outputs[0])) and not _is_needed(op, needed):
            dead.append(op)
            continue
        kept.append(op)
        for values in op.data_slots() if op.definition.any_shape_only else op.inputs:
            for value in values:
                needed.add(value.source or value)
    if dead:
        graph.replace_ops(kept[::-1], dead)


def _is_needed(op: LoweredOp, needed: set[Value]) -> bool:
    """Whether an operator writes needed values, or has effects beyond the plan's memory."""
    for values in op.outputs:
        for value in values:
            external = value.buffer.external
            if value in needed or (external is not None and external.lasts):
                return True
    return op.has_effect


# -- verification ----------------------------------------------------------------------------------


def find_violation(graph: Graph) -> str | None:
    """Describe the fault of a graph in which a read would not find its value, or return None.

    The check scans the reads and writes of every buffer once, in about a twentieth of the time
    needed to lower the same operators.
    """
    contents: Contents = {}
    for op in graph.ops:
        for values in op.data_slots() if op.definition.any_shape_only else op.inputs:
            for value in values:
                current = contents.get(value.buffer)
                if current is not value and not _shows(value, current):
                    return f"{op.type} reads {value!r}, {_blame(current)}"
        if op.children:
            fault = _captured_fault(op, contents)
            if fault is not None:
                return fault
        for values in op.outputs:
            for value in values:
                contents[value.buffer] = value
        for value in op.unwritten() if op.unread else ():
            contents.pop(value.buffer, None)
    return _final_fault(graph, contents)


def _captured_fault(op: LoweredOp, contents: Contents) -> str | None:
    for child in op.children:
        for value, _ in child.bindings:
            current = contents.get(value.buffer)
            if not _shows(value, current):
                return f"a block of {op.type} reads {value!r}, {_blame(current)}"
    return None


def _final_fault(graph: Graph, contents: Contents) -> str | None:
    sinks = [value for value, _ in graph.sinks]
    for value in [*sinks, *graph.keeps, *graph.fetches]:
        current = contents.get(value.buffer)
        if not _shows(value, current):
            return f"{value!r} is fetched, {_blame(current)}"
    for buffer, value in graph.lasting.items():
        if contents.get(buffer) is not value:
            return f"persistable {value!r} must be written last by its own value, and is not"
    return None


def _shows(value: Value, current: Value | None) -> bool:
    """Whether memory with ``current`` in it (None: the given value) contains ``value``."""
    if current is not None:
        return current is value or current is value.source
    given = value.source or value
    return given.op is None and given.buffer.external is not None


def _blame(current: Value | None) -> str:
    if current is None:
        return "which no operator writes for certain before that"
    return f"whose memory holds {current!r} by then"
