"""The names in OpInfo without an adapter, with the reasons."""

from __future__ import annotations

from fnmatch import fnmatch
from typing import Any, Final

from adapters import ADAPTERS

LEFT_OUT: Final[dict[str, str]] = {
    "_*": "private",
    "torch.*": "private",
    "native_dropout_backward": "private",
    "max_pool2d_with_indices_backward": "private",
    "hash_tensor": "private",
    "cdouble": "complex numbers",
    "cfloat": "complex numbers",
    "chalf": "complex numbers",
    "complex": "complex numbers",
    "polar": "complex numbers",
    "imag": "complex numbers",
    "view_as_*": "complex numbers",
    "fft.*": "complex numbers",
    "stft": "complex numbers",
    "istft": "complex numbers",
    "linalg.eig": "complex numbers",
    "linalg.eigvals": "complex numbers",
    "sparse.*": "sparse tensors",
    "to_sparse": "sparse tensors",
    "jiterator_*": "CUDA source",
    "empty*": "uninitialized values",
    "new_empty*": "uninitialized values",
    "resize_*": "changes its input",
    "special.airy_ai": "a special function used in physics",
    "special.*bessel*": "a special function used in physics",
    "special.*polynomial*": "a special function used in physics",
    "special.i0e": "a special function used in physics",
    "special.i1*": "a special function used in physics",
    "i0": "a special function used in physics",
    "special.zeta": "a special function used in physics",
    "bernoulli": "random numbers",
    "cauchy": "random numbers",
    "exponential": "random numbers",
    "geometric": "random numbers",
    "log_normal": "random numbers",
    "multinomial": "random numbers",
    "normal": "random numbers",
    "rand*": "random numbers",
    "uniform": "random numbers",
    "nn.functional.*dropout*": "random numbers",
    "nn.functional.fractional_*": "random numbers",
    "*_lowrank": "random numbers",
    "geqrf": "a LAPACK format",
    "ormqr": "a LAPACK format",
    "linalg.householder_product": "a LAPACK format",
    "linalg.ldl_*": "a LAPACK format",
    "linalg.lu*": "a LAPACK format",
    "lu": "a LAPACK format",
    "lu_*": "a LAPACK format",
    "equal": "returns a Python number",
    "allclose": "returns a Python number",
    "item": "returns a Python number",
}
"""Patterns of names that are not counted, since opwright intentionally lacks counterparts."""

LACKING: Final[dict[str, str]] = {
    "svd": "a matrix decomposition that opwright lacks",
    "qr": "a matrix decomposition that opwright lacks",
    "linalg.svd": "a matrix decomposition that opwright lacks",
    "linalg.svdvals": "a matrix decomposition that opwright lacks",
    "linalg.eigh": "a matrix decomposition that opwright lacks",
    "linalg.eigvalsh": "a matrix decomposition that opwright lacks",
    "linalg.qr": "a matrix decomposition that opwright lacks",
    "linalg.lstsq": "needs a matrix decomposition",
    "linalg.matrix_rank": "needs a matrix decomposition",
    "linalg.pinv": "needs a matrix decomposition",
    "pinverse": "needs a matrix decomposition",
    "matrix_exp": "no such operator",
    "frexp": "no such operator",
    "nextafter": "no such operator",
    "gcd": "no such operator",
    "lcm": "no such operator",
    "igamma": "no such operator",
    "igammac": "no such operator",
    "special.erfcx": "no such operator",
    "special.log_ndtr": "no such operator",
    "mode": "no such operator",
    "histogram": "bins with given edges",
    "histogramdd": "bins with given edges",
    "nonzero_static": "a result padded to a given size",
    "nn.functional.linear_cross_entropy": "a fusion that is undocumented in PyTorch",
}
"""Names that are counted, although opwright still lacks counterparts."""


def reason_of(name: str) -> str | None:
    """Return why a name has no adapter, or None if an adapter exists."""
    if name in ADAPTERS:
        return None
    reasons = [why for pattern, why in {**LEFT_OUT, **LACKING}.items() if fnmatch(name, pattern)]
    return reasons[0]


def is_counted(name: str) -> bool:
    return name in ADAPTERS or not any(fnmatch(name, pattern) for pattern in LEFT_OUT)


def entries() -> list[Any]:
    """Return all entries of OpInfo, by name."""
    from torch.testing._internal.common_methods_invocations import op_db

    return sorted(op_db, key=lambda entry: (entry.name, entry.variant_test_name))
