"""Power-average pooling: the p-norm of each window that slides over images."""

from __future__ import annotations

from opwright.op import BodyContext, InferContext, OpMaker
from opwright_std.compositions.expression import read
from opwright_std.numerics.dtypes import FLOATS, HALVES
from opwright_std.numerics.windows import add_pool_attrs, axis_names, infer_pooled, set_images
from opwright_std.operators.reduction import known_meta
from opwright_std.operators.statistics import SMALLEST


def _lp_pool_shape(ctx: InferContext) -> None:
    """Each spatial axis of the output has one element per window along it."""
    n, channels, pooled = infer_pooled(ctx)
    set_images(ctx, "out", n, channels, pooled)


def _lp_pool_body(b: BodyContext) -> None:
    p, x, dtype = float(b.attr("p")), read(b, "x"), known_meta(b).dtype
    attrs = {name: b.attr(name) for name in b.attrs if name != "p"}
    if dtype in HALVES:  # the square of 256 is infinite in float16
        wide = x.then("cast", dtype="float32").then(b.type, p=p, **attrs)
        b.set_output("out", wide.then("cast", dtype=dtype).name)
        return
    sizes = x.then("square" if p == 2 else "abs")
    powers = sizes if p in (1, 2) else sizes.then("pow_scalar", exponent=p)
    total = powers.then(f"avg_pool{b.type[-2]}d", divisor=1, **attrs)
    if p == 1:
        b.set_output("out", total.name)
        return
    # A root has no derivative at 0, so a window of zeros is defined to have the gradient 0.
    held = total.then("clip", min=SMALLEST[dtype])
    root = held.then("sqrt") if p == 2 else held.then("pow_scalar", exponent=1 / p)
    b.set_output("out", total.compare("equal", 0.0).choose(total.filled(0.0), root).name)


def _lp_pool_maker(rank: int) -> OpMaker:
    windows = ", ".join("ijk"[:rank])
    maker = OpMaker(f"lp_pool{rank}d").add_comment(
        f"Power-average pooling, out[n, c, {windows}] = sum(abs(x) ** p) ** (1 / p) over window "
        f"{windows} of x[n, c], as ONNX's LpPool; padding counts as 0. The gradient of a window of "
        "zeros is 0."
    )
    names = axis_names(rank)
    maker.add_input("x", f"float images, [n, channels, {names}] or per data_format")
    maker.dtypes(*FLOATS)
    maker.add_output("out", "one element per window, dtype of x").same_dtype_as("x")
    add_pool_attrs(maker, rank)
    return maker.add_attr("p", float, "the exponent").default(2.0).between(1e-3, 1e3)


LP_POOL1D, LP_POOL2D, LP_POOL3D = (
    _lp_pool_maker(rank).build(infer_shape=_lp_pool_shape, body=_lp_pool_body) for rank in (1, 2, 3)
)
