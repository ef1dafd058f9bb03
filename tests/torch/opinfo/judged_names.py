"""The names of OpInfo that have no adapter, with the reason."""

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
    "special.airy_ai": "a special function of physics",
    "special.*bessel*": "a special function of physics",
    "special.*polynomial*": "a special function of physics",
    "special.i0e": "a special function of physics",
    "special.i1*": "a special function of physics",
    "i0": "a special function of physics",
    "special.zeta": "a special function of physics",
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
    "geqrf": "a format of LAPACK",
    "ormqr": "a format of LAPACK",
    "linalg.householder_product": "a format of LAPACK",
    "linalg.ldl_*": "a format of LAPACK",
    "linalg.lu*": "a format of LAPACK",
    "lu": "a format of LAPACK",
    "lu_*": "a format of LAPACK",
    "equal": "returns a number of Python",
    "allclose": "returns a number of Python",
    "item": "returns a number of Python",
}
"""Patterns of names that are not counted: opwright intentionally has no counterpart."""

LACKING: Final[dict[str, str]] = {
    "svd": "a decomposition of matrices that opwright lacks",
    "qr": "a decomposition of matrices that opwright lacks",
    "linalg.svd": "a decomposition of matrices that opwright lacks",
    "linalg.svdvals": "a decomposition of matrices that opwright lacks",
    "linalg.eigh": "a decomposition of matrices that opwright lacks",
    "linalg.eigvalsh": "a decomposition of matrices that opwright lacks",
    "linalg.qr": "a decomposition of matrices that opwright lacks",
    "linalg.lstsq": "needs a decomposition of matrices",
    "linalg.matrix_rank": "needs a decomposition of matrices",
    "linalg.pinv": "needs a decomposition of matrices",
    "pinverse": "needs a decomposition of matrices",
    "matrix_exp": "no operator for it",
    "frexp": "no operator for it",
    "nextafter": "no operator for it",
    "gcd": "no operator for it",
    "lcm": "no operator for it",
    "igamma": "no operator for it",
    "igammac": "no operator for it",
    "special.erfcx": "no operator for it",
    "special.log_ndtr": "no operator for it",
    "mode": "no operator for it",
    "histogram": "bins with edges of their own",
    "histogramdd": "bins with edges of their own",
    "nonzero_static": "a result filled up to a size",
    "nn.functional.linear_cross_entropy": "a fusion that PyTorch has not documented",
}
"""Names that are counted, and have no counterpart yet."""


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
