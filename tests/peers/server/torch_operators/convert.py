"""Shared helpers of the tables, for refusing calls and for paddings as (begin, end) pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import torch
import torch.nn.functional as F

Function = Callable[..., Any]


class NotExpressibleError(Exception):
    """Raised if a peer does not support a call of an operator; the message names what it lacks."""


def require(condition: bool, lack: str) -> None:
    """Raise NotExpressibleError unless the condition is true."""
    if not condition:
        raise NotExpressibleError(lack)


def axes_of(axis: Sequence[int], x: torch.Tensor) -> tuple[int, ...]:
    """Return the axes of a reduction, or all axes if none is named."""
    return tuple(axis) if axis else tuple(range(x.dim()))


def pad_spatial(x: torch.Tensor, paddings: Sequence[int], value: float) -> torch.Tensor:
    """Pad the last axes by (begin, end) pairs, in the order of the axes."""
    pairs = list(zip(paddings[::2], paddings[1::2], strict=True))
    return F.pad(x, [n for pair in reversed(pairs) for n in pair], value=value)


def of_axes(function: Function) -> Function:
    """Exclude cases that pass axes for a scalar, which opwright treats as a one-element vector."""

    @wraps(function)
    def checked(**given: Any) -> Any:
        is_named = given.get("axis", ()) not in ((), [])
        require(given["x"].dim() > 0 or not is_named, "axes of a scalar")
        return function(**given)

    return checked


def channels_first(function: Function) -> Function:
    """Make a function of channels-first images support `data_format`."""

    def moved(x: torch.Tensor, data_format: str = "NCHW", **others: Any) -> Any:
        if data_format[1] == "C":
            return function(x, **others)
        result = function(x.movedim(-1, 1), **others)
        if isinstance(result, tuple):
            return tuple(None if one is None else one.movedim(1, -1) for one in result)
        return result.movedim(1, -1)

    return moved
