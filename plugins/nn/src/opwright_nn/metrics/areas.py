"""Areas under curves: ROC, and precision over recall."""

from __future__ import annotations

import abc
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from opwright.errors import ShapeError
from opwright_nn import arguments, checks
from opwright_nn.metrics.metric import Metric, Source
from opwright_nn.metrics.scores import check_labels, refuse_nan

Array = npt.NDArray[Any]


class _Area(Metric):
    """Stores all scores unchanged until `reset`, plus 8 bytes per row for the class of the row."""

    @arguments.suggest
    def __init__(
        self, scores: Source = None, labels: Source = None, *, label: int | None = None
    ) -> None:
        super().__init__(scores, labels)
        self.label = None
        if label is not None:
            self.label = checks.check_int(self._who, "label", label, at_least=0)

    def reset(self) -> None:
        """Forget all batches."""
        self._scores: list[Array] = []
        self._labels: list[npt.NDArray[np.int64]] = []

    def update(self, scores: npt.ArrayLike, labels: npt.ArrayLike) -> None:
        """Add a batch: scores [n], [n, 1] or [n, classes], labels [n] or [n, 1]."""
        rows = checks.check_numbers(self._who, "scores", scores)
        if rows.ndim not in {1, 2}:
            raise ShapeError(
                f"{self._who}: scores must be [n], [n, 1] or [n, classes], got shape "
                f"{list(rows.shape)}; pass the scores of each row"
            )
        rows = rows.reshape(len(rows), -1)
        width = self._scores[0].shape[1] if self._scores else rows.shape[1]
        if rows.shape[1] != width:
            raise ShapeError(
                f"{self._who}: batches must have {width} scores per row, like the first batch, got "
                f"{rows.shape[1]}; call reset between data of different kinds"
            )
        refuse_nan(self._who, rows)
        self._labels.append(check_labels(self._who, labels, len(rows), max(2, width)))
        self._scores.append(rows.copy())  # the caller may write into its array

    def result(self) -> float:
        """Return the area, in [0, 1]; NaN if every class lacks positive or negative rows."""
        if not self._scores:
            return math.nan
        scores, labels = np.concatenate(self._scores), np.concatenate(self._labels)
        if scores.shape[1] == 1:
            positive = labels == (1 if self.label is None else self.label)
            return self._measure(scores[:, 0], positive)
        chosen = range(scores.shape[1]) if self.label is None else [self.label]
        areas = [self._measure(scores[:, c], labels == c) for c in chosen if c < scores.shape[1]]
        known = [area for area in areas if not math.isnan(area)]
        return sum(known) / len(known) if known else math.nan

    def _measure(self, scores: Array, positive: npt.NDArray[np.bool_]) -> float:
        n_positive = int(positive.sum())
        if n_positive in {0, len(positive)}:
            return math.nan
        return self._area(scores, positive, n_positive)

    @staticmethod
    @abc.abstractmethod
    def _area(scores: Array, positive: npt.NDArray[np.bool_], n_positive: int) -> float:
        """Return the area for rows that include both positive and negative rows."""


class AUC(_Area):
    """The exact area under the curve of true over false positives (ROC).

    The area is the probability that a row of the class has a higher score for this class than a row
    of another class; ties count half. All scores are stored unchanged until `reset`.

    Parameters
    ----------
    scores : Variable or str, [n], [n, 1] or [n, classes], optional
        Scores for class 1, or for each class, for `nn.train`.
    labels : Variable or str, [n] or [n, 1], optional
        The class of each row.
    label : int, optional
        The class to evaluate; by default 1 if a row has one score, otherwise the mean over all
        classes, each against the rest.
    """

    @staticmethod
    def _area(scores: Array, positive: npt.NDArray[np.bool_], n_positive: int) -> float:
        # The rank of a row, from 1, is the mean of the ranks of all rows with the same score.
        _, place, count = np.unique(scores, return_inverse=True, return_counts=True)
        ranks = (np.cumsum(count) - (count - 1) / 2)[place.reshape(-1)]
        above = ranks[positive].sum() - n_positive * (n_positive + 1) / 2
        return float(above / (n_positive * (len(positive) - n_positive)))


class AveragePrecision(_Area):
    """The area under the curve of precision over recall (PR), ``Σ (R[i] - R[i - 1]) * P[i]``.

    i runs over the distinct scores, from the highest; P and R are precision and recall for the
    rows with at least that score. For rare classes, this area shows differences that `AUC` hides.
    All scores are stored unchanged until `reset`.

    Parameters
    ----------
    scores, labels, label
        As for `AUC`.
    """

    @staticmethod
    def _area(scores: Array, positive: npt.NDArray[np.bool_], n_positive: int) -> float:
        levels, place = np.unique(scores, return_inverse=True)
        right = np.bincount(place.reshape(-1), positive, len(levels))[::-1]
        taken = np.bincount(place.reshape(-1), minlength=len(levels))[::-1]
        precision = np.cumsum(right) / np.cumsum(taken)
        return float((right / n_positive * precision).sum())
