"""Metrics of predicted classes: accuracy, precision, recall, F1, the confusion matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from opwright.errors import AttributeTypeError, AttributeValueError
from opwright_nn import arguments, checks
from opwright_nn.metrics.metric import Metric, Source
from opwright_nn.metrics.scores import check_batch, check_labels, find_right, refuse_nan

_MOST_CLASSES: Final = 4096
"""The maximum number of classes in a confusion matrix, which then takes 128 MiB."""


@arguments.suggest
def accuracy(scores: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the fraction of rows whose label has the highest score.

    Parameters
    ----------
    scores : array, [n, classes]
        Probabilities or logits, of any numeric dtype. Of equal scores the first counts; a row with
        NaN is wrong.
    labels : array of integers in [0, classes), [n] or [n, 1]
        The class of each row.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    AttributeTypeError
        Scores or labels are not numbers.
    AttributeValueError
        A label is not a class.
    ShapeError
        The shapes do not match, or there are no rows.
    """
    rows, classes = check_batch("metrics.accuracy", scores, labels)
    return float(find_right(rows, classes, 1).mean())


class Accuracy(Metric):
    """The fraction of rows whose label is among the highest scores.

    Parameters
    ----------
    scores : Variable or str, [n, classes], optional
        Probabilities or logits, for `nn.train`. A row with NaN is wrong.
    labels : Variable or str, [n] or [n, 1], optional
        The class of each row.
    k : int, at least 1
        The number of highest scores that count. Equal scores are ranked by position.
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
        """Return the fraction, in [0, 1]."""
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
        """Add a batch: scores [n, classes], or one score per row; labels [n] or [n, 1]."""
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
        self._count(true, predicted, n_classes)

    def _count(
        self, true: npt.NDArray[np.int64], predicted: npt.NDArray[np.int64], n_classes: int
    ) -> None:
        right = true[true == predicted]
        self._right = _add(self._right, np.bincount(right, minlength=n_classes))
        self._predicted = _add(self._predicted, np.bincount(predicted, minlength=n_classes))
        self._true = _add(self._true, np.bincount(true, minlength=n_classes))

    def _share(self, of: npt.NDArray[np.floating[Any]] | npt.NDArray[np.int64]) -> float:
        """Return correct predictions divided by `of`: for one class, or the mean over classes."""
        if not self._true.sum():
            return math.nan
        shares = _divide(self._right, of)
        label = 1 if self._is_binary and self.label is None else self.label
        if label is not None:
            return float(shares[label]) if label < len(shares) else 0.0
        return float(shares[(self._predicted > 0) | (self._true > 0)].mean())


class Precision(_Counts):
    """The fraction of rows predicted as a class that belong to it; 0 if no row is predicted.

    Parameters
    ----------
    scores, labels : Variable or str, optional
        As for `Accuracy`; scores may also be [n] or [n, 1], for class 1.
    threshold : float
        The smallest score that predicts class 1, if a row has one score.
    label : int, optional
        The class to evaluate; by default 1 if a row has one score, otherwise the mean over all
        classes that are predicted or true anywhere.
    """

    def result(self) -> float:
        """Return the fraction, in [0, 1]."""
        return self._share(self._predicted)


class Recall(_Counts):
    """The fraction of a class's rows that are predicted as this class; 0 if it has no rows.

    Parameters
    ----------
    scores, labels : Variable or str, optional
        As for `Accuracy`; scores may also be [n] or [n, 1], for class 1.
    threshold : float
        The smallest score that predicts class 1, if a row has one score.
    label : int, optional
        The class to evaluate; by default 1 if a row has one score, otherwise the mean over all
        classes that are predicted or true anywhere.
    """

    def result(self) -> float:
        """Return the fraction, in [0, 1]."""
        return self._share(self._true)


class F1(_Counts):
    """``2 * precision * recall / (precision + recall)``; 0 if a class is never predicted correctly.

    F1 is high only if both precision and recall are high, which suits imbalanced classes.

    Parameters
    ----------
    scores, labels : Variable or str, optional
        As for `Accuracy`; scores may also be [n] or [n, 1], for class 1.
    threshold : float
        The smallest score that predicts class 1, if a row has one score.
    label : int, optional
        The class to evaluate; by default 1 if a row has one score, otherwise the mean over all
        classes that are predicted or true anywhere.
    """

    def result(self) -> float:
        """Return the score, in [0, 1]."""
        return self._share((self._predicted + self._true) / 2)


@arguments.suggest
class ClassScores(NamedTuple):
    """A row of the table that `ConfusionMatrix.per_class` returns.

    Attributes
    ----------
    name : str
    precision, recall, f1 : float
        In [0, 1]; 0 if there is nothing to divide by.
    rows : int
        The number of rows that belong to the class.
    """

    name: str
    precision: float
    recall: float
    f1: float
    rows: int


class ConfusionMatrix(_Counts):
    """The number of rows of each class that are predicted as each class; `result` is the accuracy.

    ::

        confusion = nn.metrics.ConfusionMatrix(scores, "label", names=["cat", "dog"])
        nn.train(model, train, epochs=5, validation=test, metrics={"accuracy": confusion})
        print(confusion)  # of the last epoch's validation: precision, recall, F1 of each class

    Parameters
    ----------
    scores, labels : Variable or str, optional
        As for `Accuracy`; scores may also be [n] or [n, 1], for class 1.
    threshold : float
        The smallest score that predicts class 1, if a row has one score.
    names : sequence of str, optional
        The names of the classes, in order.

    Raises
    ------
    AttributeValueError
        There are more than 4,096 classes, or their number differs from the number of names.
    """

    @arguments.suggest
    def __init__(
        self,
        scores: Source = None,
        labels: Source = None,
        *,
        threshold: float = 0.5,
        names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(scores, labels, threshold=threshold)
        if names is not None and not checks.is_listed(names):
            raise AttributeTypeError(
                f"ConfusionMatrix: names must be a list of names of classes, got {names!r} "
                f"({type(names).__name__}); write names=['cat', 'dog'], for example"
            )
        self.names = None if names is None else [str(name) for name in names]

    def reset(self) -> None:
        """Forget all batches."""
        super().reset()
        self._matrix = np.zeros((0, 0), np.int64)

    def _count(
        self, true: npt.NDArray[np.int64], predicted: npt.NDArray[np.int64], n_classes: int
    ) -> None:
        most = _MOST_CLASSES if self.names is None else len(self.names)
        if n_classes > most:
            raise AttributeValueError(
                f"{self._who}: there must be at most {most} classes"
                f"{'' if self.names is None else ', as there are names'}, got {n_classes}"
            )
        super()._count(true, predicted, n_classes)
        size = max(n_classes, len(self._matrix))
        cells = np.bincount(true * size + predicted, minlength=size * size).reshape(size, size)
        cells[: len(self._matrix), : len(self._matrix)] += self._matrix
        self._matrix = cells

    @property
    def matrix(self) -> npt.NDArray[np.int64]:
        """The counts, int64 [classes, classes]: rows are true, columns predicted classes."""
        return self._matrix.copy()

    def per_class(self) -> list[ClassScores]:
        """Return precision, recall, F1 and the number of rows of each class."""
        n_classes = len(self._matrix)
        names = self.names or [str(number) for number in range(n_classes)]
        columns = (
            _divide(self._right, self._predicted).tolist(),
            _divide(self._right, self._true).tolist(),
            _divide(self._right, (self._predicted + self._true) / 2).tolist(),
            self._true.tolist(),
        )
        return [ClassScores(*line) for line in zip(names, *columns, strict=False)]

    def result(self) -> float:
        """Return the fraction of rows that are predicted correctly."""
        n_rows = self._true.sum()
        return float(self._right.sum() / n_rows) if n_rows else math.nan

    def __str__(self) -> str:
        """Return the class metrics and the matrix as a table."""
        lines = self.per_class()
        width = max([5, *(len(line.name) for line in lines)])
        cell = max([5, *(len(str(count)) for count in self._matrix.ravel())]) + 1
        text = [f"{'class':{width}}  precision  recall     F1   rows  predicted as"]
        for line, counts in zip(lines, self._matrix, strict=True):
            row = "".join(f"{count:{cell}d}" for count in counts)
            scores = f"{line.precision:9.3f}  {line.recall:6.3f}  {line.f1:5.3f}  {line.rows:5d} "
            text.append(f"{line.name:{width}}  {scores}{row}")
        return "\n".join([*text, f"accuracy {self.result():.3f}"])


def _divide(right: npt.NDArray[np.int64], of: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return ``right / of``, or 0 where `of` is 0."""
    return np.asarray(right / np.where(of > 0, of, 1), np.float64)


def _add(a: npt.NDArray[np.int64], b: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the sum of counts, padded to the larger number of classes."""
    total = np.zeros(max(len(a), len(b)), np.int64)
    total[: len(a)] += a
    total[: len(b)] += b
    return total
