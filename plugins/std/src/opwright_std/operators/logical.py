"""Element-wise logic: nonzero values and NaN are true, as in NumPy; results are bool."""

from __future__ import annotations

from opwright.op import OpMaker, no_gradient, same_shape_as
from opwright_std.operators.comparison import to_bool

LOGICAL_AND = to_bool("logical_and", "True where x and y are both true (nonzero).")
LOGICAL_OR = to_bool("logical_or", "True where x or y is true (nonzero).")
LOGICAL_XOR = to_bool("logical_xor", "True where exactly one of x and y is true (nonzero).")
LOGICAL_NOT = (
    OpMaker("logical_not")
    .add_comment("True where x is false (0).")
    .add_input("x", "any shape, any dtype")
    .add_output("out", "bool of the shape of x")
    .dtypes("bool")
    .build(infer_shape=same_shape_as("x"), gradient=no_gradient("its result is bool"))
)
