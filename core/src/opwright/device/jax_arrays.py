"""Results as arrays of JAX: ``jax.numpy.from_dlpack`` takes 60 µs, what it calls inside takes 4."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


def give_to_jax(result: NDArray[Any], like: Any) -> Any:
    """Return an ndarray, which nothing else may change, as an array of JAX where `like` is one.

    None for an array of another library, and wherever ``from_dlpack`` might decide otherwise: for
    another dtype than that of `like`, which JAX may narrow, for a `like` that is spread over
    devices, and for a JAX in which the function that is called here, which it does not document,
    has gone.
    """
    put = _find_put(type(like))  # type: ignore[arg-type]  # mypy takes no class for hashable
    if put is None:
        return None
    meta, sharding = like.aval, like.sharding
    device = getattr(sharding, "_device", None)  # of a sharding for one device alone
    if device is None or result.dtype != meta.dtype:
        return None
    if result.shape != meta.shape or meta.weak_type:
        meta = sys.modules["jax"].core.ShapedArray(result.shape, result.dtype)
    return put(meta, sharding, [result], [device], like.committed)


@functools.lru_cache(maxsize=16)
def _find_put(kind: type) -> Callable[..., Any] | None:
    """JAX's way from ndarrays to an array of this type, None for types of other libraries."""
    if kind.__module__.partition(".")[0] != "jaxlib":
        return None
    return getattr(sys.modules.get("jaxlib.xla_client"), "batched_device_put", None)
