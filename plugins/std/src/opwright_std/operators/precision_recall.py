"""Precision, recall and F1 of a classifier, on one batch and on all batches so far."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, format_shape, no_gradient
from opwright_std.numerics.class_ids import flat_ids, require_label
from opwright_std.numerics.dtypes import FLOATS, INDICES, Array


def precision_recall(
    x: Array, label: Array, states: Array, batch: Array, total: Array, states_out: Array
) -> None:
    rows, classes = x.shape
    wanted = flat_ids("precision_recall: label", label, classes)
    guessed = np.argmax(x, axis=1) if x.size else np.empty(0, np.int64)
    right = np.bincount(wanted[guessed == wanted], minlength=classes)
    too_many = np.bincount(guessed, minlength=classes) - right
    too_few = np.bincount(wanted, minlength=classes) - right
    counts = np.stack([right, too_many, rows - right - too_many - too_few, too_few], axis=1)
    batch[...] = _metrics(counts)
    np.add(states, counts, out=states_out)
    total[...] = _metrics(states_out)


def _metrics(counts: Array) -> Array:
    """Return precision, recall and F1: first the means over classes, then those of total counts."""
    everything = counts.sum(axis=0, keepdims=True)
    by_class, at_once = (
        np.mean(_ratios(some), axis=1) if len(some) else np.zeros(3)
        for some in (counts, everything)
    )
    return np.concatenate([by_class, at_once])


def _ratios(counts: Array) -> Array:
    right, too_many, _, too_few = counts.T.astype(np.float64)
    sizes = np.stack([right + too_many, right + too_few, right + (too_many + too_few) / 2])
    ratios = np.zeros(sizes.shape)
    np.divide(right, sizes, out=ratios, where=sizes > 0)
    return ratios


def _precision_recall_shape(ctx: InferContext) -> None:
    """Metrics have 6 elements; label is [n, 1] or [n] for x [n, classes]."""
    x = ctx.input("x").shape
    ctx.require(len(x) == 2, f"x must be [n, classes], got {format_shape(x)}")
    require_label(ctx, (*x[:1], 1), x[:1])
    ctx.require_shape("states", (x[1], 4))
    for slot in ("batch", "total"):
        ctx.set_output(slot, (6,))
    ctx.set_output("states_out", ctx.input("states").shape)


PRECISION_RECALL = (
    OpMaker("precision_recall")
    .add_comment(
        "Precision, recall and F1 of the class with the greatest score, tp / (tp + fp), tp / "
        "(tp + fn) and 2 * tp / (2 * tp + fp + fn), 0 where the denominator is 0. The six "
        "numbers are the means over the classes (macro), followed by the metrics of the total "
        "counts (micro). Equal scores and NaN are ordered as by argmax."
    )
    .add_input("x", "float [n, classes], scores or probabilities")
    .dtypes(*FLOATS)
    .add_input("label", "int [n, 1] or [n], class ids in [0, classes)")
    .dtypes(*INDICES)
    .add_input(
        "states",
        "int64 [classes, 4]: true positives, false positives, true negatives and false negatives "
        "so far",
    )
    .dtypes("int64")
    .add_output("batch", "float32 [6], of this batch")
    .dtypes("float32")
    .add_output("total", "float32 [6], of all rows so far")
    .dtypes("float32")
    .add_output("states_out", "the new states, which replace the old ones")
    .dtypes("int64")
    .aliases("states")
    .build(
        infer_shape=_precision_recall_shape,
        gradient=no_gradient("a count is not continuous"),
    )
)
