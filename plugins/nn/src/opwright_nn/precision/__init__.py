"""Mixed precision: which operators compute in 16 bits, and which in float32."""

from __future__ import annotations

from opwright_nn.precision.lists import FLOAT32, REDUCED
from opwright_nn.precision.policy import (
    MixedPrecision,
    cast_to,
    check_policy,
    find_policy,
    mixed_precision,
    parameter_dtype,
)

__all__ = [
    "FLOAT32",
    "REDUCED",
    "MixedPrecision",
    "cast_to",
    "check_policy",
    "find_policy",
    "mixed_precision",
    "parameter_dtype",
]
