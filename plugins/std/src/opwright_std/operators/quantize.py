"""quantize and dequantize: scaled floats as small integers or 8-bit floats, and back.

Both match the ONNX operators QuantizeLinear and DequantizeLinear: one scale per tensor, per index
of an axis, or per block of an axis.
"""

from __future__ import annotations

from collections.abc import Sequence

from opwright.errors import GradientError
from opwright.op import (
    BodyContext,
    InferContext,
    OpMaker,
    by_differentiating,
    grad_op,
    no_gradient,
    normalize_axis,
    shapes_match,
)
from opwright_std.numerics.dtypes import FLOATS, HALVES
from opwright_std.operators.reduction import known_meta

_FARTHEST = 2**62

BOUNDS = {
    "int4": (-8, 7),
    "uint4": (0, 15),
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int16": (-32768, 32767),
    "uint16": (0, 65535),
    "float8_e4m3fn": (-448, 448),
    "float8_e5m2": (-57344, 57344),
}
"""The quantized dtypes and their ranges."""

SCALE = "float [], [n] with one scale per index of axis, or the shape of x with one scale per block"


def _scale_shape(ctx: InferContext) -> Sequence[int]:
    """Return the required shape of scale for x, by the rank of scale."""
    shape, n_dims = ctx.input("x").shape, len(ctx.input("scale").shape)
    block = ctx.attr("block_size")
    if n_dims == 0 and block == 0:
        return ()
    axis = normalize_axis(ctx, ctx.attr("axis"), len(shape))
    if block == 0:
        return (shape[axis],)
    n_blocks = -1 if shape[axis] < 0 else -(-shape[axis] // block)
    return (*shape[:axis], n_blocks, *shape[axis + 1 :])


def _quantized_shape(ctx: InferContext) -> None:
    """The output has the shape of x; scale and zero_point are checked against it."""
    wanted = _scale_shape(ctx)
    for slot in ("scale", "zero_point"):
        if ctx.has_input(slot) and not shapes_match(ctx.input(slot).shape, wanted):
            ctx.fail(f"{slot} must have the shape {tuple(wanted)}, got {ctx.input(slot).shape}")
    ctx.set_output("out", ctx.input("x").shape)


def _beside_x(b: BodyContext, name: str) -> str:
    """Emit a scale or zero point in a shape that broadcasts with x."""
    shape, block = known_meta(b).shape, b.attr("block_size")
    n_dims = len(known_meta(b, "scale").shape)
    if n_dims == 0:
        return name
    axis = b.attr("axis") % len(shape)
    if block == 0:
        behind = list(range(1, len(shape) - axis))
        return b.emit("unsqueeze", {"x": name}, attrs={"axis": behind}) if behind else name
    lifted = b.emit("unsqueeze", {"x": name}, attrs={"axis": [axis + 1]})
    repeats = [block if i == axis + 1 else 1 for i in range(n_dims + 1)]
    tiled = b.emit("tile", {"x": lifted}, attrs={"repeats": repeats})
    spread = list(shape)
    spread[axis] = -1
    if spread.count(-1) > 1:
        raise GradientError(
            f"{b.type}: with block_size all dimensions of x except along axis must be known, got "
            f"{shape}; declare them"
        )
    merged = b.emit("reshape", {"x": tiled}, attrs={"shape": spread})
    ends = {"axes": [axis], "starts": [0], "ends": [shape[axis] if shape[axis] >= 0 else _FARTHEST]}
    return b.emit("slice", {"x": merged}, attrs=ends)


def _cast(b: BodyContext, name: str, dtype: str) -> str:
    return b.emit("cast", {"x": name}, attrs={"dtype": dtype})


def _quantize_body(b: BodyContext) -> None:
    x, scale, dtype = b.input("x") or "", b.input("scale") or "", b.attr("dtype")
    zero = b.emit("fill_like", {"x": scale})
    is_positive = b.emit("greater", {"x": scale, "y": zero})
    attrs = {"message": "scale must be greater than 0"}
    b.emit_multi("assert_true", {"condition": is_positive}, attrs=attrs)
    compute = known_meta(b).dtype
    if compute in HALVES:  # which cannot represent the sum of a 16-bit code and its zero point
        compute = "float32"
        x, scale = _cast(b, x, compute), _cast(b, scale, compute)
    codes = b.emit("divide", {"x": x, "y": _beside_x(b, scale)})
    if not dtype.startswith("float8"):
        codes = b.emit("round", {"x": codes})
    zero_point = b.input("zero_point")
    if zero_point is not None:
        offset = _beside_x(b, _cast(b, zero_point, compute))
        codes = b.emit("add", {"x": codes, "y": offset})
    least, most = BOUNDS[dtype]
    held = b.emit("clip", {"x": codes}, attrs={"min": float(least), "max": float(most)})
    b.emit("cast", {"x": held}, {"out": b.output("out")}, {"dtype": dtype})


def _dequantized(b: BodyContext) -> str:
    scale = b.input("scale") or ""
    dtype = known_meta(b, "scale").dtype
    compute = "float32" if dtype in HALVES else dtype
    if compute != dtype:
        scale = _cast(b, scale, compute)
    values = _cast(b, b.input("x") or "", compute)
    zero_point = b.input("zero_point")
    if zero_point is not None:
        offset = _beside_x(b, _cast(b, zero_point, compute))
        values = b.emit("subtract", {"x": values, "y": offset})
    scaled = b.emit("multiply", {"x": values, "y": _beside_x(b, scale)})
    return scaled if compute == dtype else _cast(b, scaled, dtype)


def _maker(type: str, comment: str, x: str) -> OpMaker:
    return OpMaker(type).add_comment(comment).add_input("x", x)


def _add_attrs(maker: OpMaker) -> OpMaker:
    return (
        maker.add_attr("axis", int, "axis of the scales")
        .default(-1)
        .add_attr("block_size", int, "elements of axis that share a scale; 0: no blocks")
        .default(0)
        .at_least(0)
    )


QUANTIZE = _add_attrs(
    _maker(
        "quantize",
        "Floats as codes, out = round(x / scale) + zero_point, clamped to the range of dtype. "
        "Ties round to even; for the 8-bit floats, which have no zero point, x / scale is rounded "
        "to the nearest float. Every scale must be positive.",
        "float, any shape",
    )
    .dtypes(*FLOATS)
    .add_input("scale", SCALE)
    .same_dtype_as("x")
    .add_input("zero_point", "the code of 0, shape of scale; absent: 0")
    .as_optional()
    .same_dtype_as("dtype")
    .add_output("out", "shape of x")
    .same_dtype_as("dtype")
    .add_attr("dtype", str, "dtype of out")
    .required()
    .as_dtype(*BOUNDS)
).build(
    infer_shape=_quantized_shape,
    body=_quantize_body,
    gradient=no_gradient("its result is codes, which are not continuous"),
)

DEQUANTIZE = _add_attrs(
    _maker("dequantize", "Codes as floats, out = (x - zero_point) * scale.", "codes, any shape")
    .dtypes(*BOUNDS)
    .add_input("scale", SCALE)
    .dtypes(*FLOATS)
    .add_input("zero_point", "the code of 0, shape of scale; absent: 0")
    .as_optional()
    .same_dtype_as("x")
    .add_output("out", "shape of x, dtype of scale")
    .same_dtype_as("scale")
).build(
    infer_shape=_quantized_shape,
    body=lambda b: b.set_output("out", _dequantized(b)),
    gradient=grad_op(
        "dequantize_grad",
        needs=["x", "scale", "zero_point"],
        no_grad=["x", "zero_point"],
        body=by_differentiating(_dequantized),
    ),
)
