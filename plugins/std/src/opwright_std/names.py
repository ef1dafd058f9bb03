"""Groups of operator names, without any dependency on other modules."""

from __future__ import annotations

from typing import Final

OPTIMIZERS: Final = (
    *("sgd", "momentum", "lion", "adam", "adamw", "adamax", "nadam", "radam"),
    *("adagrad", "adadelta", "rmsprop", "proximal_gd", "proximal_adagrad", "ftrl"),
)
"""Updates of one parameter; ``std.multi_<type>`` updates several."""

CURVES: Final = ("sigmoid", "hard_sigmoid")
"""Functions whose product with their input is an activation."""

SCALED_CURVES: Final = ("erf", "tanh", "relu6")
"""As `CURVES`, but with constant factors in the product."""

ROOTS: Final = ("sqrt", "rsqrt", "pow_scalar")
"""Operators that compute the root of a moment; pow_scalar only with the exponent of a root."""

UFUNCS: Final = frozenset(
    (
        *(
            "abs",
            "negative",
            "sign",
            "square",
            "reciprocal",
            "sqrt",
            "exp",
            "expm1",
            "log",
            "log1p",
            "log2",
        ),
        *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh"),
        *("add", "subtract", "multiply", "divide", "power", "maximum", "minimum"),
        *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
        *("logical_and", "logical_or", "logical_xor", "logical_not"),
        *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"),
        *("left_shift", "right_shift", "copysign", "isnan", "isinf", "isfinite"),
    )
)
"""Operators whose NumPy kernel is the function of this name in NumPy."""
