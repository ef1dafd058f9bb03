"""Monitor: tracks one number of the history, and its best value."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from opwright.errors import AttributeValueError
from opwright.plugin import hint
from opwright_nn import checks, fields


class Monitor:
    """The best value so far of a column of the history.

    Parameters
    ----------
    who : str
        The callback, for messages.
    name : str, optional
        The column; by default "validation_loss", and "loss" without validation.
    mode : str, optional
        "min" or "max"; by default "min" for names that end with "loss" or "error",
        otherwise "max".
    min_delta : float, at least 0
        A value counts as better only if it is better by more than this.
    """

    def __init__(self, who: str, name: str | None, mode: str | None, min_delta: float) -> None:
        self._who = who
        self._name = None if name is None else checks.check_str(who, "monitor", name)
        self._mode = None if mode is None else checks.check_choice(who, "mode", mode, _MODES)
        self._min_delta = checks.check_float(who, "min_delta", min_delta, at_least=0.0)
        self.best: float | None = None
        self.n_worse = 0

    def begin(self, columns: Collection[str]) -> None:
        """Raise AttributeValueError unless the history will have the column."""
        if self._name is None:
            self._name = "validation_loss" if "validation_loss" in columns else "loss"
        if self._name not in columns:
            raise AttributeValueError(
                f"{self._who}: monitor must be a column of the history, "
                f"got {self._name!r}{hint(self._name, columns, 'columns')}"
            )
        if self._mode is None:
            self._mode = "min" if self._name.endswith(("loss", "error")) else "max"

    @property
    def name(self) -> str:
        """The column."""
        return self._name or "loss"

    @property
    def rule(self) -> tuple[str | None, str | None]:
        """The column and the mode, which determine which value is better."""
        return self._name, self._mode

    def update(self, record: Mapping[str, float]) -> bool:
        """Return whether a row is better than all previous rows; NaN never is."""
        value = record[self.name]
        sign = 1.0 if self._mode == "max" else -1.0
        is_better = value == value and (
            self.best is None or sign * (value - self.best) > self._min_delta
        )
        if is_better:
            self.best = float(value)
        self.n_worse = 0 if is_better else self.n_worse + 1
        return is_better

    def state(self) -> dict[str, Any]:
        """Return the state of the monitor for a checkpoint."""
        # The value is a string, because JSON lacks infinity.
        return {"best": None if self.best is None else self.best.hex(), "n_worse": self.n_worse}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a state that `state` returned; FormatError for anything else."""
        kept = _STATE(self._who, state)
        if kept["best"] != kept["best"]:
            fields.refuse(f"{self._who}.best", "a number, as NaN is never the best", kept["best"])
        self.best, self.n_worse = kept["best"], kept["n_worse"]


_MODES = ("min", "max")
_STATE = fields.fields({"best": fields.optional(fields.bits), "n_worse": fields.whole()})
