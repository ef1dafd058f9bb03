"""Reader of CSV files: rows of numbers with a label, or columns of strings for `TableEncoder`."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Iterator, Sequence

import numpy as np

from opwright.errors import AttributeValueError, FormatError
from opwright.plugin import hint, path_of
from opwright_nn import arguments, checks
from opwright_nn.datasets import text
from opwright_nn.datasets.cells import sort_texts
from opwright_nn.datasets.table import Table

__all__ = ["read", "read_columns"]

_TARGETS = ("classes", "numbers")


@arguments.suggest
def read(
    path: str | os.PathLike[str],
    label: str | int,
    *,
    target: str = "classes",
    classes: Sequence[str] | None = None,
    header: bool = True,
    delimiter: str = ",",
    encoding: str = "utf-8",
    max_bytes: int = 1 << 30,
) -> Table:
    """Read a table: ``table = read("wine.csv", label="quality")``.

    Parameters
    ----------
    path : str or path
        The file. Empty lines are skipped.
    label : str or int
        The column of the label: its name in the header, or its index; -1 is the last column.
        All other columns must contain finite numbers.
    target : str
        ``"classes"``: labels are strings, numbered in the order of `classes`. ``"numbers"``: labels
        are numbers.
    classes : sequence of str, optional
        The names of the classes; any other label is refused. By default all labels of the file,
        ordered as numbers if all are integers, otherwise as strings. Training and test files of one
        data set need the same classes: pass ``classes=train.classes``.
    header : bool
        Whether the first line contains the column names.
    delimiter : str
        One character.
    encoding : str
        The encoding of the file. A UTF-8 byte order mark is skipped.
    max_bytes : int, at least 0
        The size limit of the file.

    Returns
    -------
    Table
        Features float32 [n, columns - 1]; targets [n, 1], int64 or float32.

    Raises
    ------
    FormatError
        The file lacks rows, or has rows of different lengths, a value that is not a finite number,
        a label that is not a class, bytes that the encoding does not allow, or more than
        `max_bytes`.
    AttributeValueError
        There is no such column.
    OSError
        The file cannot be opened.
    """
    who = "csv.read"
    checks.check_choice(who, "target", target, _TARGETS)
    name = path_of(who, path, "file")
    columns, rows = _read_rows(who, name, header, delimiter, encoding, max_bytes)
    column = _find_column(who, name, label, columns)
    features, labels, lines = [], [], []
    for line, row in rows:
        labels.append(row.pop(column).strip())
        lines.append(line)
        others = (*columns[:column], *columns[column + 1 :])
        features.append([_parse(name, line, key, value) for key, value in zip(others, row)])
    rest = [*columns[:column], *columns[column + 1 :]]
    array = np.array(features, np.float32).reshape(len(labels), len(rest))
    if target == "numbers":
        numbers = [_parse(name, line, columns[column], v) for line, v in zip(lines, labels)]
        return Table(array, np.array(numbers, np.float32).reshape(-1, 1), rest)
    known = _check_classes(who, classes) if classes is not None else sort_texts(labels)
    indices = {value: i for i, value in enumerate(known)}
    for line, value in zip(lines, labels):
        if value not in indices:
            raise FormatError(
                f"{name}: labels must be among the classes, got {value!r} in line "
                f"{line}{hint(value, known, 'classes')}"
            )
    targets = np.array([indices[value] for value in labels], np.int64).reshape(-1, 1)
    return Table(array, targets, rest, known)


@arguments.suggest
def read_columns(
    path: str | os.PathLike[str],
    *,
    delimiter: str = ",",
    encoding: str = "utf-8",
    max_bytes: int = 1 << 30,
) -> dict[str, list[str]]:
    """Read the columns of a file with a header as strings, by name, for `TableEncoder`.

    Parameters
    ----------
    path : str or path
        The file. Empty lines are skipped.
    delimiter, encoding, max_bytes
        As for `read`.

    Returns
    -------
    dict of str to list of str
        In the order of the file.

    Raises
    ------
    FormatError
        As for `read`, and if two columns have the same name.
    OSError
        The file cannot be opened.
    """
    who = "csv.read_columns"
    name = path_of(who, path, "file")
    header, rows = _read_rows(who, name, True, delimiter, encoding, max_bytes)
    names = [column.strip() for column in header]
    if len(set(names)) < len(names):
        raise FormatError(
            f"{name}: columns must have different names, got {', '.join(names)[:200]}; rename them"
        )
    return {key: list(values) for key, values in zip(names, zip(*(row for _, row in rows)))}


def _read_rows(
    who: str, name: str, header: object, delimiter: str, encoding: str, max_bytes: int
) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the column names, and for each row the number of its last line and its values."""
    checks.check_bool(who, "header", header)
    if len(checks.check_str(who, "delimiter", delimiter)) != 1 or delimiter in '"\r\n':
        raise AttributeValueError(
            f"{who}: delimiter must be one character and no quote or end of line, got "
            f"{delimiter!r}; write delimiter=';', for example"
        )
    rows = list(_iterate_rows(name, text.read_text(who, name, encoding, max_bytes), delimiter))
    if len(rows) < (2 if header else 1):
        wanted = "a header and a row" if header else "a row"
        raise FormatError(f"{name}: a CSV file must have at least {wanted}, got none; add it")
    columns = rows.pop(0)[1] if header else [str(i) for i in range(len(rows[0][1]))]
    for line, row in rows:
        if len(row) != len(columns):
            raise FormatError(
                f"{name}: all rows must have {len(columns)} values, like the first row, got "
                f"{len(row)} in line {line}; complete it, or pass the file's delimiter"
            )
    return columns, rows


def _iterate_rows(name: str, content: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield, for each non-empty row, the number of its last line and its values."""
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise FormatError(
            f"{name}: quoted values of a CSV file must be complete, got {error} in line "
            f"{reader.line_num}; close the quote, or fetch the file again"
        ) from None


def _find_column(who: str, name: str, label: object, columns: list[str]) -> int:
    if isinstance(label, str):
        matches = [i for i, column in enumerate(columns) if column.strip() == label]
        if len(matches) != 1:
            near = hint(label, columns, "columns") if not matches else "; pass its number"
            raise AttributeValueError(
                f"{who}: label must be one column of {name}, got {label!r}, which matches "
                f"{len(matches)}{near}"
            )
        return matches[0]
    n = len(columns)
    return checks.check_int(who, "label", label, at_least=-n, at_most=n - 1) % n


def _parse(name: str, line: int, column: str, value: str) -> float:
    try:
        number = float(value) if "_" not in value else math.nan  # only Python accepts 1_0
    except ValueError:
        number = math.nan
    if not abs(number) <= float(np.finfo(np.float32).max):
        raise FormatError(
            f"{name}: values must be finite numbers of float32, got {value!r} in line {line}, "
            f"column {column!r}; replace it, or read the file by read_columns for a TableEncoder"
        )
    return number


def _check_classes(who: str, classes: object) -> list[str]:
    if isinstance(classes, str) or not isinstance(classes, Sequence):
        rule = f"{who}: classes must be a list of names, got {classes!r}"
        raise AttributeValueError(f"{rule}; write classes=['no', 'yes'], for example")
    known = [checks.check_str(who, f"classes[{i}]", value) for i, value in enumerate(classes)]
    if len(set(known)) < len(known):
        raise AttributeValueError(f"{who}: classes must differ, got {known!r}; name each once")
    return known
