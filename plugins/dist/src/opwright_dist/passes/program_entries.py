"""Describes a program line by line, for comparison between processes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import opwright as ow

_LONGEST: Final = 400
"""Maximum characters of a line; longer lines, for example of large constants, end with a digest."""


def list_entries(program: ow.Program) -> list[str]:
    """Return lines that must be equal on all processes that run a program together.

    Every line contains its position, so an error can show just the first line that differs.
    The attribute ``rank`` of an operator with the attribute ``group`` is omitted, because it is the
    rank of the process itself.

    Parameters
    ----------
    program : Program
        The program; its seed, operators and variables are described, including loops and branches.
    """
    entries = [f"the seed {program.seed}"]
    for block in program.blocks:
        entries += list_operators(block.ops, f"block {block.idx}")
    for block in program.blocks:
        entries += [_shorten(line) for line in _describe_variables(block)]
    return [*entries, "the end of the variables"]


def list_operators(ops: Sequence[ow.Operator], place: str = "the network") -> list[str]:
    """Return the lines that describe operators; these do not have to belong to a program."""
    entries = [
        _shorten(f"operator {number} of {place}: {describe_operator(op)}")
        for number, op in enumerate(ops, 1)
    ]
    return [*entries, f"the end of {place}"]


def describe_operator(op: ow.Operator) -> str:
    """Describe an operator, its slots and attributes except a rank: ``o = relu(x=i) -> ...``."""
    attrs: Mapping[str, Any] = op.attrs
    arguments = [f"{slot}={'+'.join(map(_printable, names))}" for slot, names in op.inputs.items()]
    arguments += [
        f"{name}={value!r}"
        for name, value in attrs.items()
        if name != "rank" or "group" not in attrs
    ]
    version = op.definition.proto.version
    kind = op.type if version == 1 else f"{op.type}, version {version}, "
    outputs = [
        f"{slot}={'+'.join(f'{_printable(name)} {_type_of(op, name)}' for name in names)}"
        for slot, names in op.outputs.items()
    ]
    return f"{kind}({', '.join(arguments)}) -> {', '.join(outputs)}"


def _type_of(op: ow.Operator, name: str) -> str:
    variable = None if op.block is None else op.block.find_var(name)
    return "?" if variable is None else variable.type_text


def _printable(name: str) -> str:
    """Escape line breaks in a name, since lines are compared."""
    return name if name.isprintable() else ascii(name)


def _describe_variables(block: ow.Block) -> Iterator[str]:
    """Yield lines for a block's inputs and persistable variables, sorted by name."""
    written = {name for op in block.ops for name in op.output_names()}
    for name, variable in sorted(block.vars.items()):
        if variable.persistable or variable.is_data or name not in written:
            kind = "parameter" if variable.is_parameter else "variable"
            is_frozen = variable.is_parameter and not getattr(variable, "trainable", True)
            frozen = ", frozen" if is_frozen else ""
            yield f"{kind} {_printable(name)} of block {block.idx}: {variable.type_text}{frozen}"


def _shorten(entry: str) -> str:
    if len(entry) <= _LONGEST:
        return entry
    digest = hashlib.sha256(entry.encode()).hexdigest()[:16]
    return f"{entry[:_LONGEST]}... (SHA-256 of the whole: {digest})"
