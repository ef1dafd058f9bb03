"""as_shape: encode computed numbers in the shape of an empty tensor."""

from __future__ import annotations

from opwright.op import INT_DTYPES, InferContext, OpMaker, numel
from opwright_std.numerics.dtypes import Array
from opwright_std.operators.nonzero import Resizable


def as_shape(x: tuple[Array, ...], out: Resizable) -> None:
    numbers = [int(number) for each in x for number in each.flat]
    for number in numbers:
        if abs(number) >= 2**62:
            raise ValueError(f"a number of a shape must be below 2**62 in magnitude, got {number}")
    out.resize((*(dim for n in numbers for dim in (max(n, 0), max(-n, 0))), 0))


def _as_shape_shape(ctx: InferContext) -> None:
    """The output has two axes per number, followed by an axis of length 0."""
    count = sum(numel(meta.shape) for meta in ctx.inputs("x"))
    ctx.require(0 < count <= 31, f"x must have 1 to 31 numbers in total, got {count}")
    ctx.set_output("out", (*[-1] * (2 * count), 0))


AS_SHAPE = (
    OpMaker("std.as_shape")
    .add_comment(
        "An empty tensor whose shape encodes each number n of x as n, 0, or as 0, -n if n is "
        "negative. At shape operands that depend on values, a plan ends and another plan "
        "begins."
    )
    .add_input("x", "integers, at most 31 in total")
    .as_duplicable()
    .dtypes(*INT_DTYPES)
    .add_output("out", "bool, with two axes per number, and one of length 0")
    .dtypes("bool")
    .dynamic_output()
    .build(infer_shape=_as_shape_shape, plan_only=True)
)
