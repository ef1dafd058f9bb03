"""Shows training progress: on standard error, or in the output of a notebook's cell."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Final

from opwright_nn.training.history import format_value

_PAUSE_S: Final = 0.1
_UNITS: Final = {"samples_per_second": "samples/s"}
_HIDDEN: Final = frozenset({"epoch", "steps", "seconds"})


class Display:
    """A line for each epoch; on a terminal and in a notebook it is updated during the epoch.

    Parameters
    ----------
    epochs : int
        The number of epochs.
    is_shown : bool
        False writes nothing.
    """

    def __init__(self, epochs: int, is_shown: bool) -> None:
        self._epochs = epochs
        self._is_shown = is_shown
        in_notebook = type(sys.stdout).__module__.startswith("ipykernel.")
        self._stream = sys.stdout if in_notebook else sys.stderr  # which is red in notebooks
        self._is_live = is_shown and (in_notebook or self._stream.isatty())
        self._next_s = 0.0
        self._width = 0

    @property
    def is_due(self) -> bool:
        """Whether it is time to rewrite the line of the current epoch."""
        return self._is_live and time.monotonic() >= self._next_s

    def update(
        self, epoch: int, done: int, n_steps: int | None, record: Mapping[str, float]
    ) -> None:
        """Write the line of the current epoch."""
        self._next_s = time.monotonic() + _PAUSE_S
        total = "" if n_steps is None else f"/{n_steps}"
        self._write(f"epoch {epoch}/{self._epochs}  step {done}{total}{_values(record)}", end="")

    def add(self, record: Mapping[str, float]) -> None:
        """Write the line of a finished epoch."""
        if self._is_shown:
            self._write(f"epoch {int(record['epoch'])}/{self._epochs}{_values(record)}")

    def note(self, text: str) -> None:
        """Write a line of text."""
        if self._is_shown:
            self._write(text)

    def _write(self, text: str, end: str = "\n") -> None:
        if self._is_live:
            padded = text.ljust(self._width)
            self._width = 0 if end else len(text)
            text = f"\r{padded}"
        self._stream.write(text + end)
        self._stream.flush()


def _values(record: Mapping[str, float]) -> str:
    return "".join(
        f"  {format_value(value)} {_UNITS[name]}"
        if name in _UNITS
        else f"  {name} {format_value(value)}"
        for name, value in record.items()
        if name not in _HIDDEN
    )
