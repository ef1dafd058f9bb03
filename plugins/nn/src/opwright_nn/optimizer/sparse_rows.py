"""Finds sparse gradients, with few rows of a table: the gradients of `embedding` with
``sparse=True``.

Such a gradient is still a variable with the table's shape, but is computed only if something reads
it. The inputs of the operator ``embedding_grad`` contain the row numbers, and a row of values for
each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import opwright as ow
from opwright.errors import ProgramError
from opwright_nn import arguments, checks

_LOOKUP = "embedding_grad"
_SUM = "add_n"


@arguments.suggest
class SparseRows(NamedTuple):
    """A gradient as rows and values, with one pair for each lookup in the table.

    The gradient is 0 except for ``gradient[rows[i][j]] += values[i][j]``.

    Attributes
    ----------
    rows : list of Variable
        int32 or int64, of any shapes: row numbers, which may repeat.
    values : list of Variable
        ``values[i]`` has the shape of ``rows[i]``, followed by the length of a row.
    padding_indices : list of int
        For each pair the number of the row without gradient, or -1.
    """

    rows: list[ow.Variable]
    values: list[ow.Variable]
    padding_indices: list[int]


@arguments.suggest
def get_sparse_rows(gradient: ow.Variable) -> SparseRows:
    """Return the rows and values that a gradient consists of.

    Parameters
    ----------
    gradient : Variable
        The gradient of a table that only `embedding` with ``sparse=True`` reads, once or several
        times, as returned by `append_backward` and `Optimizer.minimize`.

    Returns
    -------
    SparseRows
        Variables of the program: fetch them, or pass them to operators.

    Raises
    ------
    ProgramError
        The gradient is dense, or a variable with its row numbers is overwritten.
    """
    checks.check_variable("get_sparse_rows", "gradient", gradient)
    rows = find_sparse_rows([gradient]).get(gradient.name)
    if rows is None:
        raise ProgramError(
            f"get_sparse_rows: the gradient must belong to a table that only embedding reads, "
            f"each time with sparse=True, got {gradient!r}, which is dense; fetch it directly"
        )
    return rows


def find_sparse_rows(gradients: Iterable[ow.Variable]) -> dict[str, SparseRows]:
    """Return the rows of all sparse gradients, by name."""
    by_block: dict[int, list[ow.Variable]] = {}
    for gradient in gradients:
        by_block.setdefault(id(gradient.block), []).append(gradient)
    found: dict[str, SparseRows] = {}
    for members in by_block.values():
        block = members[0].block
        ops = block.ops
        if not any(map(_is_sparse_lookup, ops)):
            continue
        writers = {name: i for i, op in enumerate(ops) for name in op.output_names()}
        for gradient in members:
            lookups = _find_lookups(gradient.name, ops, writers)
            if lookups:
                found[gradient.name] = _read(gradient, lookups, ops, writers)
    return found


def _is_sparse_lookup(op: ow.Operator) -> bool:
    return op.type == _LOOKUP and op.attr("sparse") is True


def _find_lookups(name: str, ops: Sequence[ow.Operator], writers: Mapping[str, int]) -> list[int]:
    """Return the sparse lookups whose gradients sum to `name`, or [] if it has other terms."""
    index = writers.get(name)
    if index is None:
        return []
    op = ops[index]
    if _is_sparse_lookup(op):
        return [index]
    if op.type != _SUM or any(writers.get(part, index) >= index for part in op.input("x")):
        return []
    parts = [_find_lookups(part, ops, writers) for part in op.input("x")]
    return [lookup for part in parts for lookup in part] if all(parts) else []


def _read(
    gradient: ow.Variable,
    lookups: Iterable[int],
    ops: Sequence[ow.Operator],
    writers: Mapping[str, int],
) -> SparseRows:
    found = SparseRows([], [], [])
    for index in lookups:
        op = ops[index]
        (rows,), (values,) = op.input("index"), op.input("out_grad")
        for name in (rows, values):
            if writers.get(name, -1) > index:
                raise ProgramError(
                    f"the rows of the sparse gradient {gradient.name!r} must stay unchanged "
                    f"until the update, got {name!r}, which {ops[writers[name]]} overwrites; make "
                    "that write to another name, or pass sparse=False to embedding"
                )
        found.rows.append(gradient.block.var(rows))
        found.values.append(gradient.block.var(values))
        padding_index: Any = op.attrs["padding_index"]
        found.padding_indices.append(padding_index)
    return found
