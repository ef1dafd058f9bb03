"""Lowers control flow: the bodies of an operator become plans, bound to captured values.

The arrays of a loop are cut into the elements or segments of its iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from opwright.describe.control import Branch, Control, Loop, names_in
from opwright.describe.dtypes import Array
from opwright.describe.meta import Meta, numel
from opwright.describe.operands import hide_operands
from opwright.errors import ProgramError, ShapeError, SlotError
from opwright.lowering.graph.signature import SlotMetas, size_bytes
from opwright.lowering.graph.values import Child, LoweredOp, Role, Value
from opwright.lowering.layout.plan import LoweredPlan
from opwright.lowering.request import Fetches, Given, LowerRequest
from opwright.program import Operator, Program

Lower = Callable[[LowerRequest], LoweredPlan]
"""`opwright.lowering.lower`: a body is lowered like any network."""

FindNumbers: TypeAlias = "Callable[[Sequence[Operator]], Mapping[str, Array]]"
"""Maps the operators of a block to the known elements of the values that it captures."""

LowerBlock: TypeAlias = "Callable[[str, Mapping[str, Meta], Fetches], LoweredPlan]"
"""`_lower_block` of one operator: its arguments are a block attribute, given metas and results."""


class Part(NamedTuple):
    """Consecutive iterations over segments of equal length; one plan of the body runs them all."""

    first: int  # the number of iterations before them
    n_turns: int  # -1 for any number
    rows: int  # elements in a segment


class Segments(NamedTuple):
    """Describes how a loop splits its arrays."""

    names: frozenset[str]  # the variables of the body that are segments; the rest are elements
    rows: int  # elements in each segment but the last; 0 for a loop without segments
    n_elements: int

    @property
    def n_turns(self) -> int:
        """The number of segments."""
        return -(-self.n_elements // self.rows)

    def cut(self, n_turns: int) -> list[Part]:
        """Split a loop with `n_turns` iterations into parts; the last part may be shorter."""
        if self.rows == 0:
            return [Part(0, n_turns, 0)]
        whole, rest = divmod(self.n_elements, self.rows)
        parts = [Part(0, whole, self.rows)] if whole or not rest else []
        return [*parts, Part(whole, 1, rest)] if rest else parts

    def read(self, name: str, array: Meta, part: Part) -> Meta:
        """Return the meta of the array segment that an iteration reads."""
        rows = (part.rows,) if name in self.names else ()
        return Meta((*rows, *array.shape[1:]), array.dtype)

    def join(self, op: LoweredOp, name: str, added: Meta, part: Part, n_turns: int) -> Meta:
        """Return the meta of the array to which all iterations add."""
        if name not in self.names:
            return Meta((n_turns, *added.shape), added.dtype)
        if added.shape[:1] != (part.rows,):
            raise ShapeError(
                f"{op.type}: {name!r} must have as many elements as the segments that an "
                f"iteration reads, {part.rows} along axis 0, got {added}"
            )
        return Meta((self.n_elements, *added.shape[1:]), added.dtype)

    def skip(self, name: str, array: Meta, part: Part) -> int:
        """Return the offset in bytes at which the first iteration of a part reads an array."""
        rows = part.first * (self.rows if name in self.names else 1)
        return size_bytes(Meta((rows, *array.shape[1:]), array.dtype))


def find_segments(op: LoweredOp, control: Loop) -> Segments:
    """Return how a loop splits its arrays; ShapeError if their lengths along axis 0 differ."""
    rows = op.attrs.get(control.segment or "")
    if rows is None:
        return Segments(frozenset(), 0, 0)
    names = frozenset(names_in(op.attrs, control.segmented))
    elements = names_in(op.attrs, control.block_elements)
    read = {
        value.name: value.meta.shape[:1]
        for name, value in zip(elements, op.input(control.sequences), strict=True)
        if name in names
    }
    if len(set(read.values())) != 1 or () in read.values():
        listed = ", ".join(f"{name!r} {list(length)}" for name, length in read.items())
        raise ShapeError(
            f"{op.type}: {control.sequences} that are read in segments must be equally long along "
            f"axis 0, got {listed or 'none'}"
        )
    return Segments(names, rows, next(iter(read.values()))[0])


def lower_control(
    op: LoweredOp,
    control: Control,
    counts: Sequence[int],
    request: LowerRequest,
    lower: Lower,
    find_numbers: FindNumbers,
) -> SlotMetas:
    """Lower the bodies of ``op`` into ``op.children`` and return the metas of its outputs.

    ``counts`` is the number of variables in each output slot; ``lower`` lowers a body, and
    ``find_numbers`` finds the elements of captured values that are known.
    """
    n_outputs = counts[op.definition.output_index[control.outputs]]
    lower_block = partial(_lower_block, op, control, request, lower, find_numbers)
    if isinstance(control, Loop):
        _check_counts(op, control, counts)
        return _lower_loop(op, control, counts, lower_block)
    for _, names_attr in control.blocks:
        _check_count(op, names_attr, n_outputs, control.outputs)
    return _lower_branch(op, control, lower_block)


def _check_counts(op: LoweredOp, control: Loop, counts: Sequence[int]) -> None:
    """Raise SlotError if slots and names of the body do not pair up, or if names are repeated."""
    n_outputs = counts[op.definition.output_index[control.outputs]]
    for attr in (control.block_inputs, control.block_outputs):
        _check_count(op, attr, n_outputs, control.outputs)
    n_carried = len(op.input(control.carried))
    if n_carried != n_outputs:
        raise SlotError(
            f"{op.type}: {control.outputs} must have one variable for each of {control.carried}, "
            f"got {n_outputs} variables for {n_carried}"
        )
    if control.sequences is not None and control.block_elements is not None:
        n_sequences = len(op.input(control.sequences))
        _check_count(op, control.block_elements, n_sequences, control.sequences)
    for slot, attr in control.stacks:
        _check_count(op, attr, counts[op.definition.output_index[slot]], slot)
    for body in control.bodies(op.attrs):
        if len(set(body.entering)) != len(body.entering):
            raise SlotError(
                f"{op.type}: every variable that enters its block must have its own name, got "
                f"{list(body.entering)}"
            )


def _check_count(op: LoweredOp, attr: str, n_outputs: int, slot: str) -> None:
    count = len(op.attrs[attr])
    if count != n_outputs:
        raise SlotError(
            f"{op.type}: {slot} must have one variable for each of {attr}, got {n_outputs} for "
            f"{count}"
        )


def _lower_branch(op: LoweredOp, control: Branch, lower_block: LowerBlock) -> SlotMetas:
    _check_condition(op, control.condition)
    bodies = []
    for block_attr, names_attr in control.blocks:
        plan = lower_block(block_attr, {}, Fetches(op.attrs[names_attr], Role.CAPTURED))
        bodies.append(plan)
        op.children += (Child(plan, _capture(op.input(control.captured), plan)),)
    first = bodies[0].fetch_metas
    for (block_attr, _), body in zip(control.blocks, bodies, strict=True):
        if body.fetch_metas != first:
            raise ShapeError(
                f"{op.type}: every branch must give outputs of one shape and dtype, got "
                f"{_joined(first)} from {control.blocks[0][0]} and {_joined(body.fetch_metas)} "
                f"from {block_attr}; pad or cast one of them"
            )
    return tuple(first if slot == control.outputs else () for slot in op.definition.output_index)


def _lower_loop(
    op: LoweredOp, control: Loop, counts: Sequence[int], lower_block: LowerBlock
) -> SlotMetas:
    if control.condition is not None:
        _check_condition(op, control.condition)
    segments = find_segments(op, control)
    n_turns = _count_turns(op, control, segments)
    stacked = tuple(name for _, attr in control.stacks for name in op.attrs[attr])
    metas = tuple(value.meta for value in op.input(control.carried))
    arrays: list[Meta] = []
    bodies = []
    for part in segments.cut(n_turns):
        body = _lower_turn(op, control, stacked, segments, part, lower_block)
        added = body.fetch_metas[len(body.fetch_metas) - len(stacked) :]
        joined = [
            segments.join(op, *pair, part, n_turns) for pair in zip(stacked, added, strict=True)
        ]
        if arrays not in ([], joined):
            raise ShapeError(
                f"{op.type}: every iteration must add arrays of one shape and dtype, got "
                f"{_joined(joined)} and {_joined(arrays)}"
            )
        arrays = joined
        bodies.append((part, body))
    op.children = tuple(_bind_elements(op, control, segments, bodies))
    for child, (part, _) in zip(op.children, bodies, strict=True):
        pairs = zip(stacked, arrays, strict=True)
        child.skipped = tuple(segments.skip(name, array, part) for name, array in pairs)
    outputs = {control.outputs: metas}
    if control.turns_taken is not None and counts[op.definition.output_index[control.turns_taken]]:
        outputs[control.turns_taken] = (Meta((1,), "int64"),)
    rest = iter(arrays)
    for slot, attr in control.stacks:
        outputs[slot] = tuple([next(rest) for _ in op.attrs[attr]])
    return tuple(outputs.get(slot, ()) for slot in op.definition.output_index)


def _lower_turn(
    op: LoweredOp,
    control: Loop,
    stacked: tuple[str, ...],
    segments: Segments,
    part: Part,
    lower_block: LowerBlock,
) -> LoweredPlan:
    """Return the body's plan for the iterations of one part of a loop."""
    carried = op.input(control.carried)
    names = op.attrs[control.block_inputs]
    given = {name: value.meta for name, value in zip(names, carried, strict=True)}
    elements = names_in(op.attrs, control.block_elements)
    for name, value in zip(elements, op.input(control.sequences), strict=True):
        given[name] = segments.read(name, value.meta, part)
    condition = (op.attrs[control.block_condition or ""],) if control.condition else ()
    results = (*op.attrs[control.block_outputs], *condition)
    fetches = Fetches(results, None, stacked=stacked, carried=names)
    body = lower_block(control.block, given, fetches)
    metas = tuple(value.meta for value in carried)
    if body.fetch_metas[: len(metas)] != metas:
        raise ShapeError(
            f"{op.type}: an iteration must keep the shape and dtype of carried variables, got "
            f"{_joined(body.fetch_metas[: len(metas)])} from {_joined(metas)}"
        )
    return body


