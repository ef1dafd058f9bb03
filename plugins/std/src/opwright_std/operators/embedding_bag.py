"""embedding_bag: sums, means or maxima over bags of table rows."""

from __future__ import annotations

import numpy as np

from opwright.errors import GradientError
from opwright.op import (
    BodyContext,
    InferContext,
    OpMaker,
    by_differentiating,
    format_shape,
    grad_op,
)
from opwright_std.compositions.expression import Expression, dtype_of, read
from opwright_std.numerics.class_ids import check_ids
from opwright_std.numerics.dtypes import FLOATS, HALVES, INDICES, Array
from opwright_std.operators.reduction import known_meta


def embedding_bag(
    weight: Array,
    index: Array,
    offsets: Array | None,
    per_sample_weights: Array | None,
    out: Array,
    *,
    mode: str,
    padding_index: int,
    include_last_offset: bool,
) -> None:
    ids, bags = _read("embedding_bag", weight, index, offsets, len(out))
    counted = ids != padding_index
    rows = weight[ids].astype(np.result_type(weight.dtype, np.float32))
    if per_sample_weights is not None:
        rows *= per_sample_weights.reshape(-1, 1)
    for bag, (begin, end) in enumerate(bags):
        kept = rows[begin:end][counted[begin:end]]
        if len(kept) == 0:
            out[bag] = 0
        elif mode == "max":
            out[bag] = kept.max(0)
        else:
            out[bag] = kept.sum(0) / (len(kept) if mode == "mean" else 1)


def embedding_bag_grad(
    weight: Array,
    index: Array,
    offsets: Array | None,
    per_sample_weights: Array | None,
    out_grad: Array,
    weight_grad: Array | None,
    per_sample_weights_grad: Array | None,
    *,
    mode: str,
    padding_index: int,
    include_last_offset: bool,
) -> None:
    ids, bags = _read("embedding_bag_grad", weight, index, offsets, len(out_grad))
    wide = np.result_type(weight.dtype, np.float32)
    of_weight, of_samples = np.zeros(weight.shape, wide), np.zeros(ids.shape, wide)
    samples = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    for bag, (begin, end) in enumerate(bags):
        kept = begin + np.flatnonzero(ids[begin:end] != padding_index)
        if len(kept) == 0:
            continue
        grad = out_grad[bag].astype(wide)
        if mode == "max":
            winners = ids[kept][weight[ids[kept]].argmax(0)]  # the first of equal maxima
            np.add.at(of_weight, (winners, np.arange(len(grad))), grad)
            continue
        share = np.ones((len(kept), 1), wide) if samples is None else samples[kept, None]
        np.add.at(of_weight, ids[kept], grad * share / (len(kept) if mode == "mean" else 1))
        of_samples[kept] = weight[ids[kept]].astype(wide) @ grad
    if weight_grad is not None:
        weight_grad[...] = of_weight
    if per_sample_weights_grad is not None:
        per_sample_weights_grad[...] = of_samples.reshape(per_sample_weights_grad.shape)


def _read(
    who: str, weight: Array, index: Array, offsets: Array | None, count: int
) -> tuple[Array, list[tuple[int, int]]]:
    """Return the flat ids, and the start and end positions of each bag."""
    check_ids(f"{who}: index", index, len(weight))
    ids = index.reshape(-1)
    if offsets is None:
        length = index.shape[1]
        return ids, [(bag * length, (bag + 1) * length) for bag in range(count)]
    n = len(ids)
    if len(offsets) and offsets[0] != 0:
        raise ValueError(f"{who}: offsets must begin with 0, got {offsets[0]}")
    wrong = (offsets < 0) | (offsets > n) | (np.diff(offsets, prepend=0) < 0)
    if wrong.any():
        raise ValueError(
            f"{who}: offsets must rise from 0 to at most {n}, got {offsets[wrong][0]} at "
            f"{int(np.flatnonzero(wrong)[0])}"
        )
    ends = np.append(offsets, n)
    return ids, [(int(ends[bag]), int(ends[bag + 1])) for bag in range(count)]


def _bag_shape(ctx: InferContext) -> None:
    """The output has a row for each bag."""
    weight, index = ctx.input("weight").shape, ctx.input("index").shape
    ctx.require(len(weight) == 2, f"weight must be [ids, size], got {format_shape(weight)}")
    padding = ctx.attr("padding_index")
    if padding >= weight[0] >= 0:
        ctx.fail(f"padding_index must be in [-1, {weight[0]}), got {padding}")
    if len(index) not in (1, 2):
        ctx.fail(f"index must be [n] or [bags, n], got {format_shape(index)}")
    if ctx.has_input("offsets") != (len(index) == 1):
        ctx.fail(
            "offsets must be given for an index [n] and not for [bags, n], got index "
            f"{format_shape(index)}{' and offsets' if ctx.has_input('offsets') else ' alone'}"
        )
    if ctx.has_input("per_sample_weights"):
        ctx.require_shape("per_sample_weights", index)
        if ctx.attr("mode") != "sum":
            ctx.fail(f"mode must be 'sum' with per_sample_weights, got {ctx.attr('mode')!r}")
    bags = index[0]
    if ctx.has_input("offsets"):
        offsets = ctx.input("offsets").shape
        ctx.require(len(offsets) == 1, f"offsets must be [bags], got {format_shape(offsets)}")
        bags = offsets[0]
        if ctx.attr("include_last_offset"):
            ctx.require(bags != 0, "offsets must have an element with include_last_offset, got 0")
            bags = bags - 1 if bags > 0 else -1
    ctx.set_output("out", (bags, weight[1]))


