"""TableEncoder: converts numbers, categories, dates, texts and missing values to arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from opwright.errors import AttributeTypeError, AttributeValueError, FormatError
from opwright.plugin import hint
from opwright_nn import arguments, checks, fields
from opwright_nn.datasets.cells import MISSING, Cells, read_table, to_text
from opwright_nn.datasets.columns import KINDS, Column, check_column, fit_column, read_numbers

FEATURES: Final = "features"
"""The array of all columns except texts and the target."""

_MISSING_SHOWN: Final = 3
_STATE: Final = fields.fields(
    {
        "target": fields.optional(fields.text),
        "missing": fields.listed(fields.text),
        "columns": fields.listed(check_column),
    }
)


class TableEncoder:
    """Converts a table to arrays, after a fit to another table: ``encoder.fit_transform(train)``.

    ::

        encoder = nn.datasets.TableEncoder(target="income")
        train = encoder.fit_transform(nn.datasets.csv.read_columns("train.csv"))
        test = encoder.transform(nn.datasets.csv.read_columns("test.csv"))
        ...
        ow.save("served", model.program, model.scope, [scores], notes={"encoder": encoder.state()})
        encoder = nn.datasets.TableEncoder.from_state(ow.load("served").notes["encoder"])

    Tables are dicts of columns, pandas or polars frames, or lists of rows that are dicts. A
    column is

    - a number, if all its values are: the mean is subtracted, the result divided by the deviation;
    - a date or datetime in ISO 8601: days as a number, and sine and cosine of the positions in
      the year, in the week, and for a datetime in the day;
    - a category, if it has few distinct other strings: a feature for each, all 0 for a new string;
    - a text, if `columns` says so: the numbers of its words, as from a `Vocabulary`.

    A missing value becomes the mean, or no category; a column with a missing value in the fit gets
    a feature that marks missing values.

    Parameters
    ----------
    target : str, optional
        The column to predict: a category gives classes, a number stays a number.
    columns : mapping of str to str, optional
        Kinds of columns that should not be detected: "number", "category", "date", "datetime",
        "text", "skip"; ``"date %d/%m/%Y"`` has a format for ``strptime``.
    missing : sequence of str
        Strings for missing values, in addition to None, NaN, NaT and pandas' NA.
    max_categories : int, at least 1
        A column with more distinct strings is an error unless `columns` names its kind.
    """

    @arguments.suggest
    def __init__(
        self,
        target: str | None = None,
        *,
        columns: Mapping[str, str] | None = None,
        missing: Sequence[str] = MISSING,
        max_categories: int = 100,
    ) -> None:
        who = "TableEncoder"
        self._target = None if target is None else checks.check_str(who, "target", target)
        self._kinds = _check_kinds(who, columns or {})
        if isinstance(missing, str):
            raise AttributeTypeError(f"{who}: missing must be a list of strings, got {missing!r}")
        self._missing = [str(text) for text in missing]
        self._max = checks.check_int(who, "max_categories", max_categories, at_least=1)
        self._columns: dict[str, Column] = {}

    def __repr__(self) -> str:
        kinds = ", ".join(f"{name}: {column.kind}" for name, column in self._columns.items())
        return f"TableEncoder(target: {self._target}; columns: {kinds or 'not fitted'})"

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names of the target; empty if the target is a number."""
        column = self._columns.get(self._target or "")
        return () if column is None else tuple(column.words)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The column names of the array ``features``."""
        return tuple(name for column in self._inputs() for name in column.features())

    @property
    def vocabulary_sizes(self) -> dict[str, int]:
        """The vocabulary sizes for embeddings of texts, by column."""
        texts = [column for column in self._inputs() if column.kind == "text"]
        return {column.name: len(column.words) + 2 for column in texts}

    @arguments.suggest
    def fit(self, table: Any) -> TableEncoder:
        """Determine the kinds, means, categories and words of a table; return the encoder.

        Raises
        ------
        AttributeTypeError, AttributeValueError, FormatError, ShapeError
            The table is not of a supported form, lacks a column, or has values of the wrong kind.
        """
        who = "TableEncoder.fit"
        cells = read_table(who, table, self._missing)
        wanted = [*self._kinds, *([] if self._target is None else [self._target])]
        _check_present(who, wanted, cells)
        fitted = {}
        for name, values in cells.items():
            kind = self._kinds.get(name)
            if kind != "skip":
                fitted[name] = fit_column(who, name, values, kind, self._max)
        _check_names(who, fitted, self._target)
        self._columns = fitted
        return self

    @arguments.suggest
    def transform(self, table: Any) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of a table, by input name.

        Parameters
        ----------
        table : mapping, frame or sequence of mappings
            With all fitted columns; only the target may be missing.

        Returns
        -------
        dict of str to ndarray
            ``features``, float32 [n, len(feature_names)]; int64 [n, words] for each text, by its
            name; and the target if the table has it, int64 [n] for classes, float32 [n, 1] for
            numbers.

        Raises
        ------
        AttributeTypeError, AttributeValueError, FormatError, ShapeError
            The table is not of a supported form, lacks a column, or has values of the wrong kind.
        """
        who = "TableEncoder.transform"
        if not self._columns:
            raise AttributeValueError(f"{who}: the encoder must be fitted, got a new one; call fit")
        cells = read_table(who, table, self._missing)
        inputs = self._inputs()
        _check_present(who, [column.name for column in inputs], cells)
        parts = [c.encode(who, cells[c.name]) for c in inputs if c.kind != "text"]
        arrays: dict[str, npt.NDArray[Any]] = {}
        if self.feature_names:
            arrays[FEATURES] = np.concatenate(parts, axis=1)
        for column in inputs:
            if column.kind == "text":
                arrays[column.name] = column.encode_text(cells[column.name])
        if self._target is not None and self._target in cells:
            arrays[self._target] = _encode_target(who, self._columns[self._target], cells)
        return arrays

    def fit_transform(self, table: Any) -> dict[str, npt.NDArray[Any]]:
        """Return ``fit(table).transform(table)``."""
        return self.fit(table).transform(table)

    def state(self) -> dict[str, Any]:
        """Return everything that `from_state` needs, for JSON or the notes of a save."""
        columns = []
        for column in self._columns.values():
            kept = column._asdict() | {"words": list(column.words)}
            columns.append(kept | {n: float(kept[n]).hex() for n in ("mean", "deviation")})
        return {"target": self._target, "missing": list(self._missing), "columns": columns}

    @classmethod
    def from_state(cls, state: object) -> TableEncoder:
        """Return the encoder that a `state` describes.

        Raises
        ------
        FormatError
            It is not the state of an encoder.
        """
        with fields.reading("TableEncoder.from_state", "pass what state() returned"):
            kept = _STATE("state", state)
            names = [column["name"] for column in kept["columns"]]
            for repeated in (names, *(column["words"] for column in kept["columns"])):
                if len(set(repeated)) < len(repeated):
                    fields.refuse("state", "of different names and words", repeated)
        encoder = cls(kept["target"], missing=kept["missing"])
        encoder._columns = {column["name"]: Column(**column) for column in kept["columns"]}
        return encoder

    def _inputs(self) -> list[Column]:
        return [column for name, column in self._columns.items() if name != self._target]


