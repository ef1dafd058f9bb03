"""Converts programs to protobuf messages and back; a message is checked before it is used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from opwright import framework_pb2 as pb
from opwright.describe import wire as messages
from opwright.describe.current import current_operators
from opwright.describe.dtypes import check_dtype
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
    from opwright.describe.definition import OpDefinition
    from opwright.program.program import Program

STD_PLUGIN: Final = "std"
"""The entry point whose operator types have no prefix."""

_MAX_DEPTH: Final = 64
"""How deep blocks may nest; no sensible program comes near it."""


def program_to_proto(
    program: Program, feeds: Sequence[str] = (), fetches: Sequence[str] = ()
) -> pb.ProgramDesc:
    """Return the message of a program; the same program always gives the same message.

    `feeds` and `fetches` are those of a saved program. FormatError where a message cannot hold a
    name or a number.
    """
    try:
        return _write_program(program, feeds, fetches)
    except ValueError as error:  # a name with half a surrogate pair, a size beyond an int64
        raise FormatError(f"program: cannot be written, got {ascii(str(error))[1:-1]}") from None


def _write_program(
    program: Program, feeds: Sequence[str], fetches: Sequence[str]
) -> pb.ProgramDesc:
    message = pb.ProgramDesc(
        format=messages.PROGRAM_FORMAT,
        format_version=messages.FORMAT_VERSION,
        seed=program.seed,
        next_stream=program.peek_stream(),
        feeds=feeds,
        fetches=fetches,
    )
    for block in program.blocks:
        _write_block(message.blocks.add(), block)
    types = {op.type for block in program.blocks for op in block.ops}
    for package in sorted(set(map(current_operators().package_of, types))):
        message.requires.add(
            plugin=package.plugin, distribution=package.distribution, version=package.version
        )
    return message


def _write_block(message: pb.BlockDesc, block: Block) -> None:
    message.idx = block.idx
    message.parent_idx = -1 if block.parent_idx is None else block.parent_idx
    for variable in block.vars.values():
        _write_var(message.vars.add(), variable)
    for op in block.ops:
        messages.write_op(message.ops.add(), op.definition.proto, op.inputs, op.outputs, op.attrs)


def _write_var(message: pb.VarDesc, variable: Variable) -> None:
    message.name = variable.name
    message.dtype = variable.dtype
    message.persistable = variable.persistable
    message.is_parameter = variable.is_parameter
    message.stop_gradient = variable.stop_gradient
    message.frozen = isinstance(variable, Parameter) and not variable.trainable
    message.is_data = variable.is_data
    if variable.shape is not None:
        message.shape.SetInParent()  # sets the shape of a scalar, too
        message.shape.dims.extend(variable.shape)


def program_to_bytes(
    program: Program, feeds: Sequence[str] = (), fetches: Sequence[str] = ()
) -> bytes:
    """Return a program as the bytes of a file; the same program always gives the same bytes."""
    return messages.program_to_bytes(program_to_proto(program, feeds, fetches))


def program_from_proto(message: pb.ProgramDesc | bytes, program: Program) -> Program:
    """Read the program of a message, or of the bytes of one, into an empty program; return it.

    FormatError if the message is no program, or one that no release of opwright has written;
    OperatorNotFoundError names the package to install.
    """
    if isinstance(message, bytes):
        message = messages.program_from_bytes(message)
    _check_head(message)
    program.seed = message.seed
    program.restore_streams(message.next_stream)
    for position, block_message in enumerate(message.blocks):
        _read_block(program, position, block_message)
    reader = _OperatorReader(message.requires)
    for block, block_message in zip(program.blocks, message.blocks, strict=True):
        for index, op_message in enumerate(block_message.ops):
            try:
                block.ops.append(reader.read(block, op_message))
            except OpwrightError as error:
                error.add_note(f"in operator {index} of block {block.idx} of the program read")
                raise
    program.touch()
    return program


def _check_head(message: pb.ProgramDesc) -> None:
    if message.format != messages.PROGRAM_FORMAT:
        raise FormatError(
            f"program: format must be {messages.PROGRAM_FORMAT!r}, got {message.format!r}"
        )
    messages.check_version(message)
    if not message.blocks:
        raise FormatError("program: must have a global block, got no block")
    if message.seed >= 2**63 or message.next_stream < 0:
        raise FormatError(
            f"program: seed and stream must be in [0, 2**63), got {message.seed} and "
            f"{message.next_stream}"
        )


def _read_block(program: Program, position: int, message: pb.BlockDesc) -> None:
    """Create the block of that position, with its variables."""
    parent_idx = None if message.parent_idx == -1 else message.parent_idx
    outer = position if position else 1
    if message.idx != position or (parent_idx is None) != (position == 0):
        raise FormatError(f"program: block {position} has the wrong place, got idx {message.idx}")
    if parent_idx is not None and not 0 <= parent_idx < outer:
        raise FormatError(
            f"program: block {position} must lie within an earlier one, got parent {parent_idx}"
        )
    block = program.blocks[0] if parent_idx is None else program.add_block(parent_idx)
    if position and block.depth >= _MAX_DEPTH:
        raise FormatError(f"program: blocks nest at most {_MAX_DEPTH} deep, got {block.depth + 1}")
    for var_message in message.vars:
        variable = _read_var(block, var_message)
        if variable.name in block.vars:
            raise FormatError(f"block {position}: {variable.name!r} is described twice")
        block.vars[variable.name] = variable
        program.note_name(variable.name)


def _read_var(block: Block, message: pb.VarDesc) -> Variable:
    shape = tuple(message.shape.dims) if message.HasField("shape") else None
    name = message.name
    if not name or (message.is_parameter and block.idx):
        raise FormatError(f"block {block.idx}: a variable is described wrongly, got {name!r}")
    try:
        check_dtype(message.dtype)  # NumPy accepts, and parses, far more than names
        variable: Variable
        if message.is_parameter:
            variable = Parameter(block, name, shape, message.dtype, trainable=not message.frozen)
        else:
            variable = Variable(block, name, shape, message.dtype, persistable=message.persistable)
    except (ShapeError, DtypeError) as error:
        raise FormatError(f"block {block.idx}: variable {name!r}: {error}") from None
    variable.stop_gradient = message.stop_gradient
    variable.is_data = message.is_data
    return variable


class _OperatorReader:
    """Reads operators; `requires` are the packages that the program needs."""

    def __init__(self, requires: Iterable[pb.Requirement]) -> None:
        self._required = {item.plugin: item for item in requires}
        self._definitions: dict[str, OpDefinition] = {}
        self._bodies: set[int] = set()

    def read(self, block: Block, message: pb.OpDesc) -> Operator:
        """Return the operator of a message, checked as `Block.append_op` does."""
        desc = messages.read_op(message)
        definition = self._definitions.get(desc.type)
        if definition is None:
            definition = self._definitions[desc.type] = self._get_definition(desc.type)
        proto = definition.proto
        inputs, outputs, attrs = desc.inputs, desc.outputs, desc.attrs
        if desc.version != proto.version:
            inputs, outputs, attrs = self._upgrade(definition, desc)
        definition.check_slots(inputs, outputs)
        filled = proto.fill_attrs(attrs)
        for slot, names in inputs.items():
            for name in names:
                block.get_var(name, f"{desc.type}: {slot}")
        for slot, names in outputs.items():
            for name in names:
                if name not in block.vars:
                    block.get_var(name, f"{desc.type}: {slot}")
                    raise FormatError(f"{desc.type}: {slot} writes {name!r} of an outer block")
        op = Operator.make(
            block,
            definition,
            {slot.name: inputs[slot.name] for slot in proto.inputs if slot.name in inputs},
            {slot.name: outputs[slot.name] for slot in proto.outputs if slot.name in outputs},
            filled,
        )
        self._check_bodies(block, op)
        return op

    def _check_bodies(self, block: Block, op: Operator) -> None:
        for attr, index in op.block_attrs().items():
            blocks = block.program.blocks
            if not 0 < index < len(blocks) or blocks[index].parent_idx != block.idx:
                raise FormatError(
                    f"{op.type}: {attr} must be a block within block {block.idx}, got {index}"
                )
            if index in self._bodies:
                raise FormatError(
                    f"{op.type}: {attr} must be a block that is no other body, got {index} again"
                )
            self._bodies.add(index)

    def _get_definition(self, op_type: str) -> OpDefinition:
        try:
            return definition_of(op_type)
        except OperatorNotFoundError as error:
            plugin, dot, _ = op_type.partition(".")
            required = self._required.get(plugin if dot else STD_PLUGIN)
            if required is None:
                raise
            raise OperatorNotFoundError(
                f"{error}\n  the program was made with {required.distribution} "
                f"{required.version}: pip install {required.distribution!r}"
            ) from None

    def _upgrade(
        self, definition: OpDefinition, desc: messages.OpDescription
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        op_type, version = desc.type, definition.proto.version
        distribution = current_operators().package_of(op_type).distribution
        if desc.version > version:
            raise FormatError(
                f"{op_type}: its version must be at most {version}, which is installed, got "
                f"{desc.version}; upgrade {distribution}"
            )
        if definition.upgrade is None:
            raise FormatError(
                f"{op_type}: version {desc.version} cannot be read by version {version}, got no "
                f"upgrade from {distribution}; install the older release"
            )
        given = {"inputs": desc.inputs, "outputs": desc.outputs, "attrs": desc.attrs}
        upgraded = definition.upgrade(given, desc.version)
        return upgraded["inputs"], upgraded["outputs"], upgraded["attrs"]
