"""Table: rows of numbers and the target of each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from opwright_nn import arguments


class _Pair(NamedTuple):
    features: npt.NDArray[np.float32]
    targets: npt.NDArray[Any]


class Table(_Pair):
    """Rows of numbers and their targets; unpacks as ``features, targets = table``.

    Parameters
    ----------
    features : ndarray of float32, [n, columns]
        The rows of numbers.
    targets : ndarray, [n, 1]
        int64 for classes, float32 for numbers.
    columns : iterable of str
        The column names of `features`.
    classes : iterable of str
        The names of the classes; none for numbers.
    """

    columns: tuple[str, ...]
    classes: tuple[str, ...]

    @arguments.suggest
    def __new__(
        cls,
        features: npt.NDArray[np.float32],
        targets: npt.NDArray[Any],
        columns: Iterable[str] = (),
        classes: Iterable[str] = (),
    ) -> Table:
        """Create the table, a pair that also has column names."""
        table = super().__new__(cls, features, targets)
        table.columns = tuple(columns)
        table.classes = tuple(classes)
        return table
