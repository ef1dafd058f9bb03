"""Checks scores and labels for metrics, and compares them without a change of dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from opwright.errors import AttributeValueError, ShapeError
from opwright_nn import checks


def refuse_nan(who: str, scores: npt.NDArray[Any]) -> None:
    """Raise if scores cannot be ordered because one of them is NaN."""
    bad = np.argwhere(np.isnan(scores))
    if len(bad):
        raise AttributeValueError(
            f"{who}: scores must not be NaN, since NaN cannot be ordered, got nan in row "
            f"{bad[0][0]}; find its origin with nn.find_nan"
        )


def find_right(
    rows: npt.NDArray[Any], classes: npt.NDArray[np.int64], k: int
) -> npt.NDArray[np.bool_]:
    """Return which rows have the label among their k highest scores; rows with NaN never do."""
    own = np.take_along_axis(rows, classes[:, None], axis=1)
    # Scores are compared, not negated and sorted, since in uint8 -1 is 255, and in int8 -(-128) is
    # -128.
    earlier = np.arange(rows.shape[1]) < classes[:, None]
    ahead = ((rows > own) | ((rows == own) & earlier)).sum(axis=1)
    return np.asarray((ahead < k) & ~np.isnan(rows).any(axis=1))


def check_labels(
    who: str, labels: npt.ArrayLike, n_rows: int, n_classes: int
) -> npt.NDArray[np.int64]:
    """Return the class of each row, int64 [n], given as [n] or [n, 1]."""
    classes = checks.check_numbers(who, "labels", labels)
    if classes.shape not in {(n_rows,), (n_rows, 1)}:
        raise ShapeError(
            f"{who}: labels must be [{n_rows}] or [{n_rows}, 1] as scores have "
            f"{n_rows} rows, got shape {list(classes.shape)}; pass one label per row"
        )
    flat = classes.reshape(-1)
    bad = flat[~((flat >= 0) & (flat < n_classes) & (flat == np.floor(flat)))]
    if bad.size:
        raise AttributeValueError(
            f"{who}: labels must be integers in [0, {n_classes}), as scores have "
            f"{n_classes} classes, got {bad[0]}; pass the class of each row, or compare labels "
            "with the class that counts: labels == 3"
        )
    return flat.astype(np.int64)


def check_batch(
    who: str, scores: npt.ArrayLike, labels: npt.ArrayLike
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Validate scores [n, classes] and labels [n], and return them as arrays."""
    rows = checks.check_numbers(who, "scores", scores)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ShapeError(
            f"{who}: scores must be [n, classes] with n and classes of at least 1, "
            f"got shape {list(rows.shape)}; pass one row of scores per sample"
        )
    return rows, check_labels(who, labels, len(rows), rows.shape[1])
