"""Sampled losses over many classes: only the label and some samples are scored."""

from __future__ import annotations

from opwright.op import BodyContext, InferContext, OpMaker, format_shape, merge_dims
from opwright_std.numerics.dtypes import FLOATS, INDICES


def _sampled_loss_shape(ctx: InferContext) -> None:
    """The output has one loss per row of x."""
    x, weight = ctx.input("x").shape, ctx.input("weight").shape
    if len(x) != 2 or len(weight) != 2:
        pair = f"{format_shape(x)} and {format_shape(weight)}"
        ctx.fail(f"x and weight must be [n, size] and [classes, size], got {pair}")
    ctx.require_shape("weight", (weight[0], x[1]))
    samples = ctx.input("samples").shape
    ctx.require(len(samples) == 1, f"samples must be [s], got {format_shape(samples)}")
    ctx.require_shape("label", (x[0],))
    n = merge_dims(x[0], ctx.input("label").shape[0])
    if ctx.has_input("bias"):
        ctx.require_shape("bias", (weight[0],))
    wanted = {"label_log_probability": n, "samples_log_probability": samples[0]}
    given = [slot for slot in wanted if ctx.has_input(slot)]
    for slot in given:
        ctx.require_shape(slot, (wanted[slot],))
    if len(given) == 1:
        ctx.fail(f"{' and '.join(wanted)} must be given together, got {given[0]} only; pass both")
    ctx.set_output("out", (n,))


def _rows(b: BodyContext, slot: str, ids: str) -> str:
    """Emit the rows of a parameter at ids."""
    return b.emit("embedding", {"weight": b.input(slot), "index": b.input(ids)})


def _column(b: BodyContext, name: str) -> str:
    return b.emit("unsqueeze", {"x": name}, attrs={"axis": [1]})


def _corrected(b: BodyContext, logits: str, ids: str) -> str:
    """Emit logits + bias[ids] - log_probability of the ids, along the last axis."""
    if b.has_input("bias"):
        table = b.emit("unsqueeze", {"x": b.input("bias")}, attrs={"axis": [1]})
        rows = b.emit("embedding", {"weight": table, "index": b.input(ids)})
        bias = b.emit("squeeze", {"x": rows}, attrs={"axis": [1]})
        logits = b.emit("add", {"x": logits, "y": bias})
    if b.has_input(f"{ids}_log_probability"):
        inputs = {"x": logits, "y": b.input(f"{ids}_log_probability")}
        logits = b.emit("subtract", inputs)
    return logits


def _logits(b: BodyContext) -> tuple[str, str]:
    """Emit the logits of the labels, [n], and of the samples, [n, s]."""
    products = b.emit("multiply", {"x": b.input("x"), "y": _rows(b, "weight", "label")})
    true = b.emit("sum", {"x": products}, attrs={"axis": [1]})
    inputs = {"x": b.input("x"), "y": _rows(b, "weight", "samples")}
    sampled = b.emit("matmul", inputs, attrs={"transpose_y": True})
    return _corrected(b, true, "label"), _corrected(b, sampled, "samples")


def _without_hits(b: BodyContext, values: str, instead: float) -> str:
    """Emit the values [n, s], replaced where a sample is the label of the row."""
    if not b.attr("remove_accidental_hits"):
        return values
    is_hit = b.emit("equal", {"x": _column(b, b.input("label") or ""), "y": b.input("samples")})
    other = b.emit("fill_like", {"x": values}, attrs={"value": instead})
    return b.emit("where", {"condition": is_hit, "x": other, "y": values})


def _nce_body(b: BodyContext) -> None:
    true, sampled = _logits(b)
    of_label = b.emit("softplus", {"x": b.emit("negative", {"x": true})})
    each = _without_hits(b, b.emit("softplus", {"x": sampled}), 0.0)
    of_samples = b.emit("sum", {"x": each}, attrs={"axis": [1]})
    b.emit("add", {"x": of_label, "y": of_samples}, {"out": b.output("out")})


def _sampled_softmax_body(b: BodyContext) -> None:
    true, sampled = _logits(b)
    sampled = _without_hits(b, sampled, float("-inf"))
    logits = b.emit("concat", {"x": [_column(b, true), sampled]}, attrs={"axis": 1})
    # The label comes first.
    first = b.emit("fill_like", {"x": b.input("label")})
    inputs = {"logits": logits, "label": first}
    b.emit("softmax_with_cross_entropy", inputs, {"out": b.output("out"), "softmax": 1})


def _maker(op_type: str, comment: str, removes: bool) -> OpMaker:
    maker = OpMaker(op_type).add_comment(comment)
    maker.add_input("x", "float [n, size]").dtypes(*FLOATS)
    maker.add_input("weight", "[classes, size], dtype of x").same_dtype_as("x")
    maker.add_input("label", "int32 or int64 [n], class ids in [0, classes)").dtypes(*INDICES)
    maker.add_input("samples", "[s], the sampled classes, shared by all rows; dtype of label")
    maker.same_dtype_as("label")
    maker.add_input("bias", "[classes]; absent counts as 0").same_dtype_as("x").as_optional()
    for slot, shape in (("label", "[n]"), ("samples", "[s]")):
        text = f"{shape}, log of the expected count of {slot} among the samples; absent:"
        maker.add_input(f"{slot}_log_probability", f"{text} 0").same_dtype_as("x").as_optional()
    maker.add_output("out", "[n], the loss of each row; dtype of x").same_dtype_as("x")
    maker.add_attr("remove_accidental_hits", bool, "whether to ignore samples equal to the label")
    return maker.default(removes)


_LOGITS = (
    "With logits(c) = x @ weight[c] + bias[c] - log_probability of c, for the label and the "
    "samples only, "
)

NCE = _maker(
    "nce",
    "Noise-contrastive estimation. " + _LOGITS + "out = softplus(-logits(label)) + sum over the "
    "samples of softplus(logits(sample)): binary classification of labels against samples. With "
    "all log-probabilities absent it is negative sampling. "
    "Gutmann and Hyvarinen, 2010.",
    False,
).build(infer_shape=_sampled_loss_shape, body=_nce_body)

SAMPLED_SOFTMAX = _maker(
    "sampled_softmax",
    "Softmax cross entropy over the label and the samples. " + _LOGITS + "out = -log_softmax of "
    "all their logits at the label. Jean et al., 2015.",
    True,
).build(infer_shape=_sampled_loss_shape, body=_sampled_softmax_body)
