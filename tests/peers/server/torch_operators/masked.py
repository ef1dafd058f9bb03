"""Reductions over unmasked elements, computed by the prototype module torch.masked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.masked import _ops as masked

from torch_operators.convert import Function, axes_of, require

Tensor = torch.Tensor


def _mask(x: Tensor, mask: Tensor) -> Tensor:
    return mask.expand(x.shape)


def _over(function: Function) -> Function:
    def reduced(
        x: Tensor, mask: Tensor, axis: Sequence[int], keepdims: bool, **more: Any
    ) -> Tensor:
        require(x.is_floating_point(), "PyTorch has other dtypes for sums")
        dims = axes_of(axis, x)
        return function(x, dim=dims, keepdim=keepdims, mask=_mask(x, mask), **more)

    return reduced


def _spread(function: Function) -> Function:
    def reduced(
        x: Tensor, mask: Tensor, axis: Sequence[int], keepdims: bool, correction: float
    ) -> Tensor:
        require(correction in (0.0, 1.0), "PyTorch takes 0 and 1")
        dims, unbiased = axes_of(axis, x), correction == 1.0
        return function(x, dims, unbiased, keepdim=keepdims, mask=_mask(x, mask))

    return reduced


def _norm(x: Tensor, mask: Tensor, axis: Sequence[int], keepdims: bool, p: float) -> Tensor:
    return masked.norm(x, p, axes_of(axis, x), keepdim=keepdims, mask=_mask(x, mask))


def _along(function: Function) -> Function:
    """Return a softmax that requires an unmasked element per row; otherwise PyTorch returns NaN."""

    def lines(x: Tensor, mask: Tensor, axis: int) -> Tensor:
        mask = _mask(x, mask)
        require(bool(mask.any(axis).all()), "NaN where nothing is seen")
        return function(x, axis, mask=mask)

    return lines


def _cumulative(function: Function) -> Function:
    return lambda x, mask, axis: function(x, axis, mask=_mask(x, mask))


def _position(function: Function) -> Function:
    def position(x: Tensor, mask: Tensor, axis: int, keepdims: bool) -> Tensor:
        mask = _mask(x, mask)
        require(bool(mask.any(axis).all()), "a position where nothing is seen")
        return function(x, axis, keepdim=keepdims, mask=mask, dtype=torch.float64).long()

    return position


OPERATORS: dict[str, Function] = {
    "masked_argmax": _position(masked.argmax),
    "masked_argmin": _position(masked.argmin),
    "masked_cumprod": _cumulative(masked.cumprod),
    "masked_cumsum": _cumulative(masked.cumsum),
    "masked_log_softmax": _along(masked.log_softmax),
    "masked_logsumexp": _over(masked.logsumexp),
    "masked_max": _over(masked.amax),
    "masked_mean": _over(masked.mean),
    "masked_min": _over(masked.amin),
    "masked_norm": _norm,
    "masked_prod": _over(masked.prod),
    "masked_softmax": _along(masked.softmax),
    "masked_std": _spread(masked.std),
    "masked_sum": _over(masked.sum),
    "masked_variance": _spread(masked.var),
}
