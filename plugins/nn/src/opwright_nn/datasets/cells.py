"""Cells of tables: reads them from frames, dicts and rows, and parses numbers and dates."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np

from opwright.errors import AttributeTypeError, ShapeError

Cells = list[Any]

MISSING: Final = ("", "#N/A", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null")
"""Strings that stand for a missing value, as in pandas."""


def read_table(who: str, table: Any, missing: Sequence[str]) -> dict[str, Cells]:
    """Return the cells of each column, with None for missing cells and with stripped strings.

    Parameters
    ----------
    who : str
        The caller, for messages.
    table : mapping, frame or sequence of mappings
        Columns by name, such as the result of ``csv.read_columns``; a frame of pandas or polars,
        which has ``columns`` and returns a column for a name; or rows, each a mapping by column
        names.
    missing : sequence of str
        Strings for missing values, in addition to None, NaN, NaT and pandas' NA.

    Raises
    ------
    AttributeTypeError, ShapeError
        The table has a different form, or its columns differ in length.
    """
    if not isinstance(table, Mapping) and hasattr(table, "columns"):
        table = {name: table[name] for name in table.columns}
    elif isinstance(table, Sequence) and not isinstance(table, str | bytes):
        if not all(isinstance(row, Mapping) for row in table):
            raise AttributeTypeError(
                f"{who}: rows of a table must be dicts with column names as keys, got "
                f"{type(next(r for r in table if not isinstance(r, Mapping))).__name__}; pass "
                "[{'age': 31, 'city': 'Paris'}], for example"
            )
        names = dict.fromkeys(name for row in table for name in row)
        table = {name: [row.get(name) for row in table] for name in names}
    if not isinstance(table, Mapping):
        raise AttributeTypeError(
            f"{who}: table must be a dict of columns, a frame or a list of rows, got "
            f"{type(table).__name__}; read a file by nn.datasets.csv.read_columns(path)"
        )
    absent = frozenset(missing)
    for name, column in table.items():
        if isinstance(column, str | bytes) or not isinstance(column, Iterable):
            raise AttributeTypeError(
                f"{who}: a column must be a list or an array of cells, got "
                f"{type(column).__name__} for {name!r}; pass a single row as [row]"
            )
    columns = {str(name): _read_cells(column, absent) for name, column in table.items()}
    if len({len(cells) for cells in columns.values()}) > 1:
        lengths = {name: len(cells) for name, cells in columns.items()}
        raise ShapeError(
            f"{who}: columns must have the same length, got {str(lengths)[:200]}; complete them"
        )
    return columns


def _read_cells(column: Any, missing: frozenset[str]) -> Cells:
    if isinstance(column, np.ndarray):
        if column.dtype.kind == "M":  # tolist makes ints of nanoseconds
            column = column.astype("datetime64[us]")
        column = column.tolist()
    return [_read_cell(value, missing) for value in column]


def _read_cell(value: Any, missing: frozenset[str]) -> Any:
    if isinstance(value, str):
        text = value.strip()
        return None if text in missing else text
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and math.isnan(value) else value


def to_text(cell: Any) -> str:
    """Return a cell as a string; integers lose '.0', since missing cells turn ints into floats."""
    return str(int(cell) if isinstance(cell, float) and cell.is_integer() else cell)


def sort_texts(texts: Iterable[str]) -> list[str]:
    """Return the distinct strings, ordered as numbers if all are integers, otherwise as strings."""
    distinct = set(texts)
    try:
        return sorted(distinct, key=lambda text: (int(text), text))
    except ValueError:
        return sorted(distinct)


def find_number(cell: Any) -> float | None:
    """Return a cell as a finite number, or None if it is not a finite number."""
    if isinstance(cell, datetime.date) or (isinstance(cell, str) and "_" in cell):
        return None
    with suppress(TypeError, ValueError, OverflowError):
        number = float(cell)
        return number if math.isfinite(number) else None
    return None


def find_date(cell: Any, form: str | None = None) -> datetime.datetime | None:
    """Return a cell as a datetime in UTC, without its zone, or None if it is not a datetime.

    Strings are in ISO 8601, or in the format for ``strptime``.
    """
    moment = cell
    if isinstance(cell, str):
        try:
            moment = (
                datetime.datetime.fromisoformat(cell)
                if form is None
                else datetime.datetime.strptime(cell, form)
            )
        except ValueError:
            return None
    if isinstance(moment, datetime.date) and not isinstance(moment, datetime.datetime):
        return datetime.datetime(moment.year, moment.month, moment.day)
    if not isinstance(moment, datetime.datetime):
        return None
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    return moment
