"""Area under the ROC curve of all batches so far."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, format_shape, no_gradient
from opwright_std.numerics.class_ids import flat_ids, require_label
from opwright_std.numerics.dtypes import FLOATS, INDICES, Array

_STATES = ("positives", "negatives")


def auc(
    x: Array,
    label: Array,
    positives: Array,
    negatives: Array,
    auc: Array,
    positives_out: Array,
    negatives_out: Array,
    *,
    num_thresholds: int,
) -> None:
    is_positive = flat_ids("auc: label", label, 2) == 1
    scores = x.reshape(-1)
    wrong = scores[~((scores >= 0) & (scores <= 1))]
    if wrong.size:
        raise ValueError(f"auc: x must be probabilities in [0, 1], got {wrong[0]}")
    # Bins are computed in float32, which represents every allowed number of thresholds.
    wide = scores.astype(np.result_type(scores, np.float32), copy=False)
    bins = (wide * wide.dtype.type(num_thresholds)).astype(np.int64)
    for state, out, chosen in (
        (positives, positives_out, is_positive),
        (negatives, negatives_out, ~is_positive),
    ):
        np.add(state, np.bincount(bins[chosen], minlength=num_thresholds + 1), out=out)
    auc[0] = _area(positives_out.astype(np.float64), negatives_out.astype(np.float64))


def _area(positives: Array, negatives: Array) -> float:
    """Return the fraction of pairs with the positive row in the higher bin; ties count half."""
    below = np.cumsum(negatives) - negatives
    pairs = positives.sum() * negatives.sum()
    return float((positives * (below + negatives / 2)).sum() / pairs) if pairs else 0.0


def _auc_shape(ctx: InferContext) -> None:
    """The area has one element; the new states have the shapes of the old states."""
    x = ctx.input("x").shape
    if len(x) not in (1, 2) or (len(x) == 2 and x[1] not in (1, -1)):
        ctx.fail(f"x must be [n] or [n, 1], got {format_shape(x)}")
    require_label(ctx, x[:1], (*x[:1], 1))
    bins = (ctx.attr("num_thresholds") + 1,)
    ctx.set_output("auc", (1,))
    for slot in _STATES:
        ctx.require_shape(slot, bins)
        ctx.set_output(f"{slot}_out", bins)


def _auc_maker() -> OpMaker:
    maker = OpMaker("auc").add_comment(
        "Area under the receiver operating characteristic curve: the fraction of pairs of a "
        "positive and a negative row in which the positive row has the higher score. Scores "
        "are counted in bins, floor(x * num_thresholds), which accumulate over batches, and "
        "pairs in equal bins count as one half. The area is 0 while there are no positive or "
        "no negative rows."
    )
    maker.add_input("x", "float [n] or [n, 1]: probabilities of label 1 in [0, 1]").dtypes(*FLOATS)
    maker.add_input("label", "int [n] or [n, 1]: 1 positive, 0 negative").dtypes(*INDICES)
    for slot, kind in zip(_STATES, ("positive", "negative"), strict=True):
        maker.add_input(slot, f"int64 [num_thresholds + 1]: {kind} rows in each bin so far")
        maker.dtypes("int64")
    maker.add_output("auc", "float32 [1], of all rows so far").dtypes("float32")
    for slot in _STATES:
        maker.add_output(f"{slot}_out", f"the new {slot}, which replaces the old one")
        maker.dtypes("int64").aliases(slot)
    maker.add_attr("num_thresholds", int, "number of bins for scores below 1; 1 has a separate bin")
    return maker.default(4095).between(1, 2**24)


AUC = _auc_maker().build(infer_shape=_auc_shape, gradient=no_gradient("a count is not continuous"))
