"""Columns of a fitted table: their detected kinds, and how their cells become numbers."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from opwright.errors import AttributeValueError, FormatError
from opwright_nn import fields
from opwright_nn.datasets.cells import Cells, find_date, find_number, sort_texts, to_text
from opwright_nn.datasets.vocabulary import Vocabulary

Floats = npt.NDArray[np.float32]

KINDS: Final = ("number", "category", "date", "datetime", "text", "skip")
_EPOCH: Final = datetime.datetime(2000, 1, 1)
_CIRCLES: Final = (" year sin", " year cos", " week sin", " week cos", " day sin", " day cos")
_DAY_S: Final = 86400.0
_MAX_WORDS: Final = 10_000
_MAX_LENGTH: Final = 256
_WORD: Final = re.compile(r"\w+")


class Column(NamedTuple):
    """A fitted column.

    Attributes
    ----------
    name : str
        The name in the table.
    kind : str
        One of "number", "category", "date", "datetime" and "text".
    form : str or None
        The format of dates, as for ``strptime``; None for ISO 8601.
    has_missing : bool
        Whether a value was missing in the fit, so missing values have their own feature.
    mean, deviation : float
        The mean and the standard deviation of numbers, and of dates in days.
    words : list of str
        The categories in order, or the words of texts, most frequent first.
    length : int
        The number of words of a text that are kept.
    """

    name: str
    kind: str
    form: str | None = None
    has_missing: bool = False
    mean: float = 0.0
    deviation: float = 1.0
    words: Sequence[str] = ()
    length: int = 0

    def features(self) -> list[str]:
        """Return the feature names of the column; a text column has none."""
        parts = {
            "number": [""],
            "category": [f"={word}" for word in self.words],
            "date": [" days", *_CIRCLES[:4]],
            "datetime": [" days", *_CIRCLES],
            "text": [],
        }[self.kind]
        missing = [" missing"] if self.has_missing and self.kind != "text" else []
        return [self.name + part for part in (*parts, *missing)]

    def encode(self, who: str, cells: Cells) -> Floats:
        """Return float32 [n, features]; missing numbers become 0, the mean of the scaled column."""
        if self.kind == "category":
            numbers = {word: index for index, word in enumerate(self.words)}
            columns = np.zeros((len(cells), len(self.words)), np.float32)
            for row, cell in zip(columns, cells, strict=True):
                if cell is not None and (index := numbers.get(to_text(cell))) is not None:
                    row[index] = 1
            parts = [columns]
        elif self.kind == "number":
            parts = [self._standardize(read_numbers(who, self.name, cells))]
        else:
            moments = read_moments(who, self.name, cells, self.form)
            turned = np.array([_turn(moment) for moment in moments], np.float32).reshape(-1, 6)
            turned = turned[:, : 4 if self.kind == "date" else 6]
            parts = [self._standardize(list(map(_to_days, moments))), turned]
        if self.has_missing:
            parts.append(np.array([[cell is None] for cell in cells], np.float32).reshape(-1, 1))
        return np.concatenate(parts, axis=1)

    def encode_text(self, cells: Cells) -> npt.NDArray[np.int64]:
        """Return the word numbers of each cell, int64 [n, length]."""
        rows = [_split(cell) for cell in cells]
        return Vocabulary.from_words(self.words).encode(rows, self.length)

    def _standardize(self, numbers: Sequence[float | None]) -> Floats:
        values = np.array([self.mean if x is None else x for x in numbers], np.float64)
        return ((values - self.mean) / self.deviation).astype(np.float32).reshape(-1, 1)


def fit_column(who: str, name: str, cells: Cells, kind: str | None, max_categories: int) -> Column:
    """Return a fitted column; if `kind` is None, the kind is detected from the cells.

    Raises
    ------
    AttributeValueError
        The kind cannot be detected, or there is no value.
    FormatError
        A value is not of the kind.
    """
    kind, _, form = (kind or find_kind(who, name, cells, max_categories)).partition(" ")
    column = Column(name, kind, form or None, any(cell is None for cell in cells))
    if kind == "category":
        return column._replace(words=sort_texts(to_text(c) for c in cells if c is not None))
    if kind == "text":
        rows = [_split(cell) for cell in cells]
        words = list(Vocabulary(rows, max_size=_MAX_WORDS))[2:]
        length = min(max(map(len, rows), default=1), _MAX_LENGTH)
        return column._replace(words=words, length=max(length, 1))
    if kind == "number":
        numbers = read_numbers(who, name, cells)
    else:
        moments = read_moments(who, name, cells, column.form)
        numbers = list(map(_to_days, moments))
    present = np.array([number for number in numbers if number is not None], np.float64)
    if not present.size:
        raise AttributeValueError(
            f"{who}: a column must have a value, got none in {name!r}; pass "
            f"columns={{{name!r}: 'skip'}}"
        )
    return column._replace(mean=float(present.mean()), deviation=float(present.std()) or 1.0)


def find_kind(who: str, name: str, cells: Cells, max_categories: int) -> str:
    """Detect the kind of a column: numbers, dates, or categories if it has few distinct strings."""
    present = [cell for cell in cells if cell is not None]
    if all(find_number(cell) is not None for cell in present):
        return "number"
    moments = [find_date(cell) for cell in present]
    if None not in moments:
        has_time = any(moment.time() != datetime.time() for moment in moments if moment)
        return "datetime" if has_time else "date"
    n_texts = len(set(map(to_text, present)))
    if n_texts > max_categories:
        raise AttributeValueError(
            f"{who}: a column of strings must have at most max_categories={max_categories} "
            f"distinct values, got {n_texts} in {name!r}; pass columns={{{name!r}: 'text'}} for "
            "words, 'skip', 'category', or 'date %d.%m.%Y' for dates in this format"
        )
    return "category"


def read_numbers(who: str, name: str, cells: Cells) -> list[float | None]:
    """Return cells as numbers, with None for missing cells."""
    numbers = [None if cell is None else find_number(cell) for cell in cells]
    _check_parsed(who, name, cells, numbers, "a finite number")
    return numbers


def read_moments(
    who: str, name: str, cells: Cells, form: str | None
) -> list[datetime.datetime | None]:
    """Return cells as datetimes, with None for missing cells."""
    moments = [None if cell is None else find_date(cell, form) for cell in cells]
    rule = "a date of ISO 8601" if form is None else f"a date of the form {form}"
    _check_parsed(who, name, cells, moments, rule)
    return moments


def _check_parsed(who: str, name: str, cells: Cells, parsed: Sequence[Any], rule: str) -> None:
    for row, (cell, value) in enumerate(zip(cells, parsed, strict=True)):
        if cell is not None and value is None:
            raise FormatError(
                f"{who}: column {name!r} must have {rule}, got {str(cell)[:60]!r} in row {row}; "
                "replace it, or name the column's kind when the encoder is made"
            )


def _to_days(moment: datetime.datetime | None) -> float | None:
    return None if moment is None else (moment - _EPOCH).total_seconds() / _DAY_S


def _turn(moment: datetime.datetime | None) -> list[float]:
    """Return sine and cosine of the positions in the year, week and day; 0 for missing dates."""
    if moment is None:
        return [0.0] * 6
    day = (moment - datetime.datetime.combine(moment.date(), datetime.time())).total_seconds()
    shares = [
        (moment.timetuple().tm_yday - 1) / 365.25,
        (moment.weekday()) / 7,
        day / _DAY_S,
    ]
    turns = [2 * math.pi * share for share in shares]
    return [function(turn) for turn in turns for function in (math.sin, math.cos)]


def _split(cell: Any) -> list[str]:
    return [] if cell is None else _WORD.findall(str(cell).lower())


def _check_kind(where: str, value: object) -> str:
    if value not in KINDS[:-1]:
        fields.refuse(where, f"one of {', '.join(KINDS[:-1])}", value)
    return str(value)


def _check_deviation(where: str, value: object) -> float:
    number = fields.bits(where, value)
    if not 0 < number < math.inf:
        fields.refuse(where, "a finite number above 0", value)
    return number


check_column: Final = fields.fields(
    {
        "name": fields.text,
        "kind": _check_kind,
        "form": fields.optional(fields.text),
        "has_missing": fields.flag,
        "mean": fields.bits,
        "deviation": _check_deviation,
        "words": fields.listed(fields.text),
        "length": fields.whole(at_most=_MAX_LENGTH),
    }
)
"""The rule for a column in a file, see `TableEncoder.state`."""
