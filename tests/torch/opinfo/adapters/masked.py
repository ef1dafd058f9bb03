"""Adapters for reductions over unmasked elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch

from .arguments import (
    Adapter,
    axes_of,
    axis_of,
    cast,
    dtype_of,
    flat,
    floating,
    name_of,
    ops,
    promoted,
    rank_of,
    shape_of,
    whole,
)
from .ordering import lower_median


def masked(op: str, x: Any, mask: Any, **attrs: Any) -> Any:
    """Call an operator, or its masked variant if there is a mask."""
    if mask is None:
        return getattr(ops, op)(x, **attrs)
    return getattr(ops, f"masked_{op}")(x, ops.expand(mask, shape=shape_of(x)), **attrs)


def same(x: Any) -> Any:
    return x


def over(
    op: str, before: Callable[[Any], Any], keeps: Callable[[Any], str | None] = lambda x: None
) -> Adapter:
    """Return an adapter that reduces over the axes given by `dim`."""

    def apply(
        x: Any,
        dim: Any = None,
        *,
        keepdim: bool = False,
        dtype: torch.dtype | None = None,
        mask: Any = None,
    ) -> Any:
        x = cast(x, name_of(dtype))
        out = masked(op, before(x), mask, axis=axes_of(dim), keepdims=keepdim)
        return cast(out, keeps(x))

    return apply


def spread(op: str) -> Adapter:
    def apply(
        x: Any,
        dim: Any = None,
        unbiased: bool | None = None,
        *,
        correction: Any = None,
        keepdim: bool = False,
        dtype: Any = None,
        mask: Any = None,
    ) -> Any:
        lost = correction if correction is not None else (1 if unbiased is not False else 0)
        attrs = {"axis": axes_of(dim), "keepdims": keepdim, "correction": float(lost)}
        return masked(op, floating(cast(x, name_of(dtype))), mask, **attrs)

    return apply


def norm(
    x: Any,
    ord: float = 2.0,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    x = cast(x, name_of(dtype))
    return masked("norm", x, mask, p=float(ord), axis=axes_of(dim), keepdims=keepdim)


def along(op: str, before: Callable[[Any], Any] = same) -> Adapter:
    """Return an adapter for a function along an axis, such as softmax."""

    def apply(x: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
        x = cast(x, name_of(dtype))
        return cast(masked(op, before(x), mask, axis=dim), dtype_of(x))

    return apply


def softmin(x: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    return masked("softmax", ops.negative(cast(x, name_of(dtype))), mask, axis=dim)


def normalize(
    x: Any,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    x = cast(x, name_of(dtype))
    length = norm(x, ord, dim, keepdim=True, mask=mask)
    x = x if mask is None else ops.where(ops.expand(mask, shape=shape_of(x)), x, 0.0)
    return ops.divide(x, ops.clip(length, min=eps))


def logaddexp(
    x: Any, y: Any, *, dtype: Any = None, input_mask: Any = None, other_mask: Any = None
) -> Any:
    x, y = promoted(cast(x, name_of(dtype)), cast(y, name_of(dtype)))
    if input_mask is None and other_mask is None:
        return ops.logaddexp(x, y)
    seen = [ops.fill(shape=shape_of(x), value=1.0, dtype="bool")] * 2
    for i, mask in enumerate((input_mask, other_mask)):
        if mask is not None:
            seen[i] = ops.expand(mask, shape=shape_of(x))
    both = [ops.stack(pair, axis=0) for pair in ((x, y), seen)]
    return ops.masked_logsumexp(*both, axis=[0])


def position(op: str) -> Adapter:
    def apply(
        x: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
    ) -> Any:
        x = cast(x, name_of(dtype))
        if dim is not None:
            return cast(masked(op, x, mask, axis=dim, keepdims=keepdim), dtype_of(x))
        line = None if mask is None else flat(ops.expand(mask, shape=shape_of(x)))
        index = cast(masked(op, flat(x), line, axis=0), dtype_of(x))
        return ops.reshape(index, shape=[1] * rank_of(x)) if keepdim else index

    return apply


def median(
    x: Any, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    x = cast(x, name_of(dtype))
    x = x if mask is None else ops.where(ops.expand(mask, shape=shape_of(x)), x, math.nan)
    return lower_median(x, axis_of(x, dim), keepdim, True)[0]


ADAPTERS: Final[dict[str, Adapter]] = {
    "masked.amax": over("max", same),
    "masked.amin": over("min", same),
    "masked.argmax": position("argmax"),
    "masked.argmin": position("argmin"),
    "masked.cumprod": along("cumprod", whole),
    "masked.cumsum": along("cumsum", whole),
    "masked.log_softmax": along("log_softmax"),
    "masked.logaddexp": logaddexp,
    "masked.logsumexp": over("logsumexp", floating, dtype_of),
    "masked.mean": over("mean", floating),
    "masked.median": median,
    "masked.norm": norm,
    "masked.normalize": normalize,
    "masked.prod": over("prod", whole),
    "masked.softmax": along("softmax"),
    "masked.softmin": softmin,
    "masked.std": spread("std"),
    "masked.sum": over("sum", whole),
    "masked.var": spread("variance"),
}
