"""Formats programs as readable text; default values and automatic inputs are omitted."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from opwright.describe.op_proto import AttrType, VarProto
from opwright.describe.operands import name_operands
from opwright.foreign import show
from opwright.program.variable import Variable
from opwright.vocabulary import SEED_ATTR, STEP, STEP_SLOT, STREAM_ATTR

if TYPE_CHECKING:
    from opwright.program.block import Block
    from opwright.program.operator import Operator
    from opwright.program.program import Program

_INDENT = "  "
_MAX_COLUMN = 72
"""Result types are aligned in one column up to here; in longer lines, they follow two spaces."""


def format_program(program: Program) -> str:
    """Return the text of all blocks of a program."""
    owners = {
        body: (block, op, attr)
        for block in program.blocks
        for op in block.ops
        for attr, body in op.block_attrs().items()
    }
    parts = []
    for block in program.blocks:
        title = f"block {block.idx}"
        if block.idx in owners:
            outer, op, attr = owners[block.idx]
            title += f", {attr} of {op.type} in block {outer.idx}"
        parts.append(format_block(block, title))
    return "\n\n".join(parts)


def format_block(block: Block, title: str = "") -> str:
    """Return the text of one block, its given variables and then its operators."""
    parts = [lines for lines in (_format_given(block), _format_operators(block)) if lines]
    indented = ["\n".join(_INDENT + line for line in lines) for lines in parts]
    return f"{title or f'block {block.idx}'}:\n" + ("\n\n".join(indented) or f"{_INDENT}(empty)")


def _format_given(block: Block) -> list[str]:
    """Return the variables that no operator of the block writes, as text in columns."""
    written = {name for op in block.ops for name in op.output_names()}
    rows = []
    for variable in block.vars.values():
        if variable.persistable or variable.is_data or variable.name not in written:
            name, type_ = show(variable.name, ""), variable.type_text
            rows.append((_kind(variable), name, type_, _notes(variable)))
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    return [
        f"{kind:<{widths[0]}} {name:<{widths[1]}} {type_:<{widths[2]}} {notes}".rstrip()
        for kind, name, type_, notes in rows
    ]


def _kind(variable: Variable) -> str:
    if variable.is_parameter:
        return "param"
    if variable.is_data:
        return "data"
    return "state" if variable.persistable else "var"


def _notes(variable: Variable) -> str:
    notes = []
    if not getattr(variable, "trainable", True):
        notes.append("not trainable")
    if variable.stop_gradient and variable.name != STEP:
        notes.append("no gradient")
    return ", ".join(notes)


def _format_operators(block: Block) -> list[str]:
    calls = [format_operator(op) for op in block.ops]
    fitting = [len(call) for call in calls if len(call) <= _MAX_COLUMN]
    column = max(fitting, default=0)
    lines = []
    for op, call in zip(block.ops, calls):
        results = _format_results(op)
        lines.append(f"{call:<{column}}  -> {results}" if results else call)
    return lines


def _format_results(op: Operator) -> str:
    """Return the types of the main outputs; outputs that only the gradient needs are omitted."""
    if op.block is None:
        return ""
    shown = []
    for slot in op.definition.proto.outputs:
        if slot.intermediate:
            continue
        for name in op.outputs.get(slot.name, ()):
            variable = op.block.find_var(name)
            shown.append("?" if variable is None else variable.type_text)
    return ", ".join(shown)


def format_operator(op: Operator) -> str:
    """Return one operator as a call: ``out = fc(x, weight=w, activation="relu")``."""
    proto = op.definition.proto
    attrs = name_operands(op.inputs, op.attrs)
    arguments = []
    positional = True
    for slot in proto.inputs:
        names = op.inputs.get(slot.name, ())
        if not names or (slot.name == STEP_SLOT and names == (STEP,)):
            positional = False
            continue
        positional = positional and (slot is proto.inputs[0] or slot.name == "y")
        text = _format_names(slot, names)
        arguments.append(text if positional else f"{slot.name}={text}")
    for attr in proto.attrs:
        value = attrs.get(attr.name)
        hidden = attr.name == STREAM_ATTR and SEED_ATTR in proto.attr_protos
        if value is not None and value != attr.default and not hidden:
            arguments.append(f"{attr.name}={_format_value(attr.type, value)}")
    call = f"{op.type}({', '.join(arguments)})"
    outputs = [_format_names(slot, op.outputs.get(slot.name, ())) for slot in proto.outputs]
    while outputs and outputs[-1] == "_":
        outputs.pop()
    return f"{', '.join(outputs)} = {call}" if outputs else call


def _format_names(slot: VarProto, names: tuple[str, ...]) -> str:
    if not names:
        return "_"
    shown = [show(name, "") for name in names]
    return f"[{', '.join(shown)}]" if slot.duplicable else shown[0]


def _format_value(type: AttrType, value: Any) -> str:
    if type is AttrType.BLOCK:
        return f"block {value}"
    if isinstance(value, tuple):
        return f"[{', '.join(_format_value(type.element, item) for item in value)}]"
    if isinstance(value, str) and type.element is not AttrType.STRING:
        return show(value, "")  # the name of a variable that replaces a number
    if isinstance(value, str):
        return '"' + show(value.replace("\\", "\\\\").replace('"', '\\"'), "") + '"'
    if isinstance(value, float) and math.isfinite(value) and abs(value) >= 1e16:
        return f"{value:g}"
    return repr(value)
