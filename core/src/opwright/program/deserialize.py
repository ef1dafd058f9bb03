"""Reads programs from messages, after checking the messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from opwright.context.context import current_context
from opwright.describe.definition import OpDefinition
from opwright.describe.dtypes import check_dtype
from opwright.describe.wire_reading import Message, parse_program, read_op, read_program
from opwright.errors import (
    DtypeError,
    FormatError,
    OperatorNotFoundError,
    OpwrightError,
    ShapeError,
)
from opwright.program.block import Block
from opwright.program.operator import Operator, definition_of
from opwright.program.variable import Parameter, Variable

if TYPE_CHECKING:
    from opwright.program.program import Program

STD_PLUGIN: Final = "std"
"""The entry point whose operator types have no prefix."""

_MAX_DEPTH: Final = 64
"""Maximum nesting depth of blocks, far beyond realistic programs."""


def program_from_proto(message: Any, program: Program) -> Program:
    """Read the program in a message, or in its bytes, into an empty program; return it.

    Raises FormatError if the message is not a program, or no release of opwright can have written
    it. OperatorNotFoundError names the package to install.
    """
    if isinstance(message, bytes):
        return read_blocks(read_program(message), program)
    return read_blocks(parse_program(message.SerializeToString()), program)


def read_blocks(message: Message, program: Program) -> Program:
    """Read a program into an empty program; return it."""
    blocks = message.get("blocks", ())
    _check_head(message)
    program.seed = message.get("seed", 0)
    program.restore_streams(message.get("next_stream", 0))
    for position, block_message in enumerate(blocks):
        _read_block(program, position, block_message)
    definitions: dict[str, OpDefinition] = {}
    bodies: set[int] = set()
    for block, block_message in zip(program.blocks, blocks, strict=True):
        for index, op_message in enumerate(block_message.get("ops", ())):
            try:
                op_type, version, description = read_op(op_message)
                if op_type not in definitions:
                    requires = message.get("requires", ())
                    definitions[op_type] = _get_definition(op_type, requires)
                op = _read_operator(block, definitions[op_type], version, description)
                _check_bodies(block, op, bodies)
                block.ops.append(op)
            except OpwrightError as error:
                error.add_note(f"in operator {index} of block {block.idx} of the program read")
                raise
    program.touch()
    return program


def _check_head(message: Message) -> None:
    if not message.get("blocks"):
        raise FormatError("program: must have a global block, got no block")
    seed, stream = message.get("seed", 0), message.get("next_stream", 0)
    if seed >= 2**63 or stream < 0:
        raise FormatError(
            f"program: seed and stream must be in [0, 2**63), got seed={seed} and stream={stream}"
        )


def _read_block(program: Program, position: int, message: Message) -> None:
    """Create the block at that position, with its variables."""
    idx, parent = message.get("idx", 0), message.get("parent_idx", 0)
    parent_idx = None if parent == -1 else parent
    outer = position if position else 1
    if idx != position or (parent_idx is None) != (position == 0):
        raise FormatError(f"program: block {position} has the wrong index or parent, got idx {idx}")
    if parent_idx is not None and not 0 <= parent_idx < outer:
        raise FormatError(
            f"program: block {position} must be nested in an earlier block, got parent {parent_idx}"
        )
    block = program.blocks[0] if parent_idx is None else program.add_block(parent_idx)
    if position and block.depth >= _MAX_DEPTH:
        raise FormatError(f"program: blocks nest at most {_MAX_DEPTH} deep, got {block.depth + 1}")
    for var_message in message.get("vars", ()):
        variable = _read_var(block, var_message)
        if variable.name in block.vars:
            raise FormatError(f"block {position}: {variable.name!r} is described twice")
        block.vars[variable.name] = variable
        program.note_name(variable.name)


def _read_var(block: Block, message: Message) -> Variable:
    shape = tuple(message["shape"].get("dims", ())) if "shape" in message else None
    name, dtype = message.get("name", ""), message.get("dtype", "")
    is_parameter = message.get("is_parameter", False)
    if not name or (is_parameter and block.idx):
        raise FormatError(f"block {block.idx}: a variable is described incorrectly, got {name!r}")
    try:
        check_dtype(dtype)  # NumPy accepts many strings that are not canonical names
        variable = (
            Parameter(block, name, shape, dtype, trainable=not message.get("frozen", False))
            if is_parameter
            else Variable(block, name, shape, dtype, persistable=message.get("persistable", False))
        )
    except (ShapeError, DtypeError) as error:
        raise FormatError(f"block {block.idx}: variable {name!r}: {error}") from None
    variable.stop_gradient = message.get("stop_gradient", False)
    variable.is_data = message.get("is_data", False)
    return variable


def _read_operator(
    block: Block, definition: OpDefinition, version: int, description: dict[str, Any]
) -> Operator:
    """Check a description as `Block.append_op` would, and return the operator that it describes."""
    proto = definition.proto
    if version != proto.version:
        description = _upgrade(definition, version, description)
    if definition.deprecated:
        sides = ("inputs", "outputs", "attrs")
        description = {side: definition.rename(description[side], warns=False) for side in sides}
    inputs, outputs = description["inputs"], description["outputs"]
    definition.check_slots(inputs, outputs)
    filled = proto.fill_attrs(description["attrs"], inputs)
    for slot, names in inputs.items():
        for name in names:
            block.get_var(name, f"{proto.type}: {slot}")
    for slot, names in outputs.items():
        for name in names:
            if name not in block.vars:
                block.get_var(name, f"{proto.type}: {slot}")
                raise FormatError(f"{proto.type}: {slot} writes {name!r} of an outer block")
    return Operator.make(
        block,
        definition,
        {name: inputs[name] for name in proto.read_slots if name in inputs},
        {name: outputs[name] for name in proto.output_slots if name in outputs},
        filled,
    )


def _check_bodies(block: Block, op: Operator, taken: set[int]) -> None:
    """Check the blocks of an operator, and add them to `taken`."""
    for attr, index in op.block_attrs().items():
        blocks = block.program.blocks
        if not 0 < index < len(blocks) or blocks[index].parent_idx != block.idx:
            raise FormatError(
                f"{op.type}: {attr} must be a block within block {block.idx}, got {index}"
            )
        if index in taken:
            raise FormatError(
                f"{op.type}: {attr} must not be the block of another body, got {index} again"
            )
        taken.add(index)


def _get_definition(op_type: str, requires: Iterable[Message]) -> OpDefinition:
    """Return a definition; errors name the package in `requires` that provides it."""
    try:
        return definition_of(op_type)
    except OperatorNotFoundError as error:
        prefix, dot, _ = op_type.partition(".")
        plugin = prefix if dot else STD_PLUGIN
        for required in requires:
            if required.get("plugin", "") == plugin:
                distribution = required.get("distribution", "")
                raise OperatorNotFoundError(
                    f"{error}\n  the program was made with {distribution} "
                    f"{required.get('version', '')}: pip install {distribution!r}"
                ) from None
        raise


def _upgrade(definition: OpDefinition, version: int, description: dict[str, Any]) -> dict[str, Any]:
    op_type, installed = definition.op_type, definition.proto.version
    distribution = current_context().ops.package_of(op_type).distribution
    if version > installed:
        raise FormatError(
            f"{op_type}: its version must be at most {installed}, which is installed, got "
            f"{version}; upgrade {distribution}"
        )
    annex = current_context().annexes.find("upgrade", definition.forward or op_type)
    upgrade = definition.upgrade if annex is None else annex.load()
    if upgrade is None:
        raise FormatError(
            f"{op_type}: version {version} cannot be read by version {installed}, got no "
            f"upgrade from {distribution}; install the older release"
        )
    return upgrade(description, version)
