"""sequence_softmax and sequence_conv: operators on padded sequences that ignore the padding."""

from __future__ import annotations

import math

from opwright.op import BodyContext, InferContext, OpMaker, dims_match, format_shape
from opwright_std.numerics.dtypes import FLOATS, INDICES
from opwright_std.numerics.sequences import infer_padded
from opwright_std.operators.sequence import LENGTHS

_FARTHEST = 2**62


def _masked(b: BodyContext, x: str, value: float, out: dict[str, str] | None = None) -> str:
    """Emit x with the padding of each sequence replaced by a value."""
    meta = b.meta(b.inputs("x")[0])
    rank, dtype = (2, "float32") if meta is None else (len(meta.shape), meta.dtype)
    mask = b.emit("sequence_mask", {"lengths": b.inputs("lengths")[0], "like": b.inputs("x")[0]})
    if rank > 2:
        mask = b.emit("unsqueeze", {"x": mask}, attrs={"axis": list(range(2, rank))})
    fill = b.emit("fill", {}, attrs={"shape": [], "value": value, "dtype": dtype})
    return b.emit("where", {"condition": mask, "x": x, "y": fill}, out)


def _softmax_shape(ctx: InferContext) -> None:
    """The output has the shape of x."""
    ctx.set_output("out", infer_padded(ctx))


def _softmax_body(b: BodyContext) -> None:
    held = _masked(b, b.inputs("x")[0], -math.inf)
    # Empty sequences are NaN here, but consist only of padding, which is masked below.
    soft = b.emit("softmax", {"x": held}, attrs={"axis": 1})
    _masked(b, soft, 0.0, {"out": b.outputs("out")[0]})


SEQUENCE_SOFTMAX = (
    OpMaker("sequence_softmax")
    .add_comment(
        "Softmax over the steps of each sequence, out[i, s] = exp(x[i, s]) / sum(exp(x[i, "
        ":lengths[i]])) where s < lengths[i], else 0."
    )
    .add_input("x", "float [n, t, ...]")
    .dtypes(*FLOATS)
    .add_input("lengths", LENGTHS)
    .dtypes(*INDICES)
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .build(infer_shape=_softmax_shape, body=_softmax_body)
)


def _conv_shape(ctx: InferContext) -> None:
    """The output has one feature per column of weight."""
    shape, weight = infer_padded(ctx), ctx.input("weight").shape
    if len(shape) != 3:
        ctx.fail(f"x must have the shape [n, t, d], got {format_shape(shape)}")
    length = ctx.attr("context_length")
    rows = length * shape[2] if shape[2] >= 0 else -1
    if len(weight) != 2 or not dims_match(weight[0], rows):
        wanted = f"[{length} * {shape[2]}, m]"
        ctx.fail(f"weight must have the shape {wanted}, got {format_shape(weight)}")
    if ctx.has_input("bias"):
        bias = ctx.input("bias").shape
        if len(bias) != 1 or not dims_match(bias[0], weight[1]):
            ctx.fail(f"bias must have the shape [{weight[1]}], got {format_shape(bias)}")
    ctx.set_output("out", (*shape[:2], weight[1]))


def _conv_body(b: BodyContext) -> None:
    length, first = b.attr("context_length"), b.attr("context_start")
    first = -(length // 2) if first is None else first
    before, behind = max(0, -first), max(0, first + length - 1)
    held = _masked(b, b.inputs("x")[0], 0.0)
    pads = [0, 0, before, behind, 0, 0]
    padded = b.emit("pad", {"x": held}, attrs={"paddings": pads})
    contexts = []
    for k in range(length):
        # Step s of this context is step s + first + k of x; surplus steps at the end are cut.
        begin, cut = before + first + k, behind - first - k
        ends = [-cut if cut else _FARTHEST]
        attrs = {"axes": [1], "starts": [begin], "ends": ends}
        contexts.append(b.emit("slice", {"x": padded}, attrs=attrs))
    joined = b.emit("concat", {"x": contexts}, attrs={"axis": 2})
    product = b.emit("matmul", {"x": joined, "y": b.inputs("weight")[0]})
    if b.has_input("bias"):
        product = b.emit("add", {"x": product, "y": b.inputs("bias")[0]})
    _masked(b, product, 0.0, {"out": b.outputs("out")[0]})


SEQUENCE_CONV = (
    OpMaker("sequence_conv")
    .add_comment(
        "Convolution over the steps of each sequence: the rows s + context_start to s + "
        "context_start + context_length - 1 of sequence i, zeros outside of it, concatenated into "
        "one row, times weight. In the padding out is 0."
    )
    .add_input("x", "float [n, t, d]")
    .dtypes(*FLOATS)
    .add_input("lengths", LENGTHS)
    .dtypes(*INDICES)
    .add_input("weight", "[context_length * d, m], dtype of x")
    .same_dtype_as("x")
    .add_input("bias", "[m], dtype of x; absent: 0")
    .same_dtype_as("x")
    .as_optional()
    .add_output("out", "[n, t, m], dtype of x")
    .same_dtype_as("x")
    .add_attr("context_length", int, "steps that an output depends on")
    .required()
    .at_least(1)
    .add_attr("context_start", int, "offset of the first of these steps; default -(length // 2)")
    .build(infer_shape=_conv_shape, body=_conv_body)
)
