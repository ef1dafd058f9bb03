"""Attention over cached and new keys and values; it returns the extended cache."""

from __future__ import annotations

from opwright.op import BodyContext, InferContext, OpMaker, format_shape, merge_dims, shapes_match
from opwright_std.operators.scaled_dot_product_attention import add_operands, infer_attention


def _cached_shape(ctx: InferContext) -> None:
    """present_k and present_v are the past followed by k and v; out is as for attention."""
    lengths = {}
    for slot in ("k", "v"):
        past, new = ctx.input(f"past_{slot}").shape, ctx.input(slot).shape
        fits = len(past) == len(new) >= 2
        if not fits or not shapes_match((*past[:-2], past[-1]), (*new[:-2], new[-1])):
            ctx.fail(
                f"past_{slot} must have the shape of {slot} except for axis -2, got "
                f"{format_shape(past)} and {format_shape(new)}"
            )
        total = past[-2] + new[-2] if -1 not in (past[-2], new[-2]) else -1
        lengths[slot] = total
        ctx.set_output(f"present_{slot}", (*map(merge_dims, past[:-2], new[:-2]), total, new[-1]))
    if not shapes_match((lengths["k"],), (lengths["v"],)):
        ctx.fail(
            f"past_k and past_v must have the same length, got {lengths['k']} and {lengths['v']}"
        )
    infer_attention(ctx, keys=lengths["k"])


def _cached_body(b: BodyContext) -> None:
    inputs = {"q": b.input("q")}
    for slot in ("k", "v"):
        parts = {"x": [b.inputs(f"past_{slot}")[0], b.inputs(slot)[0]]}
        name = f"present_{slot}"
        out = {"out": b.output(name)} if b.has_output(name) else None
        inputs[slot] = b.emit("concat", parts, out, {"axis": -2})
    if b.has_input("mask"):
        inputs["mask"] = b.input("mask")
    attrs = {**b.attrs, "from_end": True}
    b.emit("scaled_dot_product_attention", inputs, {"out": b.output("out")}, attrs)


CACHED_ATTENTION = (
    add_operands(
        OpMaker("cached_attention").add_comment(
            "Attention of new queries over cached and new keys and values, as "
            "scaled_dot_product_attention over past_k and k, past_v and v. present_k and "
            "present_v are the concatenations, the past of the next call. The last query is "
            "aligned with the last key for causal and window. As ONNX's Attention with past and "
            "present."
        ),
        has_past=True,
    )
    .add_output("present_k", "past_k and k along axis -2; dtype of q")
    .same_dtype_as("q")
    .as_optional()
    .add_output("present_v", "past_v and v along axis -2; dtype of q")
    .same_dtype_as("q")
    .as_optional()
    .build(infer_shape=_cached_shape, body=_cached_body)
)
