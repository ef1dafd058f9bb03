"""Converts dtypes and shapes between JAX and opwright."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
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
    if jnp.issubdtype(value.dtype, jax.dtypes.extended):
        raise DtypeError(
            f"{who}: arrays must have an opwright dtype, got {value.dtype}; jax.random.key_data "
            "returns the numbers of a random key"
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


def to_jax(dtype: str) -> Any:
    """Return the JAX dtype for an opwright dtype."""
    return np.dtype(dtype_to_numpy(dtype))


def read_array(value: Any) -> Any:
    """Return the JAX array of an object that has one, such as a parameter of Flax."""
    has_one = hasattr(value, "__jax_array__") and not isinstance(value, jax.Array)
    return value.__jax_array__() if has_one else value


def is_array(value: Any) -> bool:
    """Return whether a value has a dtype of its own."""
    return isinstance(value, (jax.Array, np.ndarray, np.generic))


def is_strong(value: Any) -> bool:
    """Return whether a value determines the dtype of numbers and weakly typed arrays."""
    return is_array(value) and not getattr(value, "weak_type", False)


def promote(array: jax.Array, dtype: str) -> jax.Array:
    """Return a weakly typed array in a dtype, or unchanged if it is of a higher kind.

    For example, a float does not become an integer.
    """
    goal = to_jax(dtype)
    return array.astype(goal) if jnp.result_type(array, goal) == goal else array
