"""Measures of a trained model, on NumPy arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opwright.errors import ShapeError

__all__ = ["accuracy"]


def accuracy(scores: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the share of rows whose highest score is at the label.

    Parameters
    ----------
    scores : array, [n, classes]
        Probabilities or logits. Of equal highest scores the first counts; a row with NaN is wrong.
    labels : array of integers, [n] or [n, 1]
        The right class of each row.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    ShapeError
        The shapes do not fit each other, or there are no rows.
    """
    given, wanted = np.asarray(scores), np.asarray(labels)
    if given.ndim != 2 or 0 in given.shape:
        raise ShapeError(
            "metrics.accuracy: scores must be [n, classes] with n and classes of at least 1, "
            f"got shape {list(given.shape)}; give one row of scores per image"
        )
    if wanted.shape not in {(len(given),), (len(given), 1)}:
        raise ShapeError(
            f"metrics.accuracy: labels must be [{len(given)}] or [{len(given)}, 1] as scores have "
            f"{len(given)} rows, got shape {list(wanted.shape)}; give one label per row"
        )
    right = given.argmax(axis=1) == wanted.reshape(-1)
    if given.dtype.kind == "f":
        right &= ~np.isnan(given).any(axis=1)
    return float(right.mean())
