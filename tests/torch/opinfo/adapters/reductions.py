"""Adapters for reductions, cumulative sums along an axis, and sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from .arguments import (
    Adapter,
    UnmappedError,
    as_bool,
    axes_of,
    axis_of,
    cast,
    dtype_of,
    flat,
    floating,
    name_of,
    ops,
    rank_of,
    result_dtype,
    shape_of,
    whole,
)


def reduced(op: str, before: Callable[[Any], Any]) -> Adapter:
    """Return an adapter that reduces over the axes given by `dim`."""

    def apply(
        x: Any,
        dim: Any = None,
        keepdim: bool = False,
        *,
        dtype: torch.dtype | None = None,
        **_: Any,
    ) -> Any:
        x = before(cast(x, name_of(dtype)))
        result = getattr(ops, op)(x, axis=axes_of(dim), keepdims=keepdim)
        return cast(result, name_of(dtype) or dtype_of(x))

    return apply


def truth(op: str) -> Adapter:
    """Return an adapter for `all` or `any`, which returns uint8 for uint8 input."""

    def apply(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        result = getattr(ops, op)(as_bool(x), axis=axes_of(dim), keepdims=keepdim)
        return cast(result, "uint8" if dtype_of(x) == "uint8" else "bool")

    return apply


def extreme(op: str) -> Adapter:
    def apply(x: Any, dim: Any = (), keepdim: bool = False) -> Any:
        return getattr(ops, op)(x, axis=axes_of(dim), keepdims=keepdim)

    return apply


def position(op: str) -> Adapter:
    def apply(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        if dim is not None:
            return cast(getattr(ops, op)(x, axis=dim, keepdims=keepdim), "int64")
        index = cast(getattr(ops, op)(flat(x), axis=0), "int64")
        return ops.reshape(index, shape=[1] * rank_of(x)) if keepdim else index

    return apply


def with_index(op: str) -> Adapter:
    """Return an adapter for `max` or `min` along an axis, which also returns positions."""

    def apply(x: Any, dim: int, keepdim: bool = False) -> Any:
        values = getattr(ops, op)(x, axis=[dim], keepdims=keepdim)
        return values, cast(getattr(ops, f"arg{op}")(x, axis=dim, keepdims=keepdim), "int64")

    return apply


def extreme_of_any(op: str) -> Adapter:
    """Return an adapter that supports all variants of `max` or `min`."""
    along, alone = with_index(op), extreme(op)

    def apply(x: Any, *args: Any, **kwargs: Any) -> Any:
        given = args[0] if args else kwargs.get("other")
        if isinstance(given, torch.Tensor) or hasattr(given, "block"):
            from .pointwise import of_two

            return of_two(f"{op}imum")(x, given)
        return along(x, *args, **kwargs) if args or kwargs else alone(x)

    return apply


def spread(op: str) -> Adapter:
    """Return an adapter for `std` or `var`; `unbiased` can be passed in the position of `dim`."""

    def apply(
        x: Any,
        dim: Any = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
        **_: Any,
    ) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if correction is None:
            correction = 1.0 if unbiased is not False else 0.0
        return getattr(ops, op)(
            x, axis=axes_of(dim), keepdims=keepdim, correction=float(correction)
        )

    return apply


def with_mean(op: str) -> Adapter:
    def apply(x: Any, *args: Any, **kwargs: Any) -> Any:
        dim = args[0] if args else kwargs.get("dim")
        axes = [] if isinstance(dim, bool) else axes_of(dim)
        keepdim = args[2] if len(args) > 2 else kwargs.get("keepdim", False)
        return spread(op)(x, *args, **kwargs), ops.mean(x, axis=axes, keepdims=keepdim)

    return apply


def aminmax(x: Any, *, dim: int | None = None, keepdim: bool = False) -> Any:
    return ops.aminmax(x, axis=axes_of(dim), keepdims=keepdim, returns=["min", "max"])


def logsumexp(x: Any, dim: Any, keepdim: bool = False) -> Any:
    return ops.logsumexp(floating(x), axis=axes_of(dim), keepdims=keepdim)


def cumulative(op: str, before: Callable[[Any], Any]) -> Adapter:
    def apply(x: Any, dim: int, *, dtype: torch.dtype | None = None) -> Any:
        out = getattr(ops, op)(before(cast(x, name_of(dtype))), axis=dim)
        return cast(out, name_of(dtype))

    return apply


def cumulative_extreme(op: str) -> Adapter:
    def apply(x: Any, dim: int) -> Any:
        out, index = getattr(ops, op)(x, axis=dim, returns=["out", "indices"])
        return out, cast(index, "int64")

    return apply


def count_nonzero(x: Any, dim: Any = None) -> Any:
    return cast(ops.count_nonzero(x, axis=axes_of(dim)), "int64")


def trace(x: Any) -> Any:
    return ops.trace(whole(x))


def norm(x: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    if p == "nuc":
        raise UnmappedError("singular values")
    x = cast(x, name_of(dtype))
    order = 2.0 if p in ("fro", None) else float(p)
    return ops.norm(x, axis=axes_of(dim), keepdims=keepdim, p=order)


def vector_norm(
    x: Any,
    ord: Any = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Any:
    return ops.norm(cast(x, name_of(dtype)), axis=axes_of(dim), keepdims=keepdim, p=float(ord))


def matrix_norm(
    x: Any,
    ord: Any = "fro",
    dim: Any = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Any:
    x = cast(x, name_of(dtype))
    rows, columns = (axis_of(x, axis) for axis in dim)
    if ord == "fro":
        return ops.norm(x, axis=[rows, columns], keepdims=keepdim)
    if ord in ("nuc", 2, -2):
        raise UnmappedError("singular values")
    inner, outer = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = ops.sum(ops.abs(x), axis=[inner], keepdims=True)
    result = (ops.max if ord > 0 else ops.min)(sums, axis=[outer], keepdims=True)
    return result if keepdim else ops.squeeze(result, axis=[rows, columns])


def linalg_norm(
    x: Any,
    ord: Any = None,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Any:
    dims = axes_of(dim)
    if ord is None and dim is None:
        return vector_norm(flat(x) if not keepdim else x, 2, None, keepdim, dtype=dtype)
    if len(dims) == 2 or (dim is None and rank_of(x) == 2):
        order = "fro" if ord is None else ord
        return matrix_norm(x, order, dims or (0, 1), keepdim, dtype=dtype)
    return vector_norm(x, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


def renorm(x: Any, p: float, dim: int, maxnorm: float) -> Any:
    axes = [axis for axis in range(rank_of(x)) if axis != axis_of(x, dim)]
    length = ops.norm(x, axis=axes, keepdims=True, p=float(p))
    factor = ops.divide(maxnorm, ops.scale(length, bias=1e-7))
    return ops.multiply(x, ops.where(ops.greater(length, maxnorm), factor, 1.0))


def cov(x: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    x = floating(x)
    x = cast(x, result_dtype(x, *(w for w in (aweights,) if w is not None)))
    if rank_of(x) < 2:
        x = ops.reshape(x, shape=[1, -1])
    n = shape_of(x)[1]
    # PyTorch sums the weights in their own dtype.
    given = [w for w in (fweights, aweights) if w is not None]
    weights = [cast(w, result_dtype(*given)) for w in given]
    if not weights:
        centered = ops.subtract(x, ops.mean(x, axis=[1], keepdims=True))
        product = ops.matmul(centered, centered, transpose_y=True)
        divisor = scalar_like(x, max(n - correction, 0))
    else:
        weight = weights[0] if len(weights) == 1 else ops.multiply(*weights)
        total, wide = ops.sum(weight), cast(weight, dtype_of(x))
        weighted = ops.sum(ops.multiply(x, wide), axis=[1], keepdims=True)
        centered = ops.subtract(x, ops.divide(weighted, cast(total, dtype_of(x))))
        product = ops.matmul(ops.multiply(centered, wide), centered, transpose_y=True)
        lost = scalar_like(total, correction)
        if aweights is not None:
            square = ops.sum(ops.multiply(weight, weights[-1]))
            lost = ops.multiply(ops.divide(square, total), lost)
        divisor = cast(ops.maximum(ops.subtract(total, lost), scalar_like(total, 0)), dtype_of(x))
    out = ops.divide(product, divisor)
    return ops.reshape(out, shape=[]) if shape_of(out) == [1, 1] else out


def scalar_like(x: Any, value: float) -> Any:
    return ops.fill(shape=[], value=value, dtype=dtype_of(x))


def corrcoef(x: Any) -> Any:
    c = cov(x)
    if not rank_of(c):
        return ops.divide(c, c)
    scale = ops.sqrt(ops.diag(c))
    c = ops.divide(c, ops.reshape(scale, shape=[-1, 1]))
    return ops.clip(ops.divide(c, scale), min=-1.0, max=1.0)


def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    if not isinstance(x, torch.Tensor):
        raise UnmappedError("the length depends on values")
    length = max(int(ops.max(x)) + 1 if x.numel() else 0, minlength)
    given = {} if weights is None else {"weights": cast(weights, "float64")}
    out = ops.bincount(cast(x, "int64"), length=length, **given)
    if weights is not None and dtype_of(weights) == "float32":
        return cast(out, "float32")
    return out if weights is not None else cast(out, "int64")


def histc(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    if min == max:
        if not isinstance(x, torch.Tensor):
            raise UnmappedError("the range depends on values")
        min, max = (float(ops.min(x)), float(ops.max(x))) if x.numel() else (0.0, 1.0)
        if min == max:
            min, max = min - 1, max + 1
    return cast(ops.histogram(x, bins=bins, min=float(min), max=float(max)), dtype_of(x))


ADAPTERS: Final[dict[str, Adapter]] = {
    "all": truth("all"),
    "amax": extreme("max"),
    "amin": extreme("min"),
    "aminmax": aminmax,
    "any": truth("any"),
    "argmax": position("argmax"),
    "argmin": position("argmin"),
    "bincount": bincount,
    "corrcoef": corrcoef,
    "count_nonzero": count_nonzero,
    "cov": cov,
    "cummax": cumulative_extreme("cummax"),
    "cummin": cumulative_extreme("cummin"),
    "cumprod": cumulative("cumprod", whole),
    "cumsum": cumulative("cumsum", whole),
    "histc": histc,
    "linalg.matrix_norm": matrix_norm,
    "linalg.norm": linalg_norm,
    "linalg.vector_norm": vector_norm,
    "logcumsumexp": lambda x, dim: ops.logcumsumexp(x, axis=dim),
    "logsumexp": logsumexp,
    "max": extreme_of_any("max"),
    "mean": reduced("mean", lambda x: x),
    "min": extreme_of_any("min"),
    "nanmean": reduced("nanmean", lambda x: x),
    "nansum": reduced("nansum", whole),
    "norm": norm,
    "prod": reduced("prod", whole),
    "renorm": renorm,
    "std": spread("std"),
    "std_mean": with_mean("std"),
    "sum": reduced("sum", whole),
    "trace": trace,
    "var": spread("variance"),
    "var_mean": with_mean("variance"),
}
