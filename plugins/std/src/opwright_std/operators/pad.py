"""pad: a border around a tensor; negative widths crop it."""

from __future__ import annotations

import numpy as np

from opwright.op import BodyContext, InferContext, OpMaker, grad_op, linear_in
from opwright_std.numerics.dtypes import Array

Ints = tuple[int, ...]


def pad(x: Array, out: Array, *, paddings: Ints, mode: str, value: float) -> None:
    if mode == "constant" or x.ndim == 0:  # np.pad needs an axis
        out.fill(value)
        out[_kept(paddings, out.shape)] = x[_kept(_negated(paddings), x.shape)]
    else:
        borders = [(max(b, 0), max(e, 0)) for b, e in _pairs(paddings)]
        whole = np.pad(x, borders, mode=mode)  # type: ignore[call-overload]
        np.copyto(out, whole[_kept(_negated(paddings), whole.shape)])


def _pairs(paddings: Ints) -> list[tuple[int, int]]:
    return list(zip(paddings[::2], paddings[1::2], strict=True))


def _negated(paddings: Ints) -> Ints:
    return tuple(-width for width in paddings)


def _kept(paddings: Ints, shape: Ints) -> tuple[slice, ...]:
    """Return the slices of the tensor without its borders, ignoring negative widths."""
    pairs = zip(_pairs(paddings), shape, strict=True)
    return tuple(slice(max(b, 0), dim - max(e, 0)) for (b, e), dim in pairs)


def pad_grad(out_grad: Array, x_grad: Array, *, paddings: Ints, mode: str, value: float) -> None:
    if mode != "constant":
        crops = [(max(-b, 0), max(-e, 0)) for b, e in _pairs(paddings)]
        folded = np.pad(out_grad, crops) if paddings else out_grad
        for axis, pair in enumerate(_pairs(paddings)):
            begin, end = (max(width, 0) for width in pair)
            folded = np.moveaxis(_fold(np.moveaxis(folded, axis, 0), begin, end, mode), 0, axis)
        np.copyto(x_grad, folded)
    else:
        pad(out_grad, x_grad, paddings=_negated(paddings), mode=mode, value=0.0)


def _fold(grad: Array, begin: int, end: int, mode: str) -> Array:
    """Remove the axis-0 border from a gradient, and add it to the elements that were copied."""
    stop = len(grad) - end
    center = grad[begin:stop].copy()
    before, after = grad[:begin], grad[stop:]
    if mode == "edge":
        center[:1] += before.sum(axis=0, keepdims=True)
        center[-1:] += after.sum(axis=0, keepdims=True)
    elif mode == "wrap":
        for place in (*range(begin), *range(stop, len(grad))):
            center[(place - begin) % len(center)] += grad[place]
    else:
        center[1 : begin + 1] += before[::-1]
        center[len(center) - 1 - end : len(center) - 1] += after[::-1]
    return center


def _split(b: BodyContext) -> tuple[Ints, Ints] | None:
    """Return the widths of a copied border, and the widths to crop."""
    paddings = b.attr("paddings")
    if b.attr("mode") == "constant" or min(paddings, default=0) >= 0:
        return None
    return tuple(max(width, 0) for width in paddings), tuple(min(w, 0) for w in paddings)


def _body(b: BodyContext) -> bool:
    """Pads with copied borders first, then crops, for kernels that do not crop."""
    if (parts := _split(b)) is None:
        return False
    grown = b.emit("pad", {"x": b.input("x")}, attrs={**b.attrs, "paddings": parts[0]})
    b.emit("pad", {"x": grown}, {"out": b.output("out")}, {"paddings": parts[1]})
    return True


def _grad_body(b: BodyContext) -> bool:
    if (parts := _split(b)) is None:
        return False
    attrs = {"paddings": _negated(parts[1])}
    inputs = {"x": b.input("x"), "out_grad": b.emit("pad", {"x": b.input("out_grad")}, attrs=attrs)}
    attrs = {**b.attrs, "paddings": parts[0]}
    b.emit("pad_grad", inputs, {"x_grad": b.output("x_grad")}, attrs)
    return True


def _pad_shape(ctx: InferContext) -> None:
    """Each axis of out is longer by its two paddings, which may be negative.

    The dtype of out must represent the padding value.
    """
    shape, paddings, mode = ctx.input("x").shape, ctx.attr("paddings"), ctx.attr("mode")
    if len(paddings) != 2 * len(shape):
        ctx.fail(f"paddings must have a begin and an end for each axis, got {list(paddings)}")
    if mode == "constant":
        ctx.require_held("value", ctx.input("x").dtype)
    out = list(shape)
    for axis, pair in enumerate(_pairs(paddings)):
        if shape[axis] == -1 or None in pair:
            out[axis] = -1
            continue
        cropped = -sum(min(width, 0) for width in pair)
        whole = shape[axis] + (0 if mode == "constant" else sum(pair) + cropped)
        if cropped > whole:
            ctx.fail(
                f"paddings must leave at least 0 elements on axis {axis}, got {list(pair)}, which "
                f"crop {cropped} of {whole}"
            )
        # A copied border needs a nonempty axis; a reflected border of width n needs n + 1 elements.
        least = {"constant": 0, "reflect": max(pair) + 1}.get(mode, 1)
        if max(pair) > 0 and shape[axis] < least:
            ctx.fail(f"mode {mode!r} needs {least} elements on axis {axis}, got {shape[axis]}")
        out[axis] = shape[axis] + sum(pair)
    ctx.set_output("out", out)


PAD = (
    OpMaker("pad")
    .add_comment(
        "Pads a tensor with one value, with its reflection without the edge (reflect), with the "
        "outermost element (edge), or with elements from the other end (wrap), as numpy.pad. "
        "Negative widths crop, including the border of the other end."
    )
    .add_input("x", "any shape, any dtype")
    .add_output("out", "shape of x with the border, dtype of x")
    .same_dtype_as("x")
    .add_attr(
        "paddings",
        list[int],
        "widths of the border: begin, end of axis 0, of axis 1, ...; negative ones crop",
    )
    .as_shape_operand()
    .required()
    .add_attr("mode", str, "content of the border")
    .default("constant")
    .one_of("constant", "reflect", "edge", "wrap")
    .add_attr("value", float, "the border's value for mode constant, representable in the dtype")
    .default(0.0)
    .build(
        infer_shape=_pad_shape,
        gradient=grad_op("pad_grad", gradient=linear_in("x", value=0.0), body=_grad_body),
        body=_body,
    )
)
