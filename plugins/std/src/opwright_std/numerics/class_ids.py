"""Class ids as labels or indices: their range, and the shapes that losses accept."""

from __future__ import annotations

import math

import numpy as np

from opwright.op import InferContext, format_shape, merge_dims, shapes_match
from opwright_std.numerics.dtypes import INDICES, Array


def check_ids(who: str, ids: Array, count: int) -> None:
    """Raise ValueError with a message that begins with `who` unless every id is in [0, count).

    Parameters
    ----------
    who : str
        Operator type and slot, ``"cross_entropy: label"``.
    ids : int array
    count : int
        Number of classes or rows.
    """
    if ids.size == 0:
        return
    # As unsigned numbers, negative ids are huge, so one comparison checks both bounds.
    unsigned = ids.view(f"u{ids.itemsize}")
    if int(unsigned.max()) >= count:
        wrong = ids[unsigned >= count][0]
        raise ValueError(f"{who} must be in [0, {count}), got {wrong}")


def flat_ids(who: str, ids: Array, count: int) -> Array:
    """Return the checked ids as int64 [n]."""
    check_ids(who, ids, count)
    return ids.reshape(-1).astype(np.int64, copy=False)


def find_places(ids: Array, shape: tuple[int, ...], axis: int) -> Array:
    """Return the flat index of each line's class.

    Parameters
    ----------
    ids : int64 array
        One id for each line along `axis`, in row-major order.
    shape : tuple of int
        Shape of the array before flattening.
    axis : int
        The axis of the classes, counted from the front.
    """
    inner = math.prod(shape[axis + 1 :])
    lines = np.arange(ids.size)
    if inner == 1:
        return lines * shape[axis] + ids.reshape(-1)
    outer, within = np.divmod(lines, inner)
    return (outer * shape[axis] + ids.reshape(-1)) * inner + within


def find_labels(
    who: str, label: Array, scores: Array, axis: int, ignore_index: int
) -> tuple[Array, Array]:
    """Return the flat index of each label in the scores, and a mask that excludes ignored rows."""
    axis %= scores.ndim
    ids = label.reshape(-1).astype(np.int64, copy=False)
    counted = np.asarray(ids != ignore_index)
    if not counted.all():
        check_ids(who, ids[counted], scores.shape[axis])
        ids = np.where(counted, ids, 0)
    else:
        check_ids(who, ids, scores.shape[axis])
    return find_places(ids, scores.shape, axis), counted


def infer_row_loss(ctx: InferContext, scores: str, axis: int, soft_label: bool = False) -> None:
    """Set the shape of a loss with one value for each line of `scores` along `axis`.

    Hard labels have the shape of the scores with size 1 along `axis`, or without that axis; the
    loss has the shape of the labels. Soft labels have the shape of the scores, and the loss keeps
    the axis with size 1.
    """
    shape, label = ctx.input(scores).shape, ctx.input("label").shape
    kept = (*shape[:axis], 1, *shape[axis + 1 :])
    _check_label_dtype(ctx, scores, soft_label)
    if soft_label:
        require_label(ctx, shape)
        ctx.set_output("out", _merge(kept, (*label[:axis], 1, *label[axis + 1 :])))
        return
    dropped = shape[:axis] + shape[axis + 1 :]
    if shape[axis] != 1 and not shapes_match(label, kept) and shapes_match(label, shape):
        ctx.fail(
            f"label must have the shape {format_shape(kept)} or {format_shape(dropped)}, got "
            f"{format_shape(label)}, one number for each class; pass class ids, "
            f"label.argmax({axis}), "
            f"or with soft_label=True probabilities in {ctx.input(scores).dtype}"
        )
    require_label(ctx, kept, dropped)
    ctx.set_output("out", _merge(kept if len(label) == len(kept) else dropped, label))


def _check_label_dtype(ctx: InferContext, scores: str, soft_label: bool) -> None:
    label, wanted = ctx.input("label").dtype, ctx.input(scores).dtype
    if soft_label and label != wanted:
        ctx.fail(f"label must have the dtype of {scores} with soft_label, {wanted}, got {label}")
    if not soft_label and label not in INDICES:
        ctx.fail(f"label must be {' or '.join(INDICES)} without soft_label, got {label}")


def require_label(ctx: InferContext, *allowed: tuple[int, ...]) -> None:
    """Fail unless the label has one of the allowed shapes."""
    label = ctx.input("label").shape
    if not any(shapes_match(label, shape) for shape in allowed):
        wanted = " or ".join(map(format_shape, allowed))
        ctx.fail(f"label must have the shape {wanted}, got {format_shape(label)}")


def _merge(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(merge_dims, first, second))
