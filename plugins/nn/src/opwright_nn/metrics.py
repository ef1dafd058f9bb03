"""Metrics of predictions, on NumPy arrays: of one batch, or collected over many."""

from __future__ import annotations

import abc
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import opwright as ow
from opwright.errors import AttributeTypeError, ShapeError
from opwright_nn import arguments, checks
from opwright_nn.foreign_names import METRICS, answering
from opwright_nn.scores import check_batch, check_labels, find_right, refuse_nan

__all__ = ["AUC", "Accuracy", "Mean", "Metric", "Precision", "R2", "Recall", "accuracy"]

if not TYPE_CHECKING:  # type checkers shall report an unknown name
    __getattr__, __dir__ = answering(__name__, __all__, METRICS)


@arguments.suggest
def accuracy(scores: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the share of rows with the highest score at the label.

    Parameters
    ----------
    scores : array, [n, classes]
        Probabilities or logits, of any dtype of numbers. Of equal scores the first counts; a row
        with NaN is wrong.
    labels : array of integers in [0, classes), [n] or [n, 1]
        The class of each row.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    AttributeTypeError
        Scores or labels are no numbers.
    AttributeValueError
        A label is no class.
    ShapeError
        The shapes do not fit each other, or there are no rows.
    """
    rows, classes = check_batch("metrics.accuracy", scores, labels)
    return float(find_right(rows, classes, 1).mean())


Source = ow.Variable | str | None
"""A variable whose values are collected, or its name; None where `update` is called by hand."""


class Metric(abc.ABC):
    """A number about predictions that is collected batch by batch; `nn.train` takes it.

    Arrays are of any dtype of numbers, bool among them. NaN is never taken for a high score or a
    low one: a row with it is wrong for `Accuracy`, a mean and `R2` become NaN, metrics that order
    or compare scores refuse it.

    ``update`` takes the arrays of a batch, ``result`` returns the number for all batches since the
    last ``reset``. It is no part of a program: no plan changes.

    Parameters
    ----------
    *variables : Variable or str
        What `nn.train` calls `update` with: variables that the model computes, and inputs. None are
        needed by those who call `update` themselves.
    """

    def __init__(self, *variables: Source) -> None:
        for variable in variables:
            if not isinstance(variable, ow.Variable | str | None):
                raise AttributeTypeError(
                    f"{type(self).__name__}: variables must be variables or names of a model, got "
                    f"{variable!r} ({type(variable).__name__}); pass arrays to update"
                )
        self.variables = tuple(item for item in variables if item is not None)
        self.reset()

    @abc.abstractmethod
    def reset(self) -> None:
        """Forget all batches."""

    @abc.abstractmethod
    def update(self, *arrays: Any, **options: Any) -> None:
        """Add a batch: one array for each of `variables`."""

    @abc.abstractmethod
    def result(self) -> float:
        """Return the number for all batches since `reset`; NaN where there were none."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.result():.6g})"

    @property
    def _who(self) -> str:
        return f"metrics.{type(self).__name__}"


class Mean(Metric):
    """The mean of a loss, or of any other number of each batch.

    Parameters
    ----------
    value : Variable or str, optional
        What is collected by `nn.train`.
    """

    @arguments.suggest
    def __init__(self, value: Source = None) -> None:
        super().__init__(value)

    def reset(self) -> None:
        """Forget all batches."""
        self._sum, self._weight = 0.0, 0.0

    def update(self, value: npt.ArrayLike, weight: float = 1.0) -> None:
        """Add numbers: one of a batch, or one for each row.

        Parameters
        ----------
        value : array
            Numbers of any shape.
        weight : float, at least 0
            How much each counts: the rows of the batch, where the last batch is smaller.
        """
        factor = checks.check_float(self._who, "weight", weight, at_least=0.0)
        numbers = checks.check_numbers(self._who, "value", value).astype(np.float64)
        if factor:
            self._sum += factor * float(numbers.sum())
            self._weight += factor * numbers.size

    def result(self) -> float:
        """Return the mean of all numbers."""
        return self._sum / self._weight if self._weight else math.nan


class Accuracy(Metric):
    """The share of rows with the label among the highest scores.

    Parameters
    ----------
    scores : Variable or str, [n, classes], optional
        Probabilities or logits, for `nn.train`. A row with NaN is wrong.
    labels : Variable or str, [n] or [n, 1], optional
        The class of each row.
    k : int, at least 1
        How many of the highest scores count. Of equal scores the first come first.
    """

    @arguments.suggest
    def __init__(self, scores: Source = None, labels: Source = None, *, k: int = 1) -> None:
        super().__init__(scores, labels)
        self.k = checks.check_int(self._who, "k", k, at_least=1)

    def reset(self) -> None:
        """Forget all batches."""
        self._right, self._rows = 0, 0

    def update(self, scores: npt.ArrayLike, labels: npt.ArrayLike) -> None:
        """Add a batch: scores [n, classes], and labels [n] or [n, 1]."""
        rows, classes = check_batch(self._who, scores, labels)
        self._right += int(find_right(rows, classes, self.k).sum())
        self._rows += len(rows)

    def result(self) -> float:
        """Return the share, in [0, 1]."""
        return self._right / self._rows if self._rows else math.nan


class _Counts(Metric):
    """Counts rows by predicted and by true class, for precision and recall."""

    @arguments.suggest
    def __init__(
        self,
        scores: Source = None,
        labels: Source = None,
        *,
        threshold: float = 0.5,
        label: int | None = None,
    ) -> None:
        super().__init__(scores, labels)
        self.threshold = checks.check_float(self._who, "threshold", threshold)
        self.label = None
        if label is not None:
            self.label = checks.check_int(self._who, "label", label, at_least=0)

    def reset(self) -> None:
        """Forget all batches."""
        self._right = np.zeros(0, np.int64)
        self._predicted = np.zeros(0, np.int64)
        self._true = np.zeros(0, np.int64)
        self._is_binary = False

    def update(self, scores: npt.ArrayLike, labels: npt.ArrayLike) -> None:
        """Add a batch: scores [n, classes], or one score each; labels [n] or [n, 1]."""
        rows = checks.check_numbers(self._who, "scores", scores)
        refuse_nan(self._who, rows)
        self._is_binary = rows.ndim == 1 or rows.shape[1:] == (1,)
        if self._is_binary:
            predicted = (rows.reshape(-1) >= np.float64(self.threshold)).astype(np.int64)
            true = check_labels(self._who, labels, len(rows), 2)
            n_classes = 2
        else:
            rows, true = check_batch(self._who, rows, labels)
            predicted, n_classes = rows.argmax(axis=1), rows.shape[1]
        right = true[true == predicted]
        self._right = _add(self._right, np.bincount(right, minlength=n_classes))
        self._predicted = _add(self._predicted, np.bincount(predicted, minlength=n_classes))
        self._true = _add(self._true, np.bincount(true, minlength=n_classes))

    def _share(self, of: npt.NDArray[np.int64]) -> float:
        """Return right rows as a share of others; 0 where there are no others."""
        if not self._true.sum():
            return math.nan
        shares = self._right / np.maximum(of, 1)
        label = 1 if self._is_binary and self.label is None else self.label
        if label is not None:
            return float(shares[label]) if label < len(shares) else 0.0
        return float(shares[(self._predicted > 0) | (self._true > 0)].mean())


class Precision(_Counts):
    """The share of rows predicted as a class that are of it; 0 where none is predicted.

    Parameters
    ----------
    scores, labels : Variable or str, optional
        As of `Accuracy`; scores may also be [n] or [n, 1], for the class 1.
    threshold : float
        The least score of the class 1, where a row has one score.
    label : int, optional
        The class that counts; by default 1 where a row has one score, else the mean over all
        classes that are predicted or true anywhere.
    """

    def result(self) -> float:
        """Return the share, in [0, 1]."""
        return self._share(self._predicted)


class Recall(_Counts):
    """The share of rows of a class that are predicted as it; 0 where there is none.

    Parameters
    ----------
    scores, labels : Variable or str, optional
        As of `Accuracy`; scores may also be [n] or [n, 1], for the class 1.
    threshold : float
        The least score of the class 1, where a row has one score.
    label : int, optional
        The class that counts; by default 1 where a row has one score, else the mean over all
        classes that are predicted or true anywhere.
    """

    def result(self) -> float:
        """Return the share, in [0, 1]."""
        return self._share(self._true)


class AUC(Metric):
    """The area under the curve of true over false positives, exactly.

    It is the probability that a row of the class 1 has a higher score than one of the class 0,
    equal scores counting half. All scores are kept until `reset`, as they are, with 1 byte for the
    class.

    Parameters
    ----------
    scores : Variable or str, [n] or [n, 1], optional
        Scores of the class 1, for `nn.train`.
    labels : Variable or str, [n] or [n, 1], optional
        0 or 1.
    """

    @arguments.suggest
    def __init__(self, scores: Source = None, labels: Source = None) -> None:
        super().__init__(scores, labels)

    def reset(self) -> None:
        """Forget all batches."""
        self._scores: list[npt.NDArray[Any]] = []
        self._labels: list[npt.NDArray[np.bool_]] = []

    def update(self, scores: npt.ArrayLike, labels: npt.ArrayLike) -> None:
        """Add a batch: scores [n] or [n, 1], labels 0 or 1 of either shape."""
        rows = checks.check_numbers(self._who, "scores", scores)
        if rows.ndim != 1 and rows.shape[1:] != (1,):
            raise ShapeError(
                f"{self._who}: scores must be [n] or [n, 1], got shape {list(rows.shape)}; pass "
                "the score of the class 1: scores[:, 1]"
            )
        refuse_nan(self._who, rows)
        classes = check_labels(self._who, labels, len(rows), 2)
        self._scores.append(rows.reshape(-1).copy())  # the caller may write into its array
        self._labels.append(classes == 1)

    def result(self) -> float:
        """Return the area, in [0, 1]; NaN without rows of both classes."""
        if not self._scores:
            return math.nan
        scores, positive = np.concatenate(self._scores), np.concatenate(self._labels)
        n_positive, n_negative = int(positive.sum()), int((~positive).sum())
        if not n_positive or not n_negative:
            return math.nan
        # The rank of a row, from 1, is the mean of the ranks of all rows of its score.
        _, place, count = np.unique(scores, return_inverse=True, return_counts=True)
        ranks = (np.cumsum(count) - (count - 1) / 2)[place.reshape(-1)]
        above = ranks[positive].sum() - n_positive * (n_positive + 1) / 2
        return float(above / (n_positive * n_negative))


class R2(Metric):
    """The share of the variance of numbers that predictions explain: ``1 - Σ(y - p)² / Σ(y - m)²``.

    m is the mean of all targets y. 1 is perfect, 0 is as good as always m, worse is below 0.

    Parameters
    ----------
    predictions, targets : Variable or str, optional
        Numbers of one shape, for `nn.train`.
    """

    @arguments.suggest
    def __init__(self, predictions: Source = None, targets: Source = None) -> None:
        super().__init__(predictions, targets)

    def reset(self) -> None:
        """Forget all batches."""
        self._count, self._mean, self._spread, self._errors = 0, 0.0, 0.0, 0.0

    def update(self, predictions: npt.ArrayLike, targets: npt.ArrayLike) -> None:
        """Add a batch: predictions and targets of one shape."""
        found = checks.check_numbers(self._who, "predictions", predictions).astype(np.float64)
        wanted = checks.check_numbers(self._who, "targets", targets).astype(np.float64)
        if found.shape != wanted.shape:
            raise ShapeError(
                f"{self._who}: targets must have the shape of predictions, {list(found.shape)}, "
                f"got {list(wanted.shape)}; reshape one of them"
            )
        if not wanted.size:
            return
        with np.errstate(invalid="ignore", over="ignore"):  # what is infinite gives NaN or -inf
            self._errors += float(np.square(found - wanted).sum())
            # Sums of squares about the mean are merged: about 0, they would lose digits.
            mean, total = float(wanted.mean()), self._count + wanted.size
            between = np.square(mean - self._mean) * self._count * wanted.size / total
            self._spread += float(np.square(wanted - mean).sum() + between)
            self._mean += (mean - self._mean) * wanted.size / total
        self._count = total

    def result(self) -> float:
        """Return the share, at most 1; NaN where all targets are equal."""
        return 1 - self._errors / self._spread if self._spread else math.nan


def _add(a: npt.NDArray[np.int64], b: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the sum of counts, of as many classes as the longer has."""
    total = np.zeros(max(len(a), len(b)), np.int64)
    total[: len(a)] += a
    total[: len(b)] += b
    return total
