"""Totals: the mean results of an epoch's steps, weighted by their numbers of rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from opwright.errors import ShapeError
from opwright_nn import fields
from opwright_nn.parallel import Team


class Totals:
    """Sums in float64, added in step order, so a resumed epoch is bitwise identical.

    Parameters
    ----------
    names : sequence of str
        One name for each value that a step returns.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.sums = [0.0] * len(self.names)
        self.rows = 0

    def add(self, steps: Iterable[Sequence[Any]], rows: Iterable[int]) -> None:
        """Add the values of steps; each is a scalar for its batch."""
        columns = list(zip(*steps, strict=False))[: len(self.names)]
        counts = list(rows)
        self.rows += sum(counts)
        for place, column in enumerate(columns):
            total = self.sums[place]
            for number, n_rows in zip(self._numbers(place, column), counts, strict=True):
                total += number * n_rows
            self.sums[place] = total

    def _numbers(self, place: int, column: Sequence[Any]) -> list[float]:
        try:
            return [float(value.item()) for value in column]
        except (AttributeError, ValueError):
            pass  # Python numbers, and arrays of several elements
        if any(np.size(value) != 1 for value in column):
            shape = next(list(np.shape(value)) for value in column if np.size(value) != 1)
            raise ShapeError(
                f"train: {self.names[place]!r} must be a single number for a batch, got shape "
                f"{shape}; take its mean"
            )
        return [float(np.asarray(value).item()) for value in column]

    def means(self) -> dict[str, float]:
        """Return the means by name, or NaN if there were no rows."""
        rows = self.rows or float("nan")
        return {name: total / rows for name, total in zip(self.names, self.sums, strict=True)}

    def join(self, team: Team) -> Totals:
        """Return the totals of all processes, bitwise identical on all of them."""
        joined = Totals(self.names)
        for state in team.gather(self.state()):
            other = Totals(self.names)
            other.restore(state)
            joined.rows += other.rows
            joined.sums = [a + b for a, b in zip(joined.sums, other.sums, strict=True)]
        return joined

    def state(self) -> dict[str, Any]:
        """Return the sums, for a checkpoint."""
        return {"sums": [value.hex() for value in self.sums], "rows": self.rows}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a state that `state` returned; FormatError for anything else."""
        rules = {"sums": fields.listed(fields.bits, len(self.names)), "rows": fields.whole()}
        kept = fields.fields(rules)("totals", state)
        self.sums, self.rows = kept["sums"], kept["rows"]