def _summed(b: BodyContext) -> str:
    """Emit the bags as weighted sums of gathered rows; 16-bit floats are summed in float32."""
    if b.attr("mode") == "max":
        raise GradientError(
            f"{b.type}: with mode='max' it needs a kernel of the device, and it has no second "
            "gradient; use mode='sum'"
        )
    index, dtype = read(b, "index"), dtype_of(b, "weight")
    wide = "float32" if dtype in HALVES else dtype
    padding, last = b.attr("padding_index"), [1] if b.has_input("offsets") else [2]
    inputs = {"weight": b.input("weight"), "index": index.name}
    found = Expression(b, b.emit("embedding", inputs, attrs={"padding_index": padding}))
    rows = found.then("cast", dtype=wide)
    if b.has_input("per_sample_weights"):
        weights = read(b, "per_sample_weights").then("cast", dtype=wide)
        rows = rows * weights.then("unsqueeze", axis=last)
    total = _per_bag(b, rows)
    if b.attr("mode") == "mean":
        is_counted = index.compare("not_equal", padding).then("cast", dtype=wide)
        counted = rows.filled(1.0) * is_counted.then("unsqueeze", axis=last)
        total = total / _per_bag(b, counted).then("clip", min=1.0)
    return total.then("cast", dtype=dtype).name


def _body(b: BodyContext) -> bool:
    """Emit the bags for devices without a kernel; no operator computes maxima of bags."""
    if b.attr("mode") == "max":
        return False
    b.set_output("out", _summed(b))
    return True


def _per_bag(b: BodyContext, rows: Expression) -> Expression:
    """Return the sums of rows over their bags."""
    if not b.has_input("offsets"):
        return rows.then("sum", axis=[1])
    if known_meta(b, "offsets").shape == (0,):  # without bags the result is empty
        return rows.then("slice", axes=[0], starts=[0], ends=[0])
    offsets = read(b, "offsets").then("cast", dtype="int64")
    count = read(b, "index").filled(1).then("cast", dtype="int64").then("cumsum", axis=0)
    inputs = {"x": offsets.name, "values": (count.with_("subtract", count.filled(1))).name}
    # An id belongs to the last bag that begins at or before it.
    found = Expression(b, b.emit("searchsorted", inputs, attrs={"side": "right"}))
    bags = found.with_("subtract", found.filled(1)).then("unsqueeze", axis=[1])
    like = {"x": b.input("weight"), "index": offsets.filled(0).name}
    sums = {"index": bags.name, "updates": rows.name}
    zeros = Expression(b, b.emit("gather", like)).like(rows, "cast_like").filled(0.0)
    out = b.emit("scatter_nd", {"x": zeros.name, **sums}, attrs={"reduction": "add"})
    if not b.attr("include_last_offset"):
        return Expression(b, out)
    return Expression(b, out).then("slice", axes=[0], starts=[0], ends=[-1])


EMBEDDING_BAG = (
    OpMaker("embedding_bag")
    .add_comment(
        "Sums, means or maxima of rows of a table, out[bag] = sum(weight[index[i]] * "
        "per_sample_weights[i]) over the i of a bag, as torch.nn.functional.embedding_bag, "
        "without storing the rows. An index [bags, n] holds a bag in each row; in an index "
        "[n] bag b begins at offsets[b] and ends at the next offset. An empty bag is 0. The "
        "first of equal maxima receives the gradient."
    )
    .add_input("weight", "float [ids, size]")
    .dtypes(*FLOATS)
    .add_input("index", "int32 or int64 [n] or [bags, n], in [0, ids)")
    .dtypes(*INDICES)
    .add_input("offsets", "int32 or int64 [bags], ascending from 0 to at most n")
    .dtypes(*INDICES)
    .as_optional()
    .add_input("per_sample_weights", "shape of index, dtype of weight; for mode 'sum' only")
    .same_dtype_as("weight")
    .as_optional()
    .add_output("out", "[bags, size], dtype of weight")
    .same_dtype_as("weight")
    .add_attr("mode", str, "reduction of the rows of a bag")
    .default("mean")
    .one_of("sum", "mean", "max")
    .add_attr("padding_index", int, "the id that is ignored; -1: none")
    .default(-1)
    .at_least(-1)
    .add_attr("include_last_offset", bool, "whether the last offset is the end of the last bag")
    .default(False)
    .dispatch_on("weight")
    .build(
        infer_shape=_bag_shape,
        gradient=grad_op(
            "embedding_bag_grad",
            needs=["weight", "index", "offsets", "per_sample_weights"],
            body=by_differentiating(_summed),
        ),
        body=_body,
    )
)