def _count_turns(op: LoweredOp, control: Loop, segments: Segments) -> int:
    """Return the maximum number of iterations, or -1 if it is unlimited."""
    limit = op.attrs.get(control.max_iterations or "")
    pairs = zip(
        names_in(op.attrs, control.block_elements), op.input(control.sequences), strict=True
    )
    lengths = {
        value.name: (segments.n_turns,) if name in segments.names else value.meta.shape[:1]
        for name, value in pairs
    }
    if limit is not None:
        lengths[str(control.max_iterations)] = (limit,)
    if len(set(lengths.values())) > 1 or () in lengths.values():
        listed = ", ".join(f"{name!r} {list(length)}" for name, length in lengths.items())
        raise ShapeError(
            f"{op.type}: {control.sequences} must be equally long along axis 0, got {listed}"
        )
    if lengths:
        return next(iter(lengths.values()))[0]
    if control.condition is None:
        raise SlotError(
            f"{op.type}: {control.sequences} or {control.max_iterations} must give the number of "
            "iterations, got neither of them"
        )
    if any(op.attrs[names] for _, names in control.stacks[-1:]):
        raise SlotError(
            f"{op.type}: {control.max_iterations} must be given to keep iterations, got none"
        )
    return -1


def _bind_elements(
    op: LoweredOp, control: Loop, segments: Segments, bodies: Sequence[tuple[Part, LoweredPlan]]
) -> list[Child]:
    """Remove inputs whose data no body reads; return children bound to the remaining inputs."""
    inputs, captured = list(op.inputs), op.input(control.captured)
    pairs: list[tuple[str, Value]] = []
    if control.sequences is not None:
        names = names_in(op.attrs, control.block_elements)
        pairs = [
            (name, value)
            for name, value in zip(names, op.input(control.sequences), strict=True)
            if any(name in body.given_externals for _, body in bodies)
        ]
        inputs[op.definition.input_index[control.sequences]] = tuple(value for _, value in pairs)
    read = {name for _, body in bodies for name in body.given_externals}
    inputs[op.definition.input_index[control.captured]] = tuple(
        value for value in captured if value.name in read
    )
    op.inputs = tuple(inputs)
    children = []
    for part, body in bodies:
        elements = [
            (body.given_externals.get(name, -1), segments.skip(name, value.meta, part))
            for name, value in pairs
        ]
        children.append(Child(body, _capture(captured, body), part.n_turns, tuple(elements)))
    return children


