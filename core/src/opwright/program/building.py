"""How a block makes an operator: slots, attributes and variables checked, output metas inferred.

It runs within a transaction: where an error is raised, the program is as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opwright.describe.control import Branch
from opwright.describe.meta import Meta, format_shape, shapes_match
from opwright.describe.op_proto import AttrType
from opwright.describe.vocabulary import STEP_SLOT, STREAM_ATTR
from opwright.errors import DtypeError, ProgramError, ShapeError, SlotError
from opwright.program.operator import (
    Given,
    Operator,
    Slots,
    bind_slots,
    definition_of,
    fill_outputs,
)
from opwright.program.variable import DEFAULT_DTYPE, Variable

if TYPE_CHECKING:
    from opwright.describe.control import Loop
    from opwright.describe.definition import OpDefinition
    from opwright.describe.op_proto import OpProto
    from opwright.program.block import Block

Inferred = tuple[tuple[int, ...] | None, str]
"""Shape, None where the rank is unknown, and dtype of one output."""


def make_operator(
    block: Block,
    op_type: str,
    inputs: Mapping[str, Given],
    outputs: Mapping[str, Given],
    attrs: Mapping[str, Any],
) -> Operator:
    """Return a checked operator whose output variables exist in `block`; it is in no list yet."""
    definition = definition_of(op_type)
    proto = definition.proto
    bound = bind_slots(op_type, proto.inputs, inputs)
    if has_blocks(proto):
        attrs = _block_indices(block, proto, attrs)
        _capture(block, definition, bound, attrs)
    if definition.random:
        attrs = _wire_random(block, definition, inputs, bound, attrs)
    filled = proto.fill_attrs(attrs)
    written = bind_slots(op_type, proto.outputs, outputs)
    if len(written) < len(proto.outputs):
        written = _name_outputs(block, proto, bound, written)
    definition.check_slots(bound, written)
    variables = find_inputs(block, op_type, bound, inputs)
    metas = infer_outputs(block, definition, variables, filled, written)
    settle_outputs(block, op_type, written, metas, outputs)
    return Operator.make(block, definition, bound, written, filled)


def has_blocks(proto: OpProto) -> bool:
    """Tell whether the operator has sub-blocks."""
    return any(attr.type is AttrType.BLOCK for attr in proto.attrs)


def find_inputs(
    block: Block, op_type: str, bound: Slots, given: Mapping[str, Given]
) -> dict[str, list[Variable]]:
    """Return the variables behind the names of the input slots.

    Raises
    ------
    VariableNotFoundError
        Where a name stands for no variable of the block or those around it.
    ProgramError
        Where a Variable was given that belongs to another program or to a block out of sight.
    """
    found: dict[str, list[Variable]] = {}
    local = block.vars
    for slot, names in bound.items():
        found[slot] = [local.get(name) or _get_input(block, op_type, slot, name) for name in names]
    for slot, value in given.items():
        if type(value) is not str:
            check_ownership(op_type, slot, value, found.get(slot, ()))
    return found


def _get_input(block: Block, op_type: str, slot: str, name: str) -> Variable:
    return block.find_var(name) or block.get_var(name, f"{op_type}: {slot}")


def check_ownership(op_type: str, slot: str, given: object, found: Sequence[Variable]) -> None:
    """Raise ProgramError where a given Variable is not the one that its name stands for here."""
    items = given if isinstance(given, list | tuple) else (given,)
    for item, variable in zip(items, found, strict=False):
        if isinstance(item, Variable) and item is not variable:
            raise ProgramError(
                f"{op_type}: {slot} must be a variable of this block or of one around it, got "
                f"{item!r} of another program or block; build the operator where its inputs are"
            )


def infer_outputs(
    block: Block,
    definition: OpDefinition,
    inputs: Mapping[str, Sequence[Variable]],
    attrs: Mapping[str, Any],
    outputs: Slots,
) -> dict[str, Sequence[Inferred]]:
    """Return shape and dtype of every output; shapes are None where an input's rank is unknown."""
    proto = definition.proto
    ranked = True
    metas = []
    for slot in proto.inputs:
        slot_metas = []
        for variable in inputs.get(slot.name, ()):
            meta = variable.meta
            if meta is None:
                ranked = False
                meta = Meta((), variable.dtype)
            slot_metas.append(meta)
        metas.append(tuple(slot_metas))
    counts = tuple([len(outputs.get(slot.name, ())) for slot in proto.outputs])
    if not ranked:
        return _infer_dtypes(definition, tuple(metas), attrs, counts)
    inferred = definition.infer(tuple(metas), attrs, counts, block.block_metas)
    return {slot.name: found for slot, found in zip(proto.outputs, inferred) if found}


