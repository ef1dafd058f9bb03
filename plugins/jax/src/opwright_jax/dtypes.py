"""Converts dtypes and shapes between JAX and opwright."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import jax
import numpy as np

from opwright.errors import DtypeError, ShapeError
from opwright.op import Meta, canonical_dtype, dtype_to_numpy

NARROW: Final = {"int64": "int32", "uint64": "uint32", "float64": "float32"}


def is_wide() -> bool:
    """Return whether 64-bit types are currently enabled in JAX."""
    return bool(jax.config.jax_enable_x64)


def meta_of(who: str, value: Any) -> Meta:
    """Return the meta of an array or abstract value; errors begin with `who`."""
    if not all(isinstance(dim, int) for dim in value.shape):
        raise ShapeError(
            f"{who}: arrays must have shapes of numbers, got {value.shape}; export for fixed shapes"
        )
    try:
        return Meta(tuple(value.shape), canonical_dtype(value.dtype))
    except (DtypeError, TypeError, ValueError) as error:
        raise DtypeError(
            f"{who}: arrays must have an opwright dtype, got {value.dtype}; cast it"
        ) from error


def metas_of(who: str, values: Sequence[Any]) -> tuple[Meta, ...]:
    """Return the metas of arrays or abstract values."""
    return tuple([meta_of(who, value) for value in values])


def narrow(dtype: str) -> Any:
    """Return the JAX dtype for an opwright dtype, with 32 bits instead of 64."""
    return to_jax(NARROW.get(dtype, dtype))


def to_jax(dtype: str) -> Any:
    """Return the JAX dtype for an opwright dtype."""
    return np.dtype(dtype_to_numpy(dtype))
