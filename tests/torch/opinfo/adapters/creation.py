"""Adapters for operators that create tensors from numbers alone."""

from __future__ import annotations

from typing import Any, Final

import torch

from .arguments import FLOATS, Adapter, as_value, cast, dtype_of, name_of, ops, shape_of, sizes_of


def named(dtype: torch.dtype | None, like: Any = None) -> str:
    return name_of(dtype) or (dtype_of(like) if like is not None else "float32")


def arange(*args: Any, dtype: torch.dtype | None = None, **kwargs: Any) -> Any:
    numbers = {"start": 0, "step": 1, **{k: v for k, v in kwargs.items() if k in PLACES}}
    names = ("end",) if len(args) == 1 and "end" not in kwargs else PLACES
    numbers.update(zip(names, args))
    is_whole = all(isinstance(number, int) for number in numbers.values())
    chosen = name_of(dtype) or ("int64" if is_whole else "float32")
    # For int64, PyTorch truncates the arguments to integers before it computes the length.
    start, stop, step = (
        float(int(numbers[place]) if chosen == "int64" else numbers[place])
        for place in ("start", "end", "step")
    )
    return ops.arange(start=start, stop=stop, step=step, dtype=chosen)


PLACES: Final = ("start", "end", "step")


def eye(n: int, m: int | None = None, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    return ops.eye(n_rows=n, n_cols=n if m is None else m, dtype=named(dtype))


def full(size: Any, fill_value: Any, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    default = {bool: "bool", int: "int64"}.get(type(fill_value), "float32")
    chosen = name_of(dtype) or default
    return ops.fill(shape=sizes_of(size), value=as_value(fill_value, chosen), dtype=chosen)


def constant(value: float) -> Adapter:
    """Return the adapter for `ones` or `zeros`."""

    def apply(*size: Any, dtype: torch.dtype | None = None, **_: Any) -> Any:
        return ops.fill(shape=sizes_of(*size), value=value, dtype=named(dtype))

    return apply


def constant_like(value: float) -> Adapter:
    def apply(x: Any, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
        return ops.fill(shape=shape_of(x), value=value, dtype=named(dtype, x))

    return apply


def constant_of_size(value: float) -> Adapter:
    """Return the adapter for `new_ones` or `new_zeros`, which take the dtype of a tensor."""

    def apply(x: Any, *size: Any, dtype: torch.dtype | None = None, **_: Any) -> Any:
        return ops.fill(shape=sizes_of(*size), value=value, dtype=named(dtype, x))

    return apply


def full_like(x: Any, fill_value: Any, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    value = as_value(fill_value, named(dtype, x))
    return ops.fill(shape=shape_of(x), value=value, dtype=named(dtype, x))


def new_full(
    x: Any, size: Any, fill_value: Any, *, dtype: torch.dtype | None = None, **_: Any
) -> Any:
    value = as_value(fill_value, named(dtype, x))
    return ops.fill(shape=sizes_of(size), value=value, dtype=named(dtype, x))


def linspace(
    start: Any, end: Any, steps: int, *, dtype: torch.dtype | None = None, **_: Any
) -> Any:
    is_whole = named(dtype) not in FLOATS
    given = [float(int(value) if is_whole else value) for value in (start, end)]
    computed = "float64" if is_whole else named(dtype)
    return cast(
        ops.linspace(start=given[0], stop=given[1], num=steps, dtype=computed), named(dtype)
    )


def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: Any = None, **_: Any
) -> Any:
    if named(dtype) in FLOATS:
        attrs = {"start": float(start), "stop": float(end), "num": steps, "base": float(base)}
        return ops.logspace(dtype=named(dtype), **attrs)
    exponents = linspace(int(start), int(end), steps, dtype=torch.float64)
    return cast(ops.power(float(base), exponents), named(dtype))


def scalar_tensor(value: Any, *, dtype: torch.dtype | None = None, **_: Any) -> Any:
    return ops.fill(shape=[], value=as_value(value, named(dtype)), dtype=named(dtype))


def triangle_places(op: str) -> Adapter:
    def apply(row: int, col: int, offset: int = 0, *, dtype: Any = None, **_: Any) -> Any:
        ones = ops.fill(shape=[row, col], value=1, dtype="int64")
        return cast(ops.nonzero(getattr(ops, op)(ones, k=offset)), name_of(dtype) or "int64")

    return apply


def broadcast_shapes(*shapes: Any) -> Any:
    tensors = [ops.fill(shape=sizes_of(shape), value=0.0) for shape in shapes]
    total = tensors[0]
    for tensor in tensors[1:]:
        total = ops.add(total, tensor)
    return total


def window(op: str, **renamed: str) -> Adapter:
    """Return a window of torch.signal, symmetric by default."""

    def apply(m: int, *, sym: bool = True, dtype: Any = None, **given: Any) -> Any:
        attrs = {ours: given[theirs] for theirs, ours in renamed.items() if theirs in given}
        call = getattr(ops, f"{op}_window")
        return call(length=m, periodic=not sym, dtype=named(dtype), **attrs)

    return apply


def general_hamming(m: int, *, alpha: float = 0.54, **kwargs: Any) -> Any:
    return window("general_cosine", a="coefficients")(m, a=[alpha, 1 - alpha], **kwargs)


def centered(m: int, sym: bool, center: float | None, dtype: Any) -> Any:
    middle = ((m - 1) if sym else m) / 2 if center is None else center
    return ops.scale(ops.arange(stop=float(m), dtype=named(dtype)), bias=-middle)


def exponential(
    m: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    **_: Any,
) -> Any:
    if m == 1:
        return ops.fill(shape=[m], value=1.0, dtype=named(dtype))
    return ops.exp(ops.scale(ops.abs(centered(m, sym, center, dtype)), scale=-1 / tau))


_PLAIN = ("bartlett", "blackman", "cosine", "hamming", "hann", "nuttall")

ADAPTERS: Final[dict[str, Adapter]] = {
    "arange": arange,
    "broadcast_shapes": broadcast_shapes,
    "eye": eye,
    "full": full,
    "full_like": full_like,
    "linspace": linspace,
    "logspace": logspace,
    "new_full": new_full,
    "new_ones": constant_of_size(1.0),
    "new_zeros": constant_of_size(0.0),
    "ones": constant(1.0),
    "ones_like": constant_like(1.0),
    "scalar_tensor": scalar_tensor,
    **{f"signal.windows.{name}": window(name) for name in _PLAIN},
    "signal.windows.gaussian": window("gaussian", std="std"),
    "signal.windows.general_cosine": window("general_cosine", a="coefficients"),
    "signal.windows.kaiser": window("kaiser", beta="beta"),
    "signal.windows.exponential": exponential,
    "signal.windows.general_hamming": general_hamming,
    "tril_indices": triangle_places("tril"),
    "triu_indices": triangle_places("triu"),
    "zero_": constant_like(0.0),
    "zeros": constant(0.0),
    "zeros_like": constant_like(0.0),
}
