"""Makes the operators of a block; checks slots, attributes and variables, and infers metas.

All functions run within a transaction, so the program is unchanged if an error is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from opwright.context.guard import setting
from opwright.describe.control import Loop
from opwright.describe.definition import OpDefinition
from opwright.describe.meta import Meta, format_shape, shapes_match
from opwright.describe.op_proto import AttrType, AttrValue, OpProto, VarProto
from opwright.describe.operands import hide_operands, list_items
from opwright.errors import DtypeError, ProgramError, ShapeError, SlotError
from opwright.program.completion import Attrs, Names, Slots, Wanted, complete_operator, derived_name
from opwright.program.operator import Given, Operator, bind_slots, definition_of
from opwright.program.variable import DEFAULT_DTYPE, Variable
from opwright.vocabulary import ADD_N, FILL_LIKE, OUT, STEP, STEP_SLOT, STREAM_ATTR, X

if TYPE_CHECKING:
    from opwright.program.block import Block

Inferred = tuple[tuple[int, ...] | None, str]
"""Shape and dtype of one output; the shape is None if the rank is unknown."""

_STRIDES: Final = (0x9E3779B1, 0xBB67AE85, 0x3C6EF373, 0xA54FF53B)
"""The increment of the step per iteration, by depth. Random numbers depend on 32 bits of the
step. Modulo 2**32, multiples of these are far apart, so no iteration has the step of a later run.
"""

InputAdapter = Callable[["Block", "OpDefinition", Names], Names]
"""Maps the names given to an operator, by slot, to the names that it reads.

