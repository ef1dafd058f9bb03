"""Special functions, bitwise operators, comparisons and element-wise binary functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from scipy import special

from torch_operators.convert import Function, axes_of, require

Tensor = torch.Tensor


def _named(*names: str) -> dict[str, Function]:
    """Return the PyTorch functions of one tensor whose names equal our operator names."""

    def one(name: str) -> Function:
        function = getattr(torch, name)
        return lambda x: function(x)

    return {name: one(name) for name in names}


def _of_two(*names: str) -> dict[str, Function]:
    def one(name: str) -> Function:
        function = getattr(torch, name)
        return lambda x, y: function(x, y)

    return {name: one(name) for name in names}


def _logit(x: Tensor, eps: float | None = None) -> Tensor:
    return torch.logit(x, eps)


def _shift(function: Function) -> Function:
    def shifted(x: Tensor, y: Tensor) -> Tensor:
        bits = torch.iinfo(x.dtype).bits
        require(bool(((y >= 0) & (y < bits)).all()), "PyTorch shifts by so many bits as it likes")
        return function(x, y)

    return shifted


def _diff(
    x: Tensor, n: int, axis: int, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    return torch.diff(x, n=n, dim=axis, prepend=prepend, append=append)


def _nan(function: Function) -> Function:
    """Return a reduction that ignores NaN."""

    def reduced(x: Tensor, axis: Sequence[int], keepdims: bool) -> Tensor:
        require(x.is_floating_point(), "PyTorch has other dtypes for sums")
        return function(x, dim=axes_of(axis, x), keepdim=keepdims)

    return reduced


def _nanquantile(x: Tensor, axis: Sequence[int], keepdims: bool, q: float) -> Tensor:
    require(len(axis) < 2, "PyTorch takes one axis")
    dim = axis[0] if axis else None
    return torch.nanquantile(x, q, dim=dim, keepdim=keepdims)


def _cumulative(function: Function) -> Function:
    return lambda x, axis: tuple(function(x, axis))


def _aminmax(x: Tensor, axis: Sequence[int], keepdims: bool) -> tuple[Tensor, ...]:
    require(len(axis) < 2, "PyTorch takes one axis")
    dim = axis[0] if axis else None
    return tuple(torch.aminmax(x, dim=dim, keepdim=keepdims))


def _logcumsumexp(x: Tensor, axis: int, reverse: bool) -> Tensor:
    x = x.flip(axis) if reverse else x
    out = torch.logcumsumexp(x, axis)
    return out.flip(axis) if reverse else out


def _fmod(x: Tensor, y: Tensor) -> Tensor:
    require(x.is_floating_point() or bool((y != 0).all()), "the rest of a division by a whole 0")
    return torch.fmod(x, y)


def _is_close(function: Function) -> Function:
    def close(x: Tensor, y: Tensor, rtol: float, atol: float, equal_nan: bool) -> Tensor:
        x, y = torch.broadcast_tensors(x, y)
        return torch.as_tensor(function(x, y, rtol, atol, equal_nan))

    return close


def _bit_cast(x: Tensor, dtype: str) -> Tensor:
    wanted = getattr(torch, dtype)
    require(x.dtype.itemsize == wanted.itemsize, "bits of numbers that were widened")
    return x.view(wanted)


def _unique_consecutive(x: Tensor, axis: int | None = None) -> tuple[Tensor, ...]:
    return torch.unique_consecutive(x, return_inverse=True, return_counts=True, dim=axis)


def _bucketize(x: Tensor, boundaries: Tensor, side: str, dtype: str) -> Tensor:
    return torch.bucketize(x, boundaries, out_int32=dtype == "int32", right=side == "right")


def _logspace(start: float, stop: float, num: int, base: float, dtype: str) -> Tensor:
    return torch.logspace(start, stop, num, base, dtype=torch.float64)


def _multi_margin(
    x: Tensor, label: Tensor, p: int, margin: float, weight: Tensor | None = None
) -> Tensor:
    require(x.dim() <= 2, "axes behind that of the classes")
    return F.multi_margin_loss(x, label.long(), p, margin, weight, reduction="none")


class _Derivative(torch.autograd.Function):
    """Computes digamma (n = 0) or its n-th derivative, which PyTorch computes to only 10 digits."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, n: int) -> Tensor:
        ctx.save_for_backward(x)
        ctx.n = n
        wide = x.detach().numpy()
        return torch.as_tensor(special.polygamma(n, wide) if n else special.digamma(wide))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return grad * _Derivative.apply(x, ctx.n + 1), None


