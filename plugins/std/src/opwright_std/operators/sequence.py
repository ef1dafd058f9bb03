"""Padded sequences: their mask, reversal, and packing without the padding."""

from __future__ import annotations

from opwright.op import GradientContext, InferContext, OpMaker, grad_op, linear_in, no_gradient
from opwright_std.numerics.dtypes import INDICES, Array
from opwright_std.numerics.lengths import read_lengths
from opwright_std.numerics.sequences import (
    check_vector,
    infer_padded,
    infer_steps,
    valid_steps,
)
from opwright_std.operators.nonzero import Resizable

LENGTHS = "int32 or int64 [n], each in [0, t]"
_MAX_LENGTH = "t, if like is absent"
_LIKE = "[n, t, ...], any dtype, if max_length is absent; only its shape is read"


def sequence_mask(
    lengths: Array, like: Array | None, out: Array, *, max_length: int | None
) -> None:
    out[...] = valid_steps("sequence_mask", lengths, out.shape[1])


def sequence_reverse(x: Array, lengths: Array, out: Array) -> None:
    counts = read_lengths("sequence_reverse: lengths", lengths, x.shape[1], len(x))
    for i, length in enumerate(counts):
        out[i, :length] = x[i, :length][::-1]
        out[i, length:] = x[i, length:]


def sequence_pack(x: Array, lengths: Array, out: Resizable) -> None:
    valid = valid_steps("sequence_pack", lengths, x.shape[1])
    packed = out.resize((int(valid.sum()), *x.shape[2:]))
    packed[...] = x[valid]


def sequence_pack_grad(lengths: Array, out_grad: Array, x_grad: Array) -> None:
    _unpack("sequence_pack_grad", out_grad, lengths, x_grad)


def sequence_unpack(x: Array, lengths: Array, out: Array, *, max_length: int) -> None:
    _unpack("sequence_unpack", x, lengths, out)


def sequence_unpack_grad(
    lengths: Array, out_grad: Array, x_grad: Array, *, max_length: int
) -> None:
    valid = valid_steps("sequence_unpack_grad", lengths, out_grad.shape[1])
    _check_rows("sequence_unpack_grad", len(x_grad), int(valid.sum()))
    x_grad[...] = out_grad[valid]


def _unpack(op_type: str, packed: Array, lengths: Array, padded: Array) -> None:
    valid = valid_steps(op_type, lengths, padded.shape[1])
    _check_rows(op_type, len(packed), int(valid.sum()))
    padded[...] = 0
    padded[valid] = packed


def _check_rows(op_type: str, rows: int, total: int) -> None:
    if rows != total:
        raise ValueError(
            f"{op_type}: lengths must add up to the {rows} rows of the packed sequences, "
            f"got a sum of {total}"
        )


def _mask_shape(ctx: InferContext) -> None:
    """The output has one row per length, and one column per step."""
    ctx.set_output("out", infer_steps(ctx))


SEQUENCE_MASK = (
    OpMaker("sequence_mask")
    .add_comment("Mask of valid steps, out[i, s] = s < lengths[i].")
    .add_input("lengths", LENGTHS)
    .dtypes(*INDICES)
    .add_input("like", _LIKE)
    .as_optional()
    .as_shape_only()
    .add_output("out", "bool [n, t]")
    .dtypes("bool")
    .add_attr("max_length", int, _MAX_LENGTH)
    .at_least(0)
    .build(infer_shape=_mask_shape, gradient=no_gradient("lengths are not continuous"))
)


def _reverse_shape(ctx: InferContext) -> None:
    """The output has the shape of x."""
    ctx.set_output("out", infer_padded(ctx))


def _reverse_gradient(g: GradientContext) -> None:
    inputs = {"x": g.output_grad("out"), "lengths": g.input("lengths")}
    g.set_input_grad("x", g.emit("sequence_reverse", inputs))


SEQUENCE_REVERSE = (
    OpMaker("sequence_reverse")
    .add_comment(
        "Reverses each sequence, out[i, s] = x[i, lengths[i] - 1 - s] where "
        "s < lengths[i], else x[i, s]: the padding is unchanged."
    )
    .add_input("x", "[n, t, ...], any dtype")
    .add_input("lengths", LENGTHS)
    .dtypes(*INDICES)
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .build(infer_shape=_reverse_shape, gradient=_reverse_gradient)
)


def _pack_shape(ctx: InferContext) -> None:
    """The output has one row per valid step; their number depends on the values of lengths."""
    ctx.set_output("out", (-1, *infer_padded(ctx)[2:]))


SEQUENCE_PACK = (
    OpMaker("sequence_pack")
    .add_comment(
        "Concatenates the steps of all sequences without the padding. sequence_unpack is the "
        "inverse."
    )
    .add_input("x", "[n, t, ...], any dtype")
    .add_input("lengths", LENGTHS)
    .dtypes(*INDICES)
    .add_output(
        "out", "[sum of lengths, ...], dtype of x; the number of rows is known after the kernel ran"
    )
    .same_dtype_as("x")
    .dynamic_output()
    .build(
        infer_shape=_pack_shape,
        gradient=grad_op("sequence_pack_grad", needs=["lengths"], gradient=linear_in("x")),
    )
)


def _unpack_shape(ctx: InferContext) -> None:
    """The output has one row per length, one column per step, then the other axes of x."""
    x, lengths = ctx.input("x").shape, ctx.input("lengths").shape
    ctx.require(len(x) > 0, "x must have the shape [sum of lengths, ...], got a scalar")
    check_vector(ctx, lengths)
    n, steps = lengths[0], ctx.attr("max_length")
    if n >= 0 and x[0] > n * steps:
        ctx.fail(f"max_length must leave room for {x[0]} rows in {n} sequences, got {steps}")
    ctx.set_output("out", (n, steps, *x[1:]))


SEQUENCE_UNPACK = (
    OpMaker("sequence_unpack")
    .add_comment(
        "Packed sequences, padded with 0 to equal length. The lengths must add up to the rows of x."
    )
    .add_input("x", "[sum of lengths, ...], any dtype")
    .add_input("lengths", LENGTHS)
    .dtypes(*INDICES)
    .add_output("out", "[n, t, ...], dtype of x")
    .same_dtype_as("x")
    .add_attr("max_length", int, "t")
    .required()
    .at_least(0)
    .build(
        infer_shape=_unpack_shape,
        gradient=grad_op("sequence_unpack_grad", needs=["lengths"], gradient=linear_in("x")),
    )
)