It may append operators, such as ``cast``, whose own inputs are not adapted.
"""

_ADAPTER: ContextVar[InputAdapter | None] = ContextVar("input_adapter", default=None)

CheckOutput = Callable[[str, "tuple[int, ...] | None", str], None]


class BlockPlace:
    """Appends operators to a block with the names that `Block.append_op` chooses."""

    __slots__ = ("block",)

    def __init__(self, block: Block) -> None:
        self.block = block

    def wire_random(
        self, definition: OpDefinition, inputs: Names, attrs: Attrs
    ) -> tuple[Names, Attrs]:
        """Give a random operator a stream and, unless the caller passed None as step, the step."""
        program = self.block.program
        if STEP_SLOT not in inputs:
            inputs = {**inputs, STEP_SLOT: (program.step_variable().name,)}
        if attrs.get(STREAM_ATTR) is None:
            attrs = {**attrs, STREAM_ATTR: program.next_stream()}
        return inputs, attrs

    def name_output(self, proto: OpProto, slot: VarProto, named: Slots) -> str:
        """Return a name, from the type for the first output and lists, otherwise from the slot."""
        program = self.block.program
        if slot.duplicable or (slot is proto.outputs[0] and not slot.intermediate):
            return program.unique_name(proto.type)
        return program.free_name(derived_name(proto, slot, named))

    def meta(self, name: str) -> Meta | None:
        """Return the meta of a variable, or None if its rank is unknown."""
        return self.block.var(name).meta

    def make(
        self, definition: OpDefinition, inputs: Slots, outputs: Wanted, attrs: Attrs
    ) -> Operator:
        """Return a checked operator whose output variables exist; it is not in a list yet."""
        if definition.proto.has_blocks:
            attrs = _block_indices(self.block, definition.proto, attrs)
            if isinstance(definition.control, Loop):
                parts = _carry_step(self.block, definition.control, inputs, outputs, attrs)
                inputs, outputs, attrs = parts
            _capture(self.block, definition, inputs, attrs)
        completed = complete_operator(definition, inputs, outputs, attrs, self)
        return enter_operator(self.block, definition, *completed)


def make_operator(
    block: Block,
    op_type: str,
    inputs: Mapping[str, Given],
    outputs: Mapping[str, Given],
    attrs: Mapping[str, Any],
    adapts: bool = False,
) -> Operator:
    """Return a checked operator whose output variables exist in `block`; it is not in a list yet.

    With `adapts`, the adapter of `adapt_inputs` may append operators that cast inputs.
    """
    definition = definition_of(op_type)
    bound, named = bind_slots(op_type, inputs, block), bind_slots(op_type, outputs, block)
    for name in definition.proto.operands:
        if name in attrs:
            attrs = {**attrs, name: _name_variables(block, op_type, name, attrs[name])}
    if adapts:
        bound = _adapted(block, definition, bound)
    return BlockPlace(block).make(definition, bound, named, attrs)


def _name_variables(block: Block, op_type: str, attr: str, value: Any) -> Any:
    """Return the value of an operand attribute, with names instead of Variables."""
    items = list_items(value)
    if not any(isinstance(item, Variable) for item in items):
        return value
    return [
        bind_slots(op_type, {attr: item}, block)[attr][0] if isinstance(item, Variable) else item
        for item in items
    ]


def enter_operator(
    block: Block,
    definition: OpDefinition,
    inputs: Slots,
    outputs: Slots,
    attrs: dict[str, AttrValue],
    check: CheckOutput | None = None,
) -> Operator:
    """Return a complete operator whose output variables exist in `block`; it is not in a list yet.

    `check` may refuse an output by its name, shape and dtype, before anything changes.
    """
    variables = get_inputs(block, definition.op_type, inputs)
    metas = infer_outputs(block, definition, variables, attrs, outputs)
    if check is not None:
        for slot, names in outputs.items():
            for name, meta in zip(names, metas[slot]):
                check(name, *meta)
    define_outputs(block, definition.op_type, outputs, metas)
    return Operator.make(block, definition, inputs, outputs, attrs)


def get_inputs(block: Block, op_type: str, bound: Slots) -> dict[str, list[Variable]]:
    """Return the variables of the input slots; VariableNotFoundError for an unknown name."""
    variables: dict[str, list[Variable]] = {}
    local = block.vars
    for slot, names in bound.items():
        variables[slot] = [
            variable
            if (variable := local.get(name)) is not None
            else block.get_var(name, f"{op_type}: {slot}")
            for name in names
        ]
    return variables


def infer_outputs(
    block: Block,
    definition: OpDefinition,
    inputs: Mapping[str, Sequence[Variable]],
    attrs: Mapping[str, Any],
    outputs: Slots,
) -> dict[str, Sequence[Inferred]]:
    """Return shape and dtype of each output; shapes are None if the rank of an input is unknown."""
    proto = definition.proto
    if proto.operands:
        attrs = hide_operands(inputs, attrs)
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
    return {slot.name: metas for slot, metas in zip(proto.outputs, inferred) if metas}


def _infer_dtypes(
    definition: OpDefinition,
    metas: tuple[tuple[Meta, ...], ...],
    attrs: Mapping[str, Any],
    counts: tuple[int, ...],
) -> dict[str, Sequence[Inferred]]:
    dtypes = definition.infer_dtypes(metas, attrs, counts)
    known = next((dtype for dtype in dtypes if dtype is not None), None)
    # A dtype that the OpProto does not determine is usually the dtype of the inputs. Lowering,
    # which knows the ranks, determines the dtype.
    default = known or next((slot[0].dtype for slot in metas if slot), DEFAULT_DTYPE)
    return {
        slot.name: [(None, dtype or default)] * count
        for slot, dtype, count in zip(definition.proto.outputs, dtypes, counts)
        if count
    }


def define_outputs(
    block: Block, op_type: str, outputs: Slots, metas: Mapping[str, Sequence[Inferred]]
) -> None:
    """Check existing output variables, then create the missing ones.

    Raises ShapeError or DtypeError if a variable exists with a different known shape or dtype, and
    ProgramError if it belongs to an enclosing block, since a body writes only its own variables.
    """
    local = block.vars
    undefined: list[tuple[str, Inferred]] = []
    for slot, names in outputs.items():
        for name, inferred in zip(names, metas[slot]):
            variable = local.get(name)
            if variable is None:
                _check_not_outer(block, op_type, slot, name)
                undefined.append((name, inferred))
            elif _check_meta(op_type, slot, variable, inferred):
                undefined.append((name, inferred))
    for name, (shape, dtype) in undefined:
        block.define_var(name, shape, dtype)


def _check_meta(op_type: str, slot: str, variable: Variable, inferred: Inferred) -> bool:
    """Compare an existing variable with the inferred meta; return whether it has no shape yet."""
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
            "another shape; write to another name"
        )
    return False


def _check_not_outer(block: Block, op_type: str, slot: str, name: str) -> None:
    outer = block.find_var(name) if block.parent_idx is not None else None
    if outer is not None:
        raise ProgramError(
            f"{op_type}: {slot} must be a variable of block {block.idx}, got {name!r} of the "
            f"enclosing block {outer.block.idx}; write to a new name, an output of the block"
        )


def _block_indices(block: Block, proto: OpProto, attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes, with indices instead of Block objects."""
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
        if not isinstance(value, int) and getattr(value, "program", None) is not block.program:
            raise ProgramError(
                f"{proto.type}: {attr.name} must be a block of this program, got {value!r}"
            )
        index = indices[attr.name] = value if isinstance(value, int) else value.idx
        if block.program.block(index).parent_idx != block.idx:
            raise ProgramError(
                f"{proto.type}: {attr.name} must be a block made within block {block.idx}, got "
                f"block {index}"
            )
        if index in taken:  # shared at each depth, it would be lowered 2**depth times
            raise ProgramError(
                f"{proto.type}: {attr.name} must not be the block of another body, got block "
                f"{index} again; create a block for each body"
            )
        taken.add(index)
    return indices


