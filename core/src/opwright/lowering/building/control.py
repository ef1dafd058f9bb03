"""Control flow: the bodies of an operator become child plans, its captured variables bindings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from opwright.describe.control import Branch, Control, Loop
from opwright.describe.meta import Meta, numel
from opwright.errors import ProgramError, ShapeError, SlotError
from opwright.lowering.graph.values import Child, LoweredOp, Role, Value
from opwright.lowering.request import Fetches

if TYPE_CHECKING:
    from opwright.lowering.layout.plan import LoweredPlan
    from opwright.lowering.request import LowerRequest

    Lower = Callable[[LowerRequest], LoweredPlan]
    """`opwright.lowering.lower`: a body is lowered like any network."""

SlotMetas = tuple[tuple[Meta, ...], ...]


def lower_control(
    op: LoweredOp, control: Control, counts: Sequence[int], request: LowerRequest, lower: Lower
) -> SlotMetas:
    """Lower the bodies of ``op`` into ``op.children`` and return the metas of its outputs.

    ``counts`` holds how many variables each output slot has; ``lower`` lowers a body.
    """
    n_outputs = counts[op.definition.output_index[control.outputs]]
    if isinstance(control, Loop):
        _check_counts(op, control, n_outputs)
        return _lower_loop(op, control, request, lower)
    for _, names_attr in control.blocks:
        _check_count(op, names_attr, n_outputs, control.outputs)
    return _lower_branch(op, control, request, lower)


def _check_counts(op: LoweredOp, control: Loop, n_outputs: int) -> None:
    """A loop carries as many variables in as out, through the body."""
    for attr in (control.block_inputs, control.block_outputs):
        _check_count(op, attr, n_outputs, control.outputs)
    n_carried = len(_slot(op, control.carried))
    if n_carried != n_outputs:
        raise SlotError(
            f"{op.type}: {control.outputs} must have one variable for each of {control.carried}, "
            f"got {n_outputs} for {n_carried}"
        )


def _check_count(op: LoweredOp, attr: str, n_outputs: int, slot: str) -> None:
    count = len(op.attrs[attr])
    if count != n_outputs:
        raise SlotError(
            f"{op.type}: {slot} must have one variable for each of {attr}, got {n_outputs} for "
            f"{count}"
        )


def _lower_branch(op: LoweredOp, control: Branch, request: LowerRequest, lower: Lower) -> SlotMetas:
    _check_condition(op, control.condition)
    captured = _slot(op, control.captured)
    bodies = []
    for block_attr, names_attr in control.blocks:
        fetches = Fetches(op.attrs[names_attr], Role.CAPTURED)
        plan = _lower_block(op, block_attr, captured, {}, fetches, request, lower)
        bodies.append(plan)
        op.children += (Child(plan, _capture(captured, plan)),)
    first = bodies[0].fetch_metas
    for (block_attr, _), body in zip(control.blocks, bodies, strict=True):
        if body.fetch_metas != first:
            raise ShapeError(
                f"{op.type}: every branch must give outputs of one shape and dtype, got "
                f"{_joined(first)} from {control.blocks[0][0]} and {_joined(body.fetch_metas)} "
                f"from {block_attr}; pad or cast one of them"
            )
    return _as_slots(op, control.outputs, first)


def _lower_loop(op: LoweredOp, control: Loop, request: LowerRequest, lower: Lower) -> SlotMetas:
    _check_condition(op, control.condition)
    carried = _slot(op, control.carried)
    names = op.attrs[control.block_inputs]
    given = {name: value.meta for name, value in zip(names, carried, strict=True)}
    names_read = (*op.attrs[control.block_outputs], op.attrs[control.block_condition])
    captured = _slot(op, control.captured)
    fetches = Fetches(names_read, role=None)
    body = _lower_block(op, control.block, captured, given, fetches, request, lower)
    metas = tuple(value.meta for value in carried)
    if body.fetch_metas[:-1] != metas:
        raise ShapeError(
            f"{op.type}: a turn must give carried variables the shape and dtype they had, got "
            f"{_joined(body.fetch_metas[:-1])} from {_joined(metas)}"
        )
    op.children = (Child(body, _capture(captured, body)),)
    return _as_slots(op, control.outputs, metas)


def _lower_block(
    op: LoweredOp,
    block_attr: str,
    captured: Sequence[Value],
    given: dict[str, Meta],
    fetches: Fetches,
    request: LowerRequest,
    lower: Lower,
) -> LoweredPlan:
    if request.code.program is None:
        raise ProgramError(
            f"{op.type}: its block {block_attr!r} belongs to a program, got an operator on its "
            "own; run the block that holds it"
        )
    block = request.code.program.blocks[op.attrs[block_attr]]
    metas = {value.name: value.meta for value in captured} | given
    return lower(request.body(tuple(block.ops), metas, fetches))


def _capture(captured: Sequence[Value], plan: LoweredPlan) -> tuple[tuple[Value, int], ...]:
    """Bind the outer values that the body really reads."""
    return tuple(
        (value, plan.given_externals[value.name])
        for value in captured
        if value.name in plan.given_externals
    )


def _check_condition(op: LoweredOp, slot: str) -> None:
    meta = _slot(op, slot)[0].meta
    if meta.dtype != "bool" or numel(meta.shape) != 1:
        raise ShapeError(f"{op.type}: {slot} must be one bool, got {meta}")


def _slot(op: LoweredOp, name: str) -> tuple[Value, ...]:
    return op.inputs[op.definition.input_index[name]]


def _as_slots(op: LoweredOp, slot: str, metas: tuple[Meta, ...]) -> SlotMetas:
    position = op.definition.output_index[slot]
    return tuple(metas if i == position else () for i in range(len(op.definition.proto.outputs)))


def _joined(metas: Sequence[Meta]) -> str:
    return ", ".join(str(meta) for meta in metas) or "nothing"
