"""Kernels that call the NumPy function that has the same name as the operator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opwright_std.names import UFUNCS
from opwright_std.numerics.dtypes import Array


def __getattr__(op_type: str) -> Callable[..., None]:
    if op_type not in UFUNCS:
        raise AttributeError(f"module {__name__!r} has no attribute {op_type!r}")
    function = getattr(np, op_type)

    def kernel(*slots: Array) -> None:
        function(*slots[:-1], out=slots[-1])

    return kernel
