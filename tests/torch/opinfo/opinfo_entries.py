"""PyTorch's OpInfo list of operators with samples, except operators that plans cannot contain."""

from __future__ import annotations

from fnmatch import fnmatch
from typing import Any, Final

EXCLUDED: Final[dict[str, str]] = {
    "torch.ops.aten.*": "private",
    "_*": "private",
    "native_*": "private",
    "ops.*": "private",
    "sparse.*": "sparse tensors",
    "masked.*": "a prototype of PyTorch's that is written in Python over masked tensors",
    "*jiterator*": "CUDA source",
    "fft.*": "complex numbers",
    "view_as_complex": "complex numbers",
    "view_as_real": "complex numbers",
    "complex": "complex numbers",
    "polar": "complex numbers",
    "cfloat": "complex numbers",
    "cdouble": "complex numbers",
    "chalf": "complex numbers",
    "stft": "complex numbers",
    "istft": "complex numbers",
    "linalg.eig": "complex numbers",
    "linalg.eigvals": "complex numbers",
    "geqrf": "LAPACK's own format",
    "ormqr": "LAPACK's own format",
    "linalg.householder_product": "LAPACK's own format",
    "lu_*": "LAPACK's own format",
    "resize_*": "changes its input",
    "item": "returns a number",
    "equal": "returns a number",
    "allclose": "returns a number",
    "is_*": "returns a number",
    "to_sparse": "sparse tensors",
    "empty*": "uninitialized values",
    "new_empty*": "uninitialized values",
    "nn.functional.linear_cross_entropy*": "Python that asks whether its arguments need gradients",
}
"""Patterns of excluded names, with the reasons."""

UNDETERMINED: Final = {"argsort": 0, "kthvalue": 1, "sort": 1, "topk": 1}
"""The position of the output with indices, which are arbitrary among equal elements."""


def excluded(entry: Any) -> str | None:
    """Return why an entry is excluded, or None."""
    return next(
        (reason for pattern, reason in EXCLUDED.items() if fnmatch(entry.name, pattern)), None
    )


def full_name(entry: Any) -> str:
    """Return the name of an entry with its variant, such as ``std_mean.unbiased``."""
    name, variant = str(entry.name), str(entry.variant_test_name)
    return f"{name}.{variant}" if variant else name


def entries(patterns: tuple[str, ...] = ("*",)) -> list[Any]:
    """Return the entries whose names match one of the patterns, sorted by name."""
    from torch.testing._internal.common_methods_invocations import op_db

    kept = [
        entry
        for entry in op_db
        if excluded(entry) is None
        and any(fnmatch(full_name(entry), pattern) or entry.name == pattern for pattern in patterns)
    ]
    return sorted(kept, key=full_name)
