"""increment: advance a counter by a step."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext
from opwright_std.compositions.chain_rules import chain_rule
from opwright_std.numerics.dtypes import NUMBERS, Array
from opwright_std.operators.unary import unary


def increment(x: Array, out: Array, *, step: float) -> None:
    np.add(x, step if x.dtype.kind == "f" else np.array(int(step)).astype(x.dtype), out=out)


def _increment_shape(ctx: InferContext) -> None:
    """The output has the shape of x, whose dtype must represent the step."""
    ctx.require_held("step", ctx.input("x").dtype)
    ctx.set_output("out", ctx.input("x").shape)


INCREMENT = (
    unary("increment", "Counter, out = x + step; integers wrap around.", NUMBERS)
    .add_attr("step", float, "the increment, representable in the dtype")
    .default(1.0)
    .build(infer_shape=_increment_shape, gradient=chain_rule(lambda grad, g: grad))
)
