"""Converts programs to protobuf messages; `opwright.program.deserialize` reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from opwright import framework_pb2 as pb
from opwright.context.context import current_context
from opwright.describe import wire as messages
from opwright.describe.wire_reading import FORMAT_VERSION, PROGRAM_FORMAT
from opwright.errors import FormatError
from opwright.program.block import Block
from opwright.program.variable import Parameter, Variable

if TYPE_CHECKING:
    from opwright.program.program import Program


def program_to_proto(
    program: Program, feeds: Sequence[str] = (), fetches: Sequence[str] = ()
) -> pb.ProgramDesc:
    """Return the message of a program; equal programs have equal messages.

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
        format=PROGRAM_FORMAT,
        format_version=FORMAT_VERSION,
        seed=program.seed,
        next_stream=program.peek_stream(),
        feeds=feeds,
        fetches=fetches,
    )
    for block in program.blocks:
        _write_block(message.blocks.add(), block)
    types = {op.type for block in program.blocks for op in block.ops}
    for package in sorted(set(map(current_context().ops.package_of, types))):
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
    """Return a program as the bytes of a file; equal programs have equal bytes."""
    return messages.program_to_bytes(program_to_proto(program, feeds, fetches))
