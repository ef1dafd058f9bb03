"""Standard operators with a direct ONNX counterpart: rows for the topic ``onnx``.

A row is (first opset, our operator type, our attributes by ONNX attribute). Attributes that a row
omits have no counterpart in ONNX. Inputs and outputs are in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_SAME: Final = {
    "Abs": "abs",
    "Acos": "acos",
    "Acosh": "acosh",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "BitwiseAnd": "bitwise_and",
    "BitwiseNot": "bitwise_not",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Det": "det",
    "Equal": "equal",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "HardSwish": "hard_swish",
    "IsNaN": "isnan",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Log": "log",
    "Mish": "mish",
    "Neg": "negative",
    "NonZero": "nonzero",
    "Not": "logical_not",
    "Reciprocal": "reciprocal",
    "Round": "round",
    "Sigmoid": "sigmoid",
    "Sin": "sin",
    "Sinh": "sinh",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
    "Where": "where",
}

ROWS: Final[Mapping[str, tuple[int, str, Mapping[str, str]]]] = {
    **{name: (1, op_type, {}) for name, op_type in _SAME.items()},
    "Celu": (12, "celu", {"alpha": "alpha"}),
    "Concat": (4, "concat", {"axis": "axis"}),
    "Elu": (6, "elu", {"alpha": "alpha"}),
    "Gelu": (20, "gelu", {"approximate": "approximate"}),
    "HardSigmoid": (6, "hard_sigmoid", {"alpha": "alpha", "beta": "beta"}),
    "LRN": (1, "lrn", {"size": "size", "alpha": "alpha", "beta": "beta", "bias": "bias"}),
    "LeakyRelu": (6, "leaky_relu", {"alpha": "alpha"}),
    "Swish": (24, "swish", {"alpha": "beta"}),
    "ThresholdedRelu": (10, "thresholded_relu", {"alpha": "alpha"}),
}
