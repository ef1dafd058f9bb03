"""Accuracy of a classifier on one batch."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, format_shape, no_gradient
from opwright_std.numerics.class_ids import flat_ids, require_label
from opwright_std.numerics.dtypes import FLOATS, INDICES, Array
from opwright_std.operators.top_k import ranked


def accuracy(
    x: Array, label: Array, accuracy: Array, correct: Array, total: Array, *, k: int
) -> None:
    ids = flat_ids("accuracy: label", label, x.shape[1])
    if k == 1:
        best = np.argmax(x, axis=1)[:, None] if x.size else np.empty((0, 1), np.int64)
    else:
        best = ranked(x, 1, True)[:, :k]
    score = np.take_along_axis(x, ids[:, None], axis=1)
    correct[0] = np.count_nonzero((best == ids[:, None]) & (score == score))
    total[0] = len(ids)
    accuracy[0] = correct[0] / total[0] if len(ids) else 0.0


def _accuracy_shape(ctx: InferContext) -> None:
    """Each output has one element; label is [n, 1] or [n] for x [n, classes]."""
    x = ctx.input("x").shape
    ctx.require(len(x) == 2, f"x must be [n, classes], got {format_shape(x)}")
    require_label(ctx, (*x[:1], 1), x[:1])
    for slot in ("accuracy", "correct", "total"):
        ctx.set_output(slot, (1,))


ACCURACY = (
    OpMaker("accuracy")
    .add_comment(
        "Fraction of rows whose label is among the k greatest scores, accuracy = correct / "
        "total; 0 for an empty batch. Equal scores and NaN are ordered as by top_k; a label "
        "with a NaN score never counts as correct."
    )
    .add_input("x", "float [n, classes], scores or probabilities")
    .dtypes(*FLOATS)
    .add_input("label", "int [n, 1] or [n], class ids in [0, classes)")
    .dtypes(*INDICES)
    .add_output("accuracy", "float32 [1]")
    .dtypes("float32")
    .add_output("correct", "int64 [1], number of correct rows")
    .dtypes("int64")
    .add_output("total", "int64 [1], number of rows")
    .dtypes("int64")
    .add_attr("k", int, "number of top-scoring classes that count as predictions")
    .default(1)
    .at_least(1)
    .build(infer_shape=_accuracy_shape, gradient=no_gradient("a count is not continuous"))
)
