"""Metrics of predictions, on NumPy arrays: of all rows at once, or batch by batch."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np
import numpy.typing as npt

import opwright as ow
from opwright.errors import AttributeTypeError, ShapeError
from opwright_nn import arguments

__all__ = ["Accuracy", "Metric", "accuracy"]


class Metric(abc.ABC):
    """A metric that accumulates over the batches of an evaluation; `nn.train` takes it.

    Parameters
    ----------
    *variables : Variable or str
        What `update` is given the arrays of: variables that the model computes, and inputs.
    """

    def __init__(self, *variables: ow.Variable | str) -> None:
        for variable in variables:
            if not isinstance(variable, ow.Variable | str):
                raise AttributeTypeError(
                    f"{type(self).__name__}: variables must be variables or names of a model, got "
                    f"{variable!r} ({type(variable).__name__}); metrics of arrays are functions, "
                    "such as metrics.accuracy"
                )
        self.variables = variables

    @abc.abstractmethod
    def reset(self) -> None:
        """Forget all batches."""

    @abc.abstractmethod
    def update(self, *arrays: npt.NDArray[Any]) -> None:
        """Add a batch: one array for each of `variables`."""

    @abc.abstractmethod
    def result(self) -> float:
        """Return the metric of the batches since `reset`; NaN where there were none."""


class Accuracy(Metric):
    """The share of rows with the highest score at the label, as `accuracy` counts them.

    Parameters
    ----------
    scores : Variable or str, [n, classes]
        Probabilities or logits.
    labels : Variable or str, [n] or [n, 1]
        The class of each row.
    """

    @arguments.suggest
    def __init__(self, scores: ow.Variable | str, labels: ow.Variable | str) -> None:
        super().__init__(scores, labels)
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self._right, self._rows = 0, 0

    def update(self, *arrays: npt.NDArray[Any]) -> None:
        """Add a batch of scores and labels."""
        scores, labels = arrays
        self._right += round(accuracy(scores, labels) * len(labels))
        self._rows += len(labels)

    def result(self) -> float:
        """Return the share, in [0, 1]."""
        return self._right / self._rows if self._rows else float("nan")


def accuracy(scores: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the share of rows with the highest score at the label.

    Parameters
    ----------
    scores : array, [n, classes]
        Probabilities or logits. Of equal scores the first counts; a row with NaN is wrong.
    labels : array of integers, [n] or [n, 1]
        The class of each row.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    ShapeError
        The shapes do not fit each other, or there are no rows.
    """
    rows, classes = np.asarray(scores), np.asarray(labels)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ShapeError(
            "metrics.accuracy: scores must be [n, classes] with n and classes of at least 1, "
            f"got shape {list(rows.shape)}; pass one row of scores per sample"
        )
    if classes.shape not in {(len(rows),), (len(rows), 1)}:
        raise ShapeError(
            f"metrics.accuracy: labels must be [{len(rows)}] or [{len(rows)}, 1] as scores have "
            f"{len(rows)} rows, got shape {list(classes.shape)}; pass one label per row"
        )
    right = rows.argmax(axis=1) == classes.reshape(-1)
    if rows.dtype.kind == "f":
        right &= ~np.isnan(rows).any(axis=1)
    return float(right.mean())