def _infer_dtypes(
    definition: OpDefinition,
    metas: tuple[tuple[Meta, ...], ...],
    attrs: Mapping[str, Any],
    counts: tuple[int, ...],
) -> dict[str, Sequence[Inferred]]:
    dtypes = definition.infer_dtypes(metas, attrs, counts)
    known = next((dtype for dtype in dtypes if dtype is not None), None)
    # Where the OpProto leaves a dtype open, it is most often that of what the operator computes
    # with; lowering, which knows the ranks, has the last word.
    default = known or next((slot[0].dtype for slot in metas if slot), DEFAULT_DTYPE)
    return {
        slot.name: [(None, dtype or default)] * count
        for slot, dtype, count in zip(definition.proto.outputs, dtypes, counts)
        if count
    }


def settle_outputs(
    block: Block,
    op_type: str,
    outputs: Slots,
    metas: Mapping[str, Sequence[Inferred]],
    given: Mapping[str, Given],
) -> None:
    """Make the output variables that do not exist, and check those that do, all before any change.

    Raises
    ------
    ShapeError, DtypeError
        Where a variable exists with another known shape or another dtype.
    ProgramError
        Where the variable belongs to an enclosing block: a body writes only what is its own.
    """
    local = block.vars
    undefined: list[tuple[str, Inferred]] = []
    for slot, names in outputs.items():
        for name, inferred in zip(names, metas[slot]):
            variable = local.get(name)
            if variable is None:
                _check_not_outer(block, op_type, slot, name)
                undefined.append((name, inferred))
            elif check_meta(op_type, slot, variable, inferred):
                undefined.append((name, inferred))
    for slot, value in given.items():
        if type(value) is not str and value is not None:
            found = [local[name] for name in outputs.get(slot, ()) if name in local]
            check_ownership(op_type, slot, value, found)
    for name, (shape, dtype) in undefined:
        block.define_var(name, shape, dtype)


def check_meta(op_type: str, slot: str, variable: Variable, inferred: Inferred) -> bool:
    """Check an existing variable against what is inferred; True where it has no shape yet."""
    shape, dtype = inferred
    declared = variable.shape
    undeclared = declared is None and variable.dtype == DEFAULT_DTYPE
    if variable.dtype != dtype and not undeclared:
        raise DtypeError(
            f"{op_type}: {slot} is {dtype}, but {variable!r} exists with another dtype; "
            "write to another name"
        )
    if declared is None or shape is None:
        return declared is None
    if not shapes_match(declared, shape):
        raise ShapeError(
            f"{op_type}: {slot} has shape {format_shape(shape)}, but {variable!r} exists with "
            "another; write to another name"
        )
    return False


def _check_not_outer(block: Block, op_type: str, slot: str, name: str) -> None:
    outer = block.find_var(name) if block.parent_idx is not None else None
    if outer is not None:
        raise ProgramError(
            f"{op_type}: {slot} must be a variable of block {block.idx}, got {name!r} of the "
            f"enclosing block {outer.block.idx}; write to a new name and let the block give it out"
        )


