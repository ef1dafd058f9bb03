"""Edit distance (Levenshtein) between sequences of ids."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, format_shape, merge_dims, no_gradient
from opwright_std.numerics.dtypes import INDICES, Array
from opwright_std.numerics.lengths import read_lengths


def _count_edits(x: Array, label: Array) -> int:
    """Return the distance of two sequences, [t] and [u]."""
    places = np.arange(len(label) + 1)
    row = places
    for i, token in enumerate(x):
        best = np.minimum(row[1:] + 1, row[:-1] + (label != token))
        # Insertions: an element becomes the minimum over elements up to it, each plus its distance.
        row = np.minimum.accumulate(np.concatenate(([i + 1], best)) - places) + places
    return int(row[-1])


def edit_distance(
    x: Array,
    label: Array,
    lengths: Array | None,
    label_lengths: Array | None,
    out: Array,
    *,
    normalized: bool,
) -> None:
    n = len(x)
    x_counts = read_lengths("edit_distance: lengths", lengths, x.shape[1], n)
    counts = read_lengths("edit_distance: label_lengths", label_lengths, label.shape[1], n)
    for i in range(n):
        edits = _count_edits(x[i, : x_counts[i]], label[i, : counts[i]])
        if normalized and edits > 0:
            out[i] = edits / counts[i] if counts[i] else np.inf
        else:
            out[i] = edits


def _edit_distance_shape(ctx: InferContext) -> None:
    """The output has one distance per pair of sequences."""
    x, label = ctx.input("x").shape, ctx.input("label").shape
    if len(x) != 2 or len(label) != 2:
        pair = f"{format_shape(x)} and {format_shape(label)}"
        ctx.fail(f"x and label must be [n, t] and [n, u], got {pair}")
    ctx.require_shape("label", (x[0], label[1]))
    n = merge_dims(x[0], label[0])
    for slot in ("lengths", "label_lengths"):
        if ctx.has_input(slot):
            ctx.require_shape(slot, (n,))
            n = merge_dims(n, ctx.input(slot).shape[0])
    ctx.set_output("out", (n,))


EDIT_DISTANCE = (
    OpMaker("edit_distance")
    .add_comment(
        "The minimum number of insertions, deletions and substitutions of ids that turn a "
        "sequence of x into that of label (Levenshtein, 1966). If normalized, it is divided by "
        "the length of the label: 0 for two empty sequences, infinity if only the label is empty."
    )
    .add_input("x", "int32 or int64 ids, [n, t]")
    .dtypes(*INDICES)
    .add_input("label", "ids, [n, u], dtype of x")
    .same_dtype_as("x")
    .add_input("lengths", "[n], lengths of the sequences of x, from 0 to t; absent: all t")
    .dtypes(*INDICES)
    .as_optional()
    .add_input(
        "label_lengths", "[n], lengths of the sequences of label, from 0 to u; absent: all u"
    )
    .dtypes(*INDICES)
    .as_optional()
    .add_output("out", "float32 [n]")
    .dtypes("float32")
    .add_attr("normalized", bool, "whether to divide by the length of the label")
    .default(True)
    .build(infer_shape=_edit_distance_shape, gradient=no_gradient("it is a count"))
)
