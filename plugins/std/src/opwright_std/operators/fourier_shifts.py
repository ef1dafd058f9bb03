"""fftshift and ifftshift: move the frequency 0 to the middle of an axis, and back."""

from __future__ import annotations

from opwright.errors import ShapeError
from opwright.op import BodyContext, GradientContext, InferContext, OpMaker, normalize_axes
from opwright_std.operators.reduction import known_meta


def _shift_shape(ctx: InferContext) -> None:
    """The output has the shape of x."""
    shape = ctx.input("x").shape
    normalize_axes(ctx, ctx.attr("axis"), len(shape))
    ctx.set_output("out", shape)


def _shift_body(b: BodyContext) -> None:
    shape = known_meta(b).shape
    axes = list(b.attr("axis") or range(len(shape)))
    lengths = [shape[axis] for axis in axes]
    if -1 in lengths:
        raise ShapeError(
            f"{b.type}: the shifts depend on the lengths of the axes, got {list(shape)}; declare "
            "them"
        )
    shift = [n // 2 if b.type == "fftshift" else -(n // 2) for n in lengths]
    if not axes:
        b.emit("assign", {"x": b.input("x")}, {"out": b.output("out")})
        return
    b.emit("roll", {"x": b.input("x")}, {"out": b.output("out")}, {"shift": shift, "axis": axes})


def _shift_gradient(g: GradientContext) -> None:
    """The gradient is the inverse shift."""
    other = "ifftshift" if g.type == "fftshift" else "fftshift"
    inputs = {"x": g.output_grad("out")}
    g.set_input_grad("x", g.emit(other, inputs, attrs={"axis": g.attr("axis")}))


def _maker(op_type: str, comment: str) -> OpMaker:
    return (
        OpMaker(op_type)
        .add_comment(
            f"{comment} For pairs of real and imaginary parts, name the axes: the last one is "
            f"that of the parts."
        )
        .add_input("x", "any shape, any dtype")
        .add_output("out", "shape and dtype of x")
        .same_dtype_as("x")
        .add_attr("axis", list[int], "the shifted axes; none given: all")
        .default([])
    )


FFTSHIFT = _maker(
    "fftshift",
    "Move the first element of axes to the middle, n // 2, as numpy.fft.fftshift: the frequency 0 "
    "of a transform.",
).build(infer_shape=_shift_shape, gradient=_shift_gradient, body=_shift_body)

IFFTSHIFT = _maker(
    "ifftshift", "Undo fftshift, as numpy.fft.ifftshift, including axes of odd length."
).build(infer_shape=_shift_shape, gradient=_shift_gradient, body=_shift_body)