def _name_outputs(block: Block, proto: OpProto, inputs: Slots, outputs: Slots) -> Slots:
    """Name the outputs that were not given: the first one after the type, others after it."""
    program = block.program
    first = proto.outputs[0]
    named = not (first.optional or first.duplicable or first.intermediate or first.aliases)
    if named and first.name not in outputs:
        outputs = {first.name: (program.unique_name(proto.type),), **outputs}
    return fill_outputs(proto, inputs, outputs, program.free_name, True)


def _block_indices(block: Block, proto: OpProto, attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes with indices in place of Block objects."""
    indices = dict(attrs)
    taken = {
        index
        for op in block.ops
        if op.definition.control is not None
        for index in op.block_attrs().values()
    }
    for attr in proto.attrs:
        value = indices.get(attr.name)
        if attr.type is not AttrType.BLOCK or value is None:
            continue
        if not isinstance(value, int):
            if getattr(value, "program", None) is not block.program:
                raise ProgramError(
                    f"{proto.type}: {attr.name} must be a block of this program, got {value!r}"
                )
            indices[attr.name] = value.idx
        if block.program.block(indices[attr.name]).parent_idx != block.idx:
            raise ProgramError(
                f"{proto.type}: {attr.name} must be a block made within block {block.idx}, got "
                f"block {indices[attr.name]}"
            )
        if indices[attr.name] in taken:  # shared at each depth, it would be lowered 2**depth times
            raise ProgramError(
                f"{proto.type}: {attr.name} must be a block that is no other body, got block "
                f"{indices[attr.name]} again; make one for each"
            )
        taken.add(indices[attr.name])
    return indices


def _capture(
    block: Block, definition: OpDefinition, bound: Slots, attrs: Mapping[str, Any]
) -> None:
    """Fill the slot of captured variables with what the bodies read, or check what was given."""
    control = definition.control
    if control is None:
        return
    names: dict[str, None] = {}
    for body, results in leaving_names(block, control, attrs):
        names.update(dict.fromkeys(body.captured()))
        names.update((name, None) for name in results if name not in body.vars)
    own = bound.get(control.captured)
    if own is None:
        if names:
            bound[control.captured] = tuple(names)
            _reorder(definition.proto, bound)
        return
    lost = [name for name in names if name not in own]
    if lost:
        raise SlotError(
            f"{definition.op_type}: {control.captured} must hold every outer variable that the "
            f"blocks read, got none for {', '.join(map(repr, lost))}; leave the slot out to have "
            "it filled"
        )


def leaving_names(
    block: Block, control: Branch | Loop, attrs: Mapping[str, Any]
) -> Iterator[tuple[Block, tuple[str, ...]]]:
    """Yield each body of a control-flow operator with the names that leave it."""
    if isinstance(control, Branch):
        for block_attr, outputs_attr in control.blocks:
            if attrs.get(block_attr) is not None:
                yield block.program.block(attrs[block_attr]), tuple(attrs.get(outputs_attr) or ())
    elif attrs.get(control.block) is not None:
        results = (*(attrs.get(control.block_outputs) or ()), attrs.get(control.block_condition))
        yield block.program.block(attrs[control.block]), tuple(name for name in results if name)


def _reorder(proto: OpProto, bound: Slots) -> None:
    ordered = {slot.name: bound.pop(slot.name) for slot in proto.inputs if slot.name in bound}
    ordered.update(bound)
    bound.clear()
    bound.update(ordered)


def _wire_random(
    block: Block,
    definition: OpDefinition,
    inputs: Mapping[str, Given],
    bound: Slots,
    attrs: Mapping[str, Any],
) -> dict[str, Any]:
    """Give a random operator its stream, and the step unless it was declined with None."""
    if STEP_SLOT not in inputs:
        bound[STEP_SLOT] = (block.program.step_variable().name,)
        _reorder(definition.proto, bound)
    if attrs.get(STREAM_ATTR) is not None:
        return dict(attrs)
    return {**attrs, STREAM_ATTR: block.program.next_stream()}
