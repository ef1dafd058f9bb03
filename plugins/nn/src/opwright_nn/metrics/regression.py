"""Metrics of predicted numbers: errors, and the fraction of variance explained."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from opwright.errors import ShapeError
from opwright_nn import arguments, checks
from opwright_nn.metrics.metric import Metric, Source

Array = npt.NDArray[np.float64]


class _Differences(Metric):
    """Averages a function of the differences between predictions and targets."""

    @arguments.suggest
    def __init__(self, predictions: Source = None, targets: Source = None) -> None:
        super().__init__(predictions, targets)

    def reset(self) -> None:
        """Forget all batches."""
        self._total, self._count = 0.0, 0

    def update(self, predictions: npt.ArrayLike, targets: npt.ArrayLike) -> None:
        """Add a batch: predictions and targets of equal shape."""
        found, wanted = _check_pair(self._who, predictions, targets)
        with np.errstate(invalid="ignore", over="ignore"):  # infinities result in NaN or inf
            self._total += float(self._measure(found - wanted).sum())
        self._count += wanted.size

    def result(self) -> float:
        """Return the error, at least 0."""
        return self._total / self._count if self._count else math.nan

    @staticmethod
    def _measure(difference: Array) -> Any:
        return np.square(difference)


class MSE(_Differences):
    """The mean squared error, ``Σ (p - y)² / n`` over all n numbers.

    Parameters
    ----------
    predictions, targets : Variable or str, optional
        Numbers of equal shape, for `nn.train`.
    """


class RMSE(_Differences):
    """The root mean squared error, in the unit of the targets.

    Parameters
    ----------
    predictions, targets : Variable or str, optional
        As for `MSE`.
    """

    def result(self) -> float:
        """Return the error, at least 0."""
        return math.sqrt(super().result())


class MAE(_Differences):
    """The mean absolute error, ``Σ |p - y| / n``: outliers count less than in `MSE`.

    Parameters
    ----------
    predictions, targets : Variable or str, optional
        As for `MSE`.
    """

    @staticmethod
    def _measure(difference: Array) -> Any:
        return np.abs(difference)


class R2(Metric):
    """The fraction of variance that predictions explain: ``1 - Σ(y - p)² / Σ(y - m)²``.

    m is the mean of all targets y. 1 is perfect, 0 is as good as predicting m, and negative values
    are worse.

    Parameters
    ----------
    predictions, targets : Variable or str, optional
        Numbers of equal shape, for `nn.train`.
    """

    @arguments.suggest
    def __init__(self, predictions: Source = None, targets: Source = None) -> None:
        super().__init__(predictions, targets)

    def reset(self) -> None:
        """Forget all batches."""
        self._count, self._mean, self._spread, self._errors = 0, 0.0, 0.0, 0.0

    def update(self, predictions: npt.ArrayLike, targets: npt.ArrayLike) -> None:
        """Add a batch: predictions and targets of equal shape."""
        found, wanted = _check_pair(self._who, predictions, targets)
        if not wanted.size:
            return
        with np.errstate(invalid="ignore", over="ignore"):  # infinities result in NaN or -inf
            self._errors += float(np.square(found - wanted).sum())
            # Sums of squares about the mean are merged, as sums about 0 would lose precision.
            mean, total = float(wanted.mean()), self._count + wanted.size
            between = np.square(mean - self._mean) * self._count * wanted.size / total
            self._spread += float(np.square(wanted - mean).sum() + between)
            self._mean += (mean - self._mean) * wanted.size / total
        self._count = total

    def result(self) -> float:
        """Return the fraction, at most 1; NaN if all targets are equal."""
        return 1 - self._errors / self._spread if self._spread else math.nan


def _check_pair(
    who: str, predictions: npt.ArrayLike, targets: npt.ArrayLike
) -> tuple[Array, Array]:
    found = checks.check_numbers(who, "predictions", predictions).astype(np.float64)
    wanted = checks.check_numbers(who, "targets", targets).astype(np.float64)
    if found.shape != wanted.shape:
        raise ShapeError(
            f"{who}: targets must have the shape of predictions, {list(found.shape)}, got "
            f"{list(wanted.shape)}; reshape one of them"
        )
    return found, wanted
