"""Results as arrays of the library whose arrays came in, without a copy where DLPack allows."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from opwright import _runtime
from opwright.device.jax_arrays import give_to_jax


def as_given(result: Any, like: Any) -> Any:
    """As `from_numpy_like`, for a `like` that the buffer protocol lent: JAX's, most of all."""
    given = give_to_jax(result, like) if type(result) is np.ndarray else None
    return from_numpy_like(result, like) if given is None else given


def from_numpy_like(result: Any, like: Any) -> Any:
    """Return results, arrays or tensors, as the kind of array that ``like`` is; None: NumPy.

    That is a tensor for a variable of a scope, and where the library of ``like`` has no DLPack.
    """
    if like is None:
        return result
    if isinstance(result, tuple):
        return tuple(from_numpy_like(item, like) for item in result)
    ours = isinstance(like, (_runtime.Tensor, _runtime.ScopeVariable))
    if ours or not hasattr(like, "__dlpack__"):
        is_tensor = isinstance(result, _runtime.Tensor)
        return result if is_tensor else _runtime.Tensor.from_numpy(result)
    given = None
    if isinstance(result, np.ndarray):
        given = _runtime.give_like(result, like)
        given = give_to_jax(result, like) if given is None else given
    return _namespace(like).from_dlpack(_exported(result)) if given is None else given


def _exported(result: Any) -> Any:
    """What speaks DLPack for a result: NumPy itself does not for bfloat16."""
    if isinstance(result, np.ndarray) and result.dtype.kind not in "biuf":
        return _runtime.Tensor.from_numpy(result)
    return result


def _namespace(like: Any) -> Any:
    """The module of an array's library that has ``from_dlpack``."""
    if hasattr(like, "__array_namespace__"):
        return like.__array_namespace__()
    return sys.modules[type(like).__module__.partition(".")[0]]
