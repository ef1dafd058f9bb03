"""An operator of a program, with a type, the names in each slot, and complete attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from opwright.context.context import current_context
from opwright.describe.definition import OpDefinition
from opwright.describe.op_proto import AttrType, AttrValue, OpProto
from opwright.errors import ProgramError, SlotError
from opwright.messages.names import hint_argument
from opwright.program.completion import Slots, complete_operator
from opwright.program.variable import Variable
from opwright.registry import OpRegistry

if TYPE_CHECKING:
    from opwright.program.block import Block

Names = tuple[str, ...]
Given = Variable | str | Iterable[Variable | str] | None
"""The operand of a slot: a variable, its name, a list of these, or None if absent."""


def definition_of(op_type: str, operators: OpRegistry | None = None) -> OpDefinition:
    """Return the definition of an operator type, by default from the current Context.

    Raises OperatorNotFoundError if no plugin provides it, and ProgramError for a plan-only type,
    which programs cannot contain.
    """
    if operators is None:
        operators = current_context().ops
    definition = operators.get(op_type)
    if definition.plan_only:
        raise ProgramError(
            f"{op_type}: an operator of a program must not be plan-only, got one that passes of "
            f"{operators.package_of(op_type).label} put into plans; append the operators that it "
            "replaces"
        )
    return definition


class Operator:
    """One operator, with the names of the variables that it reads and writes, and its attributes.

    `Block.append_op` creates operators. For a `Network`, operators can be created without a block::

        Operator("sgd", param="w", grad="w_grad", learning_rate="lr", param_out="w")

    Without a block, shapes are inferred when the operator runs.

    Attributes
    ----------
    type : str
        The operator type.
    inputs, outputs : dict of str to tuple of str
        Variable names by slot, in the order of the OpProto; without absent slots.
    attrs : dict
        Complete and checked, in the order of the OpProto, with defaults; without absent ones.
    definition : OpDefinition
        The definition of its type.
    block : Block or None
        The block that contains it.
    """

    __slots__ = ("attrs", "block", "definition", "inputs", "outputs", "type")

    def __init__(self, type: str, /, **slots_and_attrs: Any) -> None:
        definition = definition_of(type)
        inputs, outputs, attrs = _split(definition.proto, slots_and_attrs)
        self.type = type
        self.definition = definition
        bound = bind_slots(type, inputs)
        names: dict[str, Names | int] = {**bind_slots(type, outputs)}
        for slot in definition.proto.outputs:
            if slot.aliases is None and (slot.duplicable or not slot.intermediate):
                names[slot.name] = names.get(slot.name) or 0  # only intermediate outputs get names
        self.inputs, self.outputs, self.attrs = complete_operator(definition, bound, names, attrs)
        self.block: Block | None = None

    @classmethod
    def make(
        cls,
        block: Block | None,
        definition: OpDefinition,
        inputs: Slots,
        outputs: Slots,
        attrs: dict[str, AttrValue],
    ) -> Operator:
        """Return an operator from checked arguments."""
        op = object.__new__(cls)
        op.type = definition.proto.type
        op.definition = definition
        op.inputs = inputs
        op.outputs = outputs
        op.attrs = attrs
        op.block = block
        return op

    def input(self, slot: str) -> Names:
        """Return the names in an input slot, or () if it is absent."""
        if slot not in self.inputs:
            self.definition.proto.input(slot)  # SlotError for an unknown one
        return self.inputs.get(slot, ())

    def output(self, slot: str) -> Names:
        """Return the names in an output slot, or () if it is absent."""
        if slot not in self.outputs:
            self.definition.proto.output(slot)  # SlotError for an unknown one
        return self.outputs.get(slot, ())

    def attr(self, name: str) -> AttrValue | None:
        """Return the value of an attribute, or None if it is absent."""
        if name not in self.attrs:
            self.definition.proto.attr(name)  # AttributeValueError for an unknown one
        return self.attrs.get(name)

    def input_names(self) -> Iterator[str]:
        """Yield every name that the operator reads, slot by slot."""
        return chain.from_iterable(self.inputs.values())

    def output_names(self) -> Iterator[str]:
        """Yield every name that the operator writes, slot by slot."""
        return chain.from_iterable(self.outputs.values())

    def block_attrs(self) -> dict[str, int]:
        """Return the indices of the sub-blocks, by attribute."""
        return {
            attr.name: self.attrs[attr.name]  # type: ignore[misc]
            for attr in self.definition.proto.attrs
            if attr.type is AttrType.BLOCK and attr.name in self.attrs
        }

    def __reduce__(self) -> tuple[Any, ...]:
        if self.block is None:
            return _make_operator, (self.type, self.inputs, self.outputs, self.attrs)
        if self in self.block.ops:
            return _find_operator, (self.block, self.block.ops.index(self))
        raise ProgramError(
            f"{self.type}: an operator that is pickled or copied must be in its block, got one "
            "that was removed; append it again"
        )

    def __repr__(self) -> str:
        from opwright.program.text import format_operator

        return format_operator(self)


def _find_operator(block: Block, index: int) -> Operator:
    return block.ops[index]


def _make_operator(op_type: str, inputs: Slots, outputs: Slots, attrs: Any) -> Operator:
    return Operator.make(None, definition_of(op_type), inputs, outputs, attrs)


def _split(
    proto: OpProto, given: Mapping[str, Any]
) -> tuple[dict[str, Given], dict[str, Given], dict[str, Any]]:
    known: tuple[Mapping[str, object], ...] = (
        proto.input_slots,
        proto.output_slots,
        proto.attr_protos,
    )
    for name in given:
        if not any(name in names for names in known):
            every = [name for names in known for name in names]
            raise SlotError(
                f"{proto.type}: unknown slot or attribute, got {name!r}"
                f"{hint_argument(name, every, 'slots and attributes')}"
            )
    inputs, outputs, attrs = ({n: given[n] for n in given if n in names} for names in known)
    return inputs, outputs, attrs


def _name_of(op_type: str, slot: str, item: object, block: Block | None) -> str:
    if isinstance(item, Variable):
        if (
            block is not None
            and block.vars.get(item.name) is not item
            and block.find_var(item.name) not in (None, item)
        ):
            raise ProgramError(
                f"{op_type}: {slot} must be a variable of this block or an enclosing one, got "
                f"{item!r} of another program or block; build the operator there"
            )
        return item.name
    if isinstance(item, str) and item:
        return item
    raise SlotError(
        f"{op_type}: {slot} must be a Variable, a name, or a list of these, got {item!r}"
    )


def bind_slots(op_type: str, given: Mapping[str, Given], block: Block | None = None) -> Slots:
    """Return the names in each slot, with () for None; SlotError for an invalid object.

    With a `block`, ProgramError if a different Variable has that name in the block.
    """
    bound: Slots = {}
    for slot, value in given.items():
        if type(value) is str and value:  # fast path for the most common form
            bound[slot] = (value,)
        elif isinstance(value, list | tuple):
            bound[slot] = tuple([_name_of(op_type, slot, item, block) for item in value])
        else:
            bound[slot] = () if value is None else (_name_of(op_type, slot, value, block),)
    return bound


def names_read_first(ops: Iterable[Operator]) -> tuple[str, ...]:
    """Return the names that operators read before any of these operators writes them, in order.

    A run needs these variables as feeds or in the scope.

    Parameters
    ----------
    ops : iterable of Operator
        In the order in which they run, such as ``block.ops``.
    """
    written: set[str] = set()
    read: dict[str, None] = {}
    for op in ops:
        for names in op.inputs.values():  # not `input_names`: every `Network.run` calls this
            for name in names:
                if name not in written:
                    read[name] = None
        for names in op.outputs.values():
            written.update(names)
    return tuple(read)


def operators_between(
    ops: Sequence[Operator], results: Iterable[str], leaves: Iterable[str]
) -> tuple[Operator, ...]:
    """Return the operators, in order, that compute the variables `results` from `leaves`."""
    known = set(leaves)
    needed, chosen = set(results) - known, []
    for op in reversed(ops):
        if not needed.isdisjoint(op.output_names()):
            chosen.append(op)
            needed |= set(op.input_names()) - known
    return tuple(reversed(chosen))
