"""The model inputs, and the kind of data, from which a value of a translation is computed."""

from __future__ import annotations

from collections.abc import Container, Iterable

import opwright as ow
from opwright_onnx.translate.sizes import Sizes
from opwright_onnx.translate.values import Value, find_leaves


def names_of(value: Value) -> list[str]:
    """Return the names of the Variables of a value."""
    leaves = [
        item
        for leaf in find_leaves([value])
        for item in (leaf.items if isinstance(leaf, Sizes) else [leaf])
    ]
    return [leaf.name for leaf in leaves if isinstance(leaf, ow.Variable)]


def find_inputs(program: ow.Program, value: Value) -> tuple[str, ...]:
    """Return the model inputs on which the value of a Variable depends."""
    writers = _find_writers(program)
    seen: dict[str, None] = {}
    pending = names_of(value)
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen[name] = None
        pending += writers[name].input_names() if name in writers else ()
    data = program.global_block().vars
    return tuple(name for name in seen if name in data and data[name].is_data)


def reads_data(program: ow.Program, names: Iterable[str], known: Container[str]) -> bool:
    """Return whether Variables depend on run-time data and not only on shapes.

    `known` contains the names of stored arrays.
    """
    writers = _find_writers(program)
    pending, seen = list(names), set()
    while pending:
        name = pending.pop()
        if name in seen or name in known:
            continue
        seen.add(name)
        if name not in writers:
            return True
        if writers[name].type not in ("shape", "size"):
            pending += writers[name].input_names()
    return False


def _find_writers(program: ow.Program) -> dict[str, ow.Operator]:
    return {name: op for b in program.blocks for op in b.ops for name in op.output_names()}