def _encode_target(who: str, column: Column, cells: Mapping[str, Cells]) -> npt.NDArray[Any]:
    values = cells[column.name]
    missing = [row for row, cell in enumerate(values) if cell is None]
    if missing:
        shown = ", ".join(map(str, missing[:_MISSING_SHOWN]))
        raise FormatError(
            f"{who}: the target {column.name!r} must have a value in every row, got none in "
            f"{len(missing)}, such as {shown}; remove these rows"
        )
    if column.kind == "number":
        return np.array(read_numbers(who, column.name, values), np.float32).reshape(-1, 1)
    numbers = {word: index for index, word in enumerate(column.words)}
    for row, cell in enumerate(values):
        if to_text(cell) not in numbers:
            raise FormatError(
                f"{who}: the target {column.name!r} must be one of the classes, got {cell!r} in "
                f"row {row}{hint(to_text(cell), column.words, 'classes')}"
            )
    return np.array([numbers[to_text(cell)] for cell in values], np.int64)


def _check_kinds(who: str, columns: object) -> dict[str, str]:
    if not isinstance(columns, Mapping):
        raise AttributeTypeError(
            f"{who}: columns must be a mapping of names to kinds, got {columns!r}; write "
            "columns={'zip': 'category'}"
        )
    for name, kind in columns.items():
        first = kind.partition(" ")[0] if isinstance(kind, str) else kind
        checks.check_choice(who, f"columns[{name!r}]", first, KINDS)
        if first != kind and first not in ("date", "datetime"):
            raise AttributeValueError(
                f"{who}: only dates have a format, got columns[{name!r}]={kind!r}; write {first!r}"
            )
    return dict(columns)


def _check_present(who: str, names: Sequence[str], cells: Mapping[str, Cells]) -> None:
    for name in names:
        if name not in cells:
            raise AttributeValueError(
                f"{who}: the table must have the column {name!r}, got none"
                f"{hint(name, list(cells), 'columns')}"
            )


def _check_names(who: str, fitted: Mapping[str, Column], target: str | None) -> None:
    kind = None if target is None else fitted[target].kind
    if kind not in (None, "number", "category"):
        raise AttributeValueError(
            f"{who}: the target must be a number or a category, got {kind} for {target!r}; choose "
            "another one"
        )
    texts = [name for name, column in fitted.items() if column.kind == "text"]
    if FEATURES in (*texts, target):
        raise AttributeValueError(
            f"{who}: a text or the target must not be named {FEATURES!r}, like the array of "
            "all other columns, got that name; rename the column"
        )
