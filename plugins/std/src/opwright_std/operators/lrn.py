"""Local response normalization: channels divided by a power of their neighborhood."""

from __future__ import annotations

from opwright.op import BodyContext, InferContext, OpMaker, format_shape
from opwright_std.numerics.dtypes import FLOATS


def _lrn_shape(ctx: InferContext) -> None:
    """The output has the shape of x."""
    shape = ctx.input("x").shape
    if len(shape) < 2 or 0 in shape[1:]:
        ctx.fail(
            "x must be [n, channels, ...] with at least one element each, got "
            f"{format_shape(shape)}"
        )
    ctx.set_output("out", shape)


def _lrn_body(b: BodyContext) -> None:
    x, size = b.input("x"), b.attr("size")
    meta = b.meta(b.inputs("x")[0])
    rank = 2 if meta is None else len(meta.shape)
    # The mean over adjacent channels is average pooling of images with one row per channel.
    square = b.emit("square", {"x": x})
    rows = b.emit("unsqueeze", {"x": square}, attrs={"axis": [1, 3] if rank == 2 else [1]})
    if rank > 3:
        rows = b.emit("flatten", {"x": rows}, attrs={"start_axis": 3})
    before = (size - 1) // 2
    window = {
        "kernel": [size, 1],
        "strides": [1, 1],
        "paddings": [before, size - 1 - before, 0, 0],
        "count_include_pad": True,
    }
    mean = b.emit("avg_pool2d", {"x": rows}, attrs=window)
    power = b.emit("reshape_like", {"x": mean, "like": x})
    scaled = b.emit("scale", {"x": power}, attrs={"scale": b.attr("alpha"), "bias": b.attr("bias")})
    exponent = b.emit(
        "scale", {"x": b.emit("log", {"x": scaled})}, attrs={"scale": -b.attr("beta")}
    )
    factor = b.emit("exp", {"x": exponent})
    b.emit("multiply", {"x": x, "y": factor}, {"out": b.output("out")})


def _lrn_maker() -> OpMaker:
    maker = OpMaker("lrn").add_comment(
        "Local response normalization (Krizhevsky et al. 2012) as in ONNX, out = x / (bias + alpha "
        "/ size * the sum of x ** 2 over `size` adjacent channels) ** beta, (size - 1) // 2 of "
        "them before each channel; missing channels count as 0."
    )
    maker.add_input("x", "float, [n, channels, ...]").dtypes(*FLOATS)
    maker.add_output("out", "shape and dtype of x").same_dtype_as("x")
    maker.add_attr("size", int, "neighboring channels").required().between(1, 2**20)
    maker.add_attr("alpha", float, "factor of the mean of squares").default(1e-4)
    maker.add_attr("beta", float, "exponent").default(0.75)
    return maker.add_attr("bias", float, "added to the mean").default(1.0)


LRN = _lrn_maker().build(infer_shape=_lrn_shape, body=_lrn_body)
