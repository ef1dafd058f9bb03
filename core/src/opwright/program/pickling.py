"""Pickling and copying: a program goes by its serialised form, its parts by their place in it.

Definitions of operators hold functions of plugins, which no pickle can hold; the serialised form
names types instead. What only the building of a program needs goes beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opwright.errors import ProgramError
from opwright.program.operator import Operator, definition_of

if TYPE_CHECKING:
    from opwright.program.block import Block
    from opwright.program.program import Program
    from opwright.program.variable import Variable

_FREE_FIELDS = ("initializer", "optimize", "regularizer")


def reduce_program(program: Program) -> tuple[Any, ...]:
    """Return how pickle makes a program again: its bytes, and what is not in them."""
    from opwright.program.serialize import program_to_bytes

    fields = {
        parameter.name: {name: getattr(parameter, name) for name in _FREE_FIELDS}
        for parameter in program.parameters()
    }
    return _make_program, (program_to_bytes(program), program.building_state(), fields)


def _make_program(
    data: bytes, state: tuple[Any, ...], fields: Mapping[str, Mapping[str, Any]]
) -> Program:
    from opwright.program.serialize import program_from_proto

    program = program_from_proto(data)
    program.restore_building(state)
    for parameter in program.parameters():
        for name, value in fields[parameter.name].items():
            setattr(parameter, name, value)
    return program


def reduce_block(block: Block) -> tuple[Any, ...]:
    """Return how pickle finds a block again: in its program, which is pickled once."""
    return _find_block, (block.program, block.idx)


def _find_block(program: Program, idx: int) -> Block:
    return program.block(idx)


def reduce_variable(variable: Variable) -> tuple[Any, ...]:
    """Return how pickle finds a variable again: by name, in its block."""
    if variable.block.vars.get(variable.name) is not variable:
        raise ProgramError(
            f"{variable.name}: a variable that is pickled or copied must be in its block, got one "
            "that was taken out; keep its name instead"
        )
    return _find_variable, (variable.block, variable.name)


def _find_variable(block: Block, name: str) -> Variable:
    return block.vars[name]


def reduce_operator(op: Operator) -> tuple[Any, ...]:
    """Return how pickle finds an operator of a block again, or makes one that has none."""
    if op.block is None:
        return _make_operator, (op.type, op.inputs, op.outputs, op.attrs)
    for index, other in enumerate(op.block.ops):
        if other is op:
            return _find_operator, (op.block, index)
    raise ProgramError(
        f"{op.type}: an operator that is pickled or copied must be in its block, got one that was "
        "taken out; append it again"
    )


def _find_operator(block: Block, index: int) -> Operator:
    return block.ops[index]


def _make_operator(op_type: str, inputs: Any, outputs: Any, attrs: Any) -> Operator:
    return Operator.make(None, definition_of(op_type), inputs, outputs, attrs)