def _capture(
    block: Block, definition: OpDefinition, bound: Slots, attrs: Mapping[str, Any]
) -> None:
    """Fill the slot of captured variables with the variables that the bodies read, or check it."""
    control = definition.control
    if control is None:
        return
    names: dict[str, None] = {}
    for index, _, leaving in control.bodies(attrs):
        body = block.program.block(index)
        names.update(dict.fromkeys(body.captured()))
        names.update((name, None) for name in leaving if name not in body.vars)
    own = bound.get(control.captured)
    if not own:
        if names:
            bound[control.captured] = tuple(names)
        return
    absent = [name for name in names if name not in own]
    if absent:
        raise SlotError(
            f"{definition.op_type}: {control.captured} must contain every outer variable that "
            f"the blocks read, but lacks {', '.join(map(repr, absent))}; omit the slot to have "
            "it filled"
        )


def _carry_step(
    block: Block, control: Loop, inputs: Slots, outputs: Wanted, attrs: Mapping[str, Any]
) -> tuple[Slots, Wanted, dict[str, Any]]:
    """Make a loop carry the step if its body reads it; return its slots and attributes.

    So iterations get different random numbers. In the body, the step is a variable of the same
    name. Every iteration increments it, and the loop gradient reads the carried value.
    """
    index = attrs.get(control.block)
    body = None if index is None else block.program.block(index)  # completion refuses None
    if body is None or STEP not in body.captured():
        return inputs, outputs, dict(attrs)
    stride, raised = (block.program.free_name(f"{STEP}/{word}") for word in ("stride", "next"))
    body.define_var(STEP, (1,), "int64")
    value = float(_STRIDES[body.depth % len(_STRIDES)])
    body.append_op(FILL_LIKE, {X: STEP}, {OUT: stride}, {"value": value})
    body.append_op(ADD_N, {X: [STEP, stride]}, {OUT: raised})
    given = outputs.get(control.outputs, ())
    last = block.program.free_name(f"{STEP}/last")
    more: dict[str, Any] = {
        control.outputs: given + 1 if isinstance(given, int) else (*given, last)
    }
    carried = {
        control.block_inputs: [*(attrs.get(control.block_inputs) or ()), STEP],
        control.block_outputs: [*(attrs.get(control.block_outputs) or ()), raised],
    }
    inputs = {**inputs, control.carried: (*inputs.get(control.carried, ()), STEP)}
    return inputs, {**outputs, **more}, {**attrs, **carried}


def adapt_inputs(adapter: InputAdapter | None) -> AbstractContextManager[object]:
    """Make `Block.append_op` adapt the inputs of each new operator, in this thread or task.

    Gradient operators are not adapted, since their rules are written for the forward operators.

    Parameters
    ----------
    adapter : callable, optional
        ``adapter(block, definition, inputs) -> inputs``, names by slot. None changes nothing.
    """
    return setting(_ADAPTER, adapter)


def _adapted(block: Block, definition: OpDefinition, inputs: Names) -> dict[str, tuple[str, ...]]:
    """Return the inputs of an operator that is appended to `block`."""
    adapter = _ADAPTER.get()
    if adapter is None:
        return dict(inputs)
    with adapt_inputs(None):
        return dict(adapter(block, definition, inputs))
