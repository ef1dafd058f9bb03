"""Metrics of predictions, on NumPy arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opwright.errors import ShapeError

__all__ = ["accuracy"]


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
