"""Converts results to the array type of the arguments, without a copy if DLPack allows it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from opwright import _runtime
from opwright.describe.dtypes import Array


def as_given(result: Any, like: Any) -> Any:
    """Like `from_numpy_like`, for a `like` with the buffer protocol, such as a JAX array."""
    array = give_to_jax(result, like) if type(result) is np.ndarray else None
    return from_numpy_like(result, like) if array is None else array


def from_numpy_like(result: Any, like: Any) -> Any:
    """Convert results, arrays or tensors, to the array type of ``like``, or to NumPy for None.

    The result is a tensor if ``like`` is a variable of a scope, or its library does not support
    DLPack.
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
    """Return an object with DLPack for a result, since NumPy does not export bfloat16."""
    if isinstance(result, np.ndarray) and result.dtype.kind not in "biuf":
        return _runtime.Tensor.from_numpy(result)
    return result


def _namespace(like: Any) -> Any:
    """Return the module with ``from_dlpack`` in the library of an array."""
    if hasattr(like, "__array_namespace__"):
        return like.__array_namespace__()
    return sys.modules[type(like).__module__.partition(".")[0]]


def give_to_jax(result: Array, like: Any) -> Any:
    """Convert an ndarray, which no other code changes, to a JAX array if `like` is a JAX array.

    ``jax.numpy.from_dlpack`` takes 60 µs, the undocumented function that it calls takes 4. Returns
    None if `like` is an array of another library, or if ``from_dlpack`` might return a different
    result, because the dtype differs from the dtype of `like` (JAX may narrow it), `like` is
    sharded over devices, or JAX lacks the undocumented function.
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
    """Return the JAX function that converts ndarrays to this type, or None for other libraries."""
    if kind.__module__.partition(".")[0] != "jaxlib":
        return None
    return getattr(sys.modules.get("jaxlib.xla_client"), "batched_device_put", None)
