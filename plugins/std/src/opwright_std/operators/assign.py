"""assign: a copy."""

from __future__ import annotations

import numpy as np

from opwright.op import OpMaker, same_shape_as
from opwright_std.compositions.chain_rules import chain_rule
from opwright_std.numerics.dtypes import Array


def assign(x: Array, out: Array) -> None:
    np.copyto(out, x)


ASSIGN = (
    OpMaker("assign")
    .add_comment("Copy, out = x.")
    .add_input("x", "any shape, any dtype")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .build(infer_shape=same_shape_as("x"), gradient=chain_rule(lambda grad, g: grad))
)
