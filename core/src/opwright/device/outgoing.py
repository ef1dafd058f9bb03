"""Converts results to the kind of array of the arguments, without a copy if DLPack allows."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from opwright import _runtime
from opwright.describe.dtypes import Array


def as_given(result: Any, like: Any) -> Any:
    """As `from_numpy_like`, for a `like` lent by the buffer protocol, such as an array of JAX."""
    array = give_to_jax(result, like) if type(result) is np.ndarray else None
    return from_numpy_like(result, like) if array is None else array


def from_numpy_like(result: Any, like: Any) -> Any:
    """Return results, arrays or tensors, as the kind of array that ``like`` is; None: NumPy.

    A tensor if ``like`` is a variable of a scope, or its library has no DLPack.
    """
    if like is None:
        return result
    if isinstance(result, tuple):
        return tuple(from_numpy_like(item, like) for item in result)
    ours = isinstance(like, (_runtime.Tensor, _runtime.ScopeVariable))
    if ours or not hasattr(like, "__dlpack__"):
        is_tensor = isinstance(result, _runtime.Tensor)
        return result if is_tensor else _runtime.Tensor.from_numpy(result)
    array = None
    if isinstance(result, np.ndarray):
        array = _runtime.give_like(result, like)
        array = give_to_jax(result, like) if array is None else array
    return _namespace(like).from_dlpack(_exported(result)) if array is None else array


def _exported(result: Any) -> Any:
    """Return an object with DLPack for a result: NumPy lacks it for bfloat16."""
    if isinstance(result, np.ndarray) and result.dtype.kind not in "biuf":
        return _runtime.Tensor.from_numpy(result)
    return result


def _namespace(like: Any) -> Any:
    """Return the module of an array's library that has ``from_dlpack``."""
    if hasattr(like, "__array_namespace__"):
        return like.__array_namespace__()
    return sys.modules[type(like).__module__.partition(".")[0]]


def give_to_jax(result: Array, like: Any) -> Any:
    """Return an ndarray, which nothing else may change, as an array of JAX if `like` is one.

    ``jax.numpy.from_dlpack`` takes 60 µs, the undocumented function that it calls takes 4. None for
    an array of another library, and if ``from_dlpack`` might return a different result: if the
    dtype differs from `like`'s, as JAX may narrow it, if `like` is sharded over devices, or if
    JAX lacks that function.
    """
    put = _find_put(type(like))  # type: ignore[arg-type]  # mypy takes no class for hashable
    if put is None:
        return None
    meta, sharding = like.aval, like.sharding
    device = getattr(sharding, "_device", None)  # of a sharding for a single device
    if device is None or result.dtype != meta.dtype:
        return None
    if result.shape != meta.shape or meta.weak_type:
        meta = sys.modules["jax"].core.ShapedArray(result.shape, result.dtype)
    return put(meta, sharding, [result], [device], like.committed)


@functools.lru_cache(maxsize=16)
def _find_put(kind: type) -> Callable[..., Any] | None:
    """Return JAX's function from ndarrays to this type of array, None for other libraries."""
    if kind.__module__.partition(".")[0] != "jaxlib":
        return None
    return getattr(sys.modules.get("jaxlib.xla_client"), "batched_device_put", None)
