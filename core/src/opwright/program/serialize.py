"""Converts programs to messages; `opwright.program.deserialize` reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from opwright.context.context import current_context
from opwright.describe.wire import op_to_message
from opwright.describe.wire import program_to_bytes as message_to_bytes
from opwright.describe.wire_reading import Message
from opwright.program.block import Block
from opwright.program.variable import Parameter, Variable

if TYPE_CHECKING:
    from opwright.program.program import Program

_FIELDS = ("name", "dtype", "persistable", "is_parameter", "stop_gradient", "is_data")


def program_to_bytes(
    program: Program, feeds: Sequence[str] = (), fetches: Sequence[str] = ()
) -> bytes:
    """Serialize a program as the bytes of a file; equal programs give identical bytes.

    `feeds` and `fetches` are stored with the program. FormatError if a name or number is invalid.
    """
    types = {op.type for block in program.blocks for op in block.ops}
    packages = sorted(set(map(current_context().ops.package_of, types)))
    return message_to_bytes(
        {
            "seed": program.seed,
            "next_stream": program.peek_stream(),
            "feeds": feeds,
            "fetches": fetches,
            "blocks": [_block_to_message(block) for block in program.blocks],
            "requires": [
                {"plugin": p.plugin, "distribution": p.distribution, "version": p.version}
                for p in packages
            ],
        }
    )


def _block_to_message(block: Block) -> Message:
    return {
        "idx": block.idx,
        "parent_idx": -1 if block.parent_idx is None else block.parent_idx,
        "vars": [_var_to_message(variable) for variable in block.vars.values()],
        "ops": [
            op_to_message(op.definition.proto, op.inputs, op.outputs, op.attrs) for op in block.ops
        ],
    }


def _var_to_message(variable: Variable) -> Message:
    message = {name: getattr(variable, name) for name in _FIELDS}
    message["frozen"] = isinstance(variable, Parameter) and not variable.trainable
    if variable.shape is not None:
        message["shape"] = {"dims": variable.shape}
    return message
