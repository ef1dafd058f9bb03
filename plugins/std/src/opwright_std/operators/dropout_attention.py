"""Attention with dropout of the weights in training."""

from __future__ import annotations

from opwright.op import BodyContext, OpMaker
from opwright_std.compositions.attention import attention
from opwright_std.operators.random import add_seed
from opwright_std.operators.scaled_dot_product_attention import add_operands, infer_attention


def _dropout_attention_body(b: BodyContext) -> None:
    if b.attr("training") and b.attr("probability") > 0:
        b.set_output("out", attention(b, float(b.attr("probability"))))
        return
    inputs = {slot: b.input(slot) for slot in ("q", "k", "v", "mask")}
    names = ("causal", "scale", "softcap", "window", "from_end")
    attrs = {name: b.attr(name) for name in names if b.attr(name) is not None}
    b.emit("scaled_dot_product_attention", inputs, {"out": b.output("out")}, attrs)


DROPOUT_ATTENTION = add_seed(
    add_operands(
        OpMaker("dropout_attention").add_comment(
            "Attention with dropout, out = dropout(w) @ v, with w the softmax weights of "
            "scaled_dot_product_attention: in training each weight is dropped with the given "
            "probability, and the other weights are divided by 1 - probability. Otherwise it is "
            "scaled_dot_product_attention, which documents mask and heads."
        )
    )
    .add_attr("probability", float, "probability of dropping a weight")
    .default(0.0)
    .between(0.0, 1.0)
    .add_attr("training", bool, "whether to drop weights")
    .default(False)
).build(infer_shape=infer_attention, body=_dropout_attention_body, random=True)