class _LogGamma(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.as_tensor(special.gammaln(x.detach().numpy()))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * _Derivative.apply(x, 0)


def _multilabel_margin(x: Tensor, label: Tensor) -> Tensor:
    require(x.shape[-1] <= 100, "PyTorch adds up all pairs one by one, and loses digits")
    rows, ids = x.reshape(-1, x.shape[-1]), label.long().reshape(-1, x.shape[-1])
    losses = F.multilabel_margin_loss(rows, ids.clamp(min=-1), reduction="none")
    return losses.reshape(x.shape[:-1])


def _multilabel_soft_margin(x: Tensor, label: Tensor, weight: Tensor | None = None) -> Tensor:
    return F.multilabel_soft_margin_loss(x, label, weight, reduction="none")


def _triplet(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float, p: float, **more: Any
) -> Tensor:
    require(margin > 0, "margins of 0 and less")
    given = (anchor, positive, negative)
    return F.triplet_margin_loss(*given, margin=margin, p=p, reduction="none", **more)


def _poisson(x: Tensor, label: Tensor, log_input: bool, eps: float, full: bool) -> Tensor:
    return F.poisson_nll_loss(x, label, log_input, full, eps=eps, reduction="none")


def _gaussian(x: Tensor, label: Tensor, variance: Tensor, eps: float, full: bool) -> Tensor:
    require(x.shape == variance.shape == label.shape, "PyTorch broadcasts otherwise")
    return F.gaussian_nll_loss(x, label, variance, full=full, eps=eps, reduction="none")


OPERATORS: dict[str, Function] = {
    **_named("acosh", "asinh", "atanh", "deg2rad", "erfc", "erfinv", "exp2", "frac"),
    **_named("log10", "rad2deg", "signbit", "sinc", "trunc", "bitwise_not"),
    **_of_two("bitwise_and", "bitwise_or", "bitwise_xor", "copysign", "fmax", "fmin"),
    **_of_two("heaviside", "hypot", "logaddexp", "logaddexp2", "xlogy"),
    "atan2_derivative": lambda x, y: y / (x * x + y * y),
    "allclose": _is_close(torch.allclose),
    "aminmax": _aminmax,
    "bit_cast": _bit_cast,
    "bucketize": _bucketize,
    "cdist": lambda x, y, p: torch.cdist(x, y, p, "donot_use_mm_for_euclid_dist"),
    "cummax": _cumulative(torch.cummax),
    "cummin": _cumulative(torch.cummin),
    "diff": _diff,
    "fmod": _fmod,
    "gaussian_nll": _gaussian,
    "isclose": _is_close(torch.isclose),
    "left_shift": _shift(torch.bitwise_left_shift),
    "logcumsumexp": _logcumsumexp,
    "logit": _logit,
    "logspace": _logspace,
    "multi_margin_loss": _multi_margin,
    "multilabel_margin_loss": _multilabel_margin,
    "multilabel_soft_margin_loss": _multilabel_soft_margin,
    "nanmean": _nan(torch.nanmean),
    "nanmedian": lambda x, axis, keepdims: _nanquantile(x, axis, keepdims, 0.5),
    "nanquantile": _nanquantile,
    "nansum": _nan(torch.nansum),
    "poisson_nll": _poisson,
    "digamma": lambda x: _Derivative.apply(x, 0),
    "lgamma": _LogGamma.apply,
    "polygamma": lambda x, n: _Derivative.apply(x, n),
    "right_shift": _shift(torch.bitwise_right_shift),
    "rot90": lambda x, k, axes: torch.rot90(x, k, list(axes)),
    "soft_margin_loss": lambda x, label: F.soft_margin_loss(x, label, reduction="none"),
    "triplet_margin_loss": _triplet,
    "unique_consecutive": _unique_consecutive,
    "xlog1py": lambda x, y: torch.special.xlog1py(x, y),
}
