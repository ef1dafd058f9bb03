"""History: a row of numbers for each epoch, to print, to draw, and to write to files."""

from __future__ import annotations

import base64
import csv
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from opwright.errors import AttributeValueError
from opwright.plugin import hint, path_of
from opwright_nn import arguments, fields

COUNTS = ("epoch", "steps")
"""Columns of integers."""

TIMES = ("seconds", "samples_per_second")
"""Columns that differ between two runs of the same training."""


class History:
    """The result of `train`: a row for each epoch.

    ``history["loss"]`` is the list of one column, ``print(history)`` a table, and a loop over it
    yields its rows.

    Parameters
    ----------
    records : iterable of mapping
        The rows.

    Attributes
    ----------
    records : list of dict
        By column: "epoch" counts from 1; "steps" counts all steps until its end; "loss" and other
        step values are means, weighted by row count; "validation_loss" and so on are computed on
        the validation data; "learning_rate" is the last step's.
    stop_reason : str
        Why it ended: "finished", "interrupted", or the reason of a callback.
    """

    @arguments.suggest
    def __init__(self, records: Iterable[Mapping[str, float]] = ()) -> None:
        self.records = [dict(record) for record in records]
        self.stop_reason = ""

    def add(self, record: Mapping[str, float]) -> None:
        """Append a row."""
        self.records.append(dict(record))

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in the order of their first appearance."""
        return list(dict.fromkeys(name for record in self.records for name in record))

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[dict[str, float]]:
        return iter(self.records)

    def __getitem__(self, name: str) -> list[float]:
        if name not in self.columns:
            raise AttributeValueError(
                f"History: the name must be a column, "
                f"got {name!r}{hint(str(name), self.columns, 'columns')}"
            )
        return [record.get(name, float("nan")) for record in self.records]

    def __repr__(self) -> str:
        last = self.records[-1] if self.records else {}
        values = "".join(
            f", {name} {format_value(value)}" for name, value in last.items() if name != "epoch"
        )
        return f"History({len(self)} epochs{values})"

    def __str__(self) -> str:
        columns = self.columns
        cells = [[format_value(self[name][row]) for name in columns] for row in range(len(self))]
        widths = [max(map(len, column)) for column in zip(columns, *cells)]
        lines = [columns, *cells]
        return "\n".join(
            "  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in lines
        )

    @arguments.suggest
    def plot(self, path: str | os.PathLike[str], columns: Sequence[str] | None = None) -> None:
        """Plot the columns over the epochs, each with its validation column.

        Parameters
        ----------
        path : str or PathLike
            A file that ends in ``.png`` or ``.svg``.
        columns : sequence of str, optional
            The columns to plot; by default losses and metrics, and the learning rate if it changed.

        Raises
        ------
        MissingRequirementError
            If matplotlib is not installed; the message has the command.
        """
        from opwright_nn.training.plotting import plot

        chosen = self._find_curves() if columns is None else list(columns)
        for name in chosen:
            self[name]  # raises if there is no such column
        plot(self, path, chosen)

    def _find_curves(self) -> list[str]:
        names = [name for name in self.columns if name not in {*COUNTS, *TIMES}]
        return [name for name in names if name != "learning_rate" or len(set(self[name])) > 1]

    @arguments.suggest
    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the rows to a CSV file, with the names of the columns in its first line.

        Numbers are written so that they are read back exactly.
        """
        name = path_of("History.write_csv", path, "file")
        with open(name, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.columns)
            writer.writeheader()
            writer.writerows(self.records)

    @arguments.suggest
    def write_tensorboard(self, folder: str | os.PathLike[str]) -> None:
        """Write the rows as a TensorBoard event file, with the steps as the x axis.

        Raises
        ------
        MissingRequirementError
            Neither tensorboardX nor tensorboard is installed; the message has the command.
        """
        from opwright_nn.training.tensorboard import EventWriter

        checked = path_of("History.write_tensorboard", folder, name="folder")
        with EventWriter(checked) as writer:
            for record in self.records:
                writer.add(record)


def format_value(value: float) -> str:
    """Return a number as the display and the table show it."""
    if isinstance(value, int) or (value == value and abs(value) >= 1000):
        return f"{value:,.0f}"
    return f"{value:.4g}"


def pack_records(records: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return rows for JSON, with the bits of numbers as strings, since JSON lacks NaN."""
    columns = list(dict.fromkeys(name for record in records for name in record))
    rows = [[record.get(name, math.nan) for name in columns] for record in records]
    data = np.array(rows, "<f8").tobytes()
    return {"columns": columns, "rows": base64.b64encode(data).decode()}


_PACKED = fields.fields({"columns": fields.listed(fields.text), "rows": fields.text})


def unpack_records(where: str, packed: object) -> list[dict[str, float]]:
    """Return the rows that `pack_records` packed, bitwise identical; FormatError for other data.

    Parameters
    ----------
    where : str
        The field of the file, for messages.
    packed : mapping
        What `pack_records` returned.
    """
    kept = _PACKED(where, packed)
    columns = kept["columns"]
    if len(set(columns)) != len(columns):
        fields.refuse(f"{where}.columns", "names that differ", columns)
    rule = f"base64 of rows of {len(columns)} float64"
    if not columns and kept["rows"]:
        fields.refuse(f"{where}.rows", rule, kept["rows"])
    try:
        data = np.frombuffer(base64.b64decode(kept["rows"], validate=True), "<f8")
        rows = data.reshape(-1, max(len(columns), 1)).tolist()
    except ValueError:
        fields.refuse(f"{where}.rows", rule, kept["rows"])
    return [_unpack_row(where, dict(zip(columns, row, strict=True))) for row in rows]


def _unpack_row(where: str, row: dict[str, float]) -> dict[str, float]:
    for name in COUNTS:
        value = row.get(name, 0)
        if not 0 <= value <= fields.MAX_COUNT or value % 1:
            fields.refuse(f"{where}.{name}", f"an int in [0, {fields.MAX_COUNT}]", value)
    for name in TIMES:
        fields.real(f"{where}.{name}", row.get(name, 0.0))
    return {name: int(value) if name in COUNTS else value for name, value in row.items()}