def _lower_block(
    op: LoweredOp,
    control: Control,
    request: LowerRequest,
    lower: Lower,
    find_numbers: FindNumbers,
    block_attr: str,
    given: Mapping[str, Meta],
    fetches: Fetches,
) -> LoweredPlan:
    if request.program is None:
        raise ProgramError(
            f"{op.type}: its block {block_attr!r} belongs to a program, got an operator on its "
            "own; run the block that holds it"
        )
    block = request.program.blocks[op.attrs[block_attr]]
    metas = {value.name: value.meta for value in op.input(control.captured)}
    ops, program = tuple(block.ops), request.program
    captured = Given({**metas, **given}, Role.CAPTURED, numbers=find_numbers(block.ops))
    return lower(LowerRequest(ops, request.target, captured, fetches=fetches, program=program))


def _capture(captured: Sequence[Value], plan: LoweredPlan) -> tuple[tuple[Value, int], ...]:
    """Bind the outer values that the body reads."""
    return tuple(
        (value, plan.given_externals[value.name])
        for value in captured
        if value.name in plan.given_externals
    )


def _check_condition(op: LoweredOp, slot: str) -> None:
    meta = op.input(slot)[0].meta
    if meta.dtype != "bool" or numel(meta.shape) != 1:
        raise ShapeError(f"{op.type}: {slot} must be one bool, got {meta}")


def _joined(metas: Sequence[Meta]) -> str:
    return ", ".join(str(meta) for meta in metas) or "nothing"


def infer_metas(program: Program | None, ops: Sequence[Operator], metas: dict[str, Meta]) -> None:
    """Add to `metas` the outputs of operators whose shapes can be inferred before a run."""
    for op in ops:
        names = [op.inputs.get(slot.name, ()) for slot in op.definition.proto.inputs]
        if not all(name in metas for slot in names for name in slot):
            continue
        given = tuple(tuple(metas[name] for name in slot) for slot in names)
        outputs = [op.outputs.get(slot.name, ()) for slot in op.definition.proto.outputs]
        blocks = None if program is None else program.global_block().block_metas
        counts = tuple(map(len, outputs))
        attrs = hide_operands(op.inputs, op.attrs)
        for slot, inferred in zip(outputs, op.definition.infer(given, attrs, counts, blocks)):
            metas.update(zip(slot, inferred, strict=False))
