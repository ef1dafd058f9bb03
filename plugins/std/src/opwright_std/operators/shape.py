"""shape, size and is_empty: properties of a tensor without its elements."""

from __future__ import annotations

from collections.abc import Sequence

from opwright.errors import ShapeError
from opwright.op import BodyContext, InferContext, Meta, OpMaker, no_gradient, numel

_NO_GRADIENT = no_gradient("no element of x is read")


def _known(b: BodyContext) -> Meta:
    meta = b.meta(b.inputs("x")[0])
    if meta is None or -1 in meta.shape:
        raise ShapeError(f"{b.type}: x must have a known shape when a plan is built, got {meta}")
    return meta


def _write(b: BodyContext, values: Sequence[int], shape: Sequence[int], dtype: str) -> None:
    attrs = {"values": [float(value) for value in values], "shape": list(shape), "dtype": dtype}
    b.emit("constant", {}, {"out": b.output("out")}, attrs)


def _shape_body(b: BodyContext) -> None:
    dims = _known(b).shape
    _write(b, dims, [len(dims)], "int64")


def _size_body(b: BodyContext) -> None:
    _write(b, [numel(_known(b).shape)], [], "int64")


def _is_empty_body(b: BodyContext) -> None:
    _write(b, [int(0 in _known(b).shape)], [], "bool")


def _shape_shape(ctx: InferContext) -> None:
    """The output has one element per axis of x."""
    ctx.set_output("out", (len(ctx.input("x").shape),))


def _number_shape(ctx: InferContext) -> None:
    """The output is a scalar."""
    ctx.set_output("out", ())


def _of_shape(op_type: str, comment: str, out: str, dtype: str) -> OpMaker:
    return (
        OpMaker(op_type)
        .add_comment(comment)
        .add_input("x", "any shape, any dtype; only its shape is read")
        .as_shape_only()
        .add_output("out", out)
        .dtypes(dtype)
    )


SHAPE = _of_shape("shape", "The lengths of the axes of x.", "int64 [rank of x]", "int64").build(
    infer_shape=_shape_shape, gradient=_NO_GRADIENT, body=_shape_body
)

SIZE = _of_shape("size", "The number of elements of x.", "int64, a number", "int64").build(
    infer_shape=_number_shape, gradient=_NO_GRADIENT, body=_size_body
)

IS_EMPTY = _of_shape("is_empty", "Whether x has no elements.", "bool, a number", "bool").build(
    infer_shape=_number_shape, gradient=_NO_GRADIENT, body=_is_empty_body
)
