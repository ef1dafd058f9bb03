"""Multi-head attention: projections, attention in each head, and an output projection."""

from __future__ import annotations

from opwright.op import BodyContext, InferContext, OpMaker, dims_match, format_shape
from opwright_std.compositions.expression import Expression, read
from opwright_std.numerics.dtypes import FLOATS

_PARTS = {"q": "query", "k": "key", "v": "value"}


def _columns(ctx: InferContext, weight: str, inputs: int) -> int:
    shape = ctx.input(weight).shape
    if len(shape) != 2 or not dims_match(shape[0], inputs):
        ctx.fail(f"{weight} must be [{inputs}, columns], got {format_shape(shape)}")
    bias = weight.replace("weight", "bias")
    if ctx.has_input(bias):
        ctx.require_shape(bias, (shape[1],))
    return shape[1]


def _attention_shape(ctx: InferContext) -> None:
    """The output has the shape of query, with the columns of out_weight."""
    heads, columns = ctx.attr("num_heads"), {}
    for part, slot in _PARTS.items():
        shape = ctx.input(slot).shape
        ctx.require(len(shape) == 3, f"{slot} must be [n, time, columns], got {len(shape)} axes")
        count = columns[part] = _columns(ctx, f"{part}_weight", shape[2])
        if count >= 0 and count % heads != 0:
            ctx.fail(f"num_heads must divide the {count} columns of {part}_weight, got {heads}")
    query, key, value = (ctx.input(slot).shape for slot in _PARTS.values())
    if not dims_match(columns["q"], columns["k"]):
        ctx.fail(f"k_weight must have {columns['q']} columns as q_weight, got {columns['k']}")
    ctx.require_shape("value", (key[0], key[1], value[2]))
    if not dims_match(query[0], key[0]):
        ctx.fail(f"query and key must have the same n, got {query[0]} and {key[0]}")
    ctx.set_output("out", (query[0], query[1], _columns(ctx, "out_weight", columns["v"])))


def _projected(b: BodyContext, x: Expression, part: str) -> Expression:
    inputs = {"x": x.name, "weight": b.input(f"{part}_weight"), "bias": b.input(f"{part}_bias")}
    return Expression(b, b.emit("fc", inputs, attrs={"num_flatten_dims": 2}))


def _attention_body(b: BodyContext) -> None:
    heads, parts = b.attr("num_heads"), {}
    for part, slot in _PARTS.items():
        projected = _projected(b, read(b, slot), part)
        meta = b.meta(b.input(f"{part}_weight") or "")
        size = -1 if meta is None or meta.shape[1] < 0 else meta.shape[1] // heads
        split = projected.then("reshape", shape=[0, 0, heads, size])
        parts[part] = split.then("transpose", axes=[0, 2, 1, 3]).name
    inputs = {**parts, "mask": b.input("mask")}
    attrs = {"causal": b.attr("causal")}
    seen = Expression(b, b.emit("scaled_dot_product_attention", inputs, attrs=attrs))
    joined = seen.then("transpose", axes=[0, 2, 1, 3]).then("flatten", start_axis=2, stop_axis=3)
    b.set_output("out", _projected(b, joined, "out").name)


def _maker() -> OpMaker:
    maker = OpMaker("multi_head_attention").add_comment(
        "Multi-head attention (Vaswani et al., Attention Is All You Need, 2017): query, key and "
        "value are projected by x @ weight + bias, split into heads of adjacent columns, combined "
        "by scaled_dot_product_attention in each head, and projected to the output. As torch.nn."
        "MultiheadAttention with batch_first, whose weights are transposed."
    )
    maker.add_input("query", "float [n, queries, columns]").dtypes(*FLOATS)
    maker.add_input("key", "[n, keys, columns], dtype of query").same_dtype_as("query")
    maker.add_input("value", "[n, keys, columns], dtype of query").same_dtype_as("query")
    for part, slot in (*_PARTS.items(), ("out", "the heads' columns concatenated")):
        maker.add_input(f"{part}_weight", f"[inputs, outputs], projects {slot}")
        maker.same_dtype_as("query")
    maker.add_input("mask", "bool or dtype of query, broadcasts to [n, heads, queries, keys]")
    maker.dtypes("bool", *FLOATS).as_optional()
    for part in (*_PARTS, "out"):
        maker.add_input(f"{part}_bias", f"[outputs] of {part}_weight; absent counts as 0")
        maker.same_dtype_as("query").as_optional()
    maker.add_output("out", "[n, queries, outputs], dtype of query").same_dtype_as("query")
    maker.add_attr("num_heads", int, "a divisor of the columns of the projections").required()
    maker.at_least(1)
    maker.add_attr("causal", bool, "whether a query attends only to keys up to its own position")
    return maker.default(False).dispatch_on("query")


MULTI_HEAD_ATTENTION = _maker().build(infer_shape=_attention_shape, body=_attention_body)
