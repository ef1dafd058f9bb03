"""cast and cast_like: the same values in another dtype."""

from __future__ import annotations

import numpy as np

from opwright.op import OpMaker, same_shape_as
from opwright_std.compositions.chain_rules import chain_rule
from opwright_std.compositions.expression import read
from opwright_std.numerics.dtypes import Array


def cast(x: Array, out: Array, *, dtype: str) -> None:
    cast_like(x, out)


def cast_like(x: Array, out: Array) -> None:
    # NumPy cannot convert between the two 4-bit dtypes.
    wide = x if np.can_cast(x.dtype, out.dtype, "unsafe") else x.astype(np.int8)
    np.copyto(out, wide, casting="unsafe")


CAST = (
    OpMaker("cast")
    .add_comment(
        "The values of x in another dtype, as NumPy's astype: floats are rounded to the nearest "
        "float, or towards zero to an integer; bool is true for nonzero values."
    )
    .add_input("x", "any shape, any dtype")
    .add_output("out", "shape of x, the given dtype")
    .same_dtype_as("dtype")
    .add_attr("dtype", str, "dtype of out")
    .required()
    .as_dtype()
    .build(
        infer_shape=same_shape_as("x"),
        gradient=chain_rule(lambda grad, g: grad.like(read(g, "x"), "cast_like")),
    )
)

CAST_LIKE = (
    OpMaker("cast_like")
    .add_comment("The values of x in the dtype of like, as cast.")
    .add_input("x", "any shape, any dtype")
    .add_input("like", "only its dtype matters")
    .as_shape_only()
    .add_output("out", "shape of x, dtype of like")
    .same_dtype_as("like")
    .build(
        infer_shape=same_shape_as("x"),
        gradient=chain_rule(lambda grad, g: grad.like(read(g, "x"), "cast_like")),
    )
)
