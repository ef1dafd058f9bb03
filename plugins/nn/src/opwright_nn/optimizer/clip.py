"""Gradient clipping by value, by norm and by global norm."""

from __future__ import annotations

import abc
from collections.abc import Sequence

import opwright as ow
from opwright_nn import checks, operators

Pair = tuple[ow.Variable, ow.Variable]


class GradientClip(abc.ABC):
    """A bound for gradients."""

    @abc.abstractmethod
    def append(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Append the operators that clip the gradients; return the pairs with the new gradients."""


class ClipByValue(GradientClip):
    """Clips each element to [min, max].

    Parameters
    ----------
    max : float
        The upper bound.
    min : float, optional
        The lower bound; ``-max`` by default.
    """

    def __init__(self, max: float, min: float | None = None) -> None:
        self.max = checks.check_float("ClipByValue", "max", max)
        low = -self.max if min is None else min
        self.min = checks.check_float("ClipByValue", "min", low, at_most=self.max)

    def append(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Append one ``clip`` for each gradient."""
        attrs = {"min": self.min, "max": self.max}
        return [
            (
                parameter,
                operators.append(
                    grad.block, "clip", {"x": grad}, attrs, prefix=f"{grad.name}_clipped"
                ),
            )
            for parameter, grad in pairs
        ]


class ClipByNorm(GradientClip):
    """Each gradient g becomes ``g * max_norm / max(|g|, max_norm)``, ``|g|`` its norm.

    Parameters
    ----------
    max_norm : float, > 0
        The greatest norm of a gradient.
    """

    def __init__(self, max_norm: float) -> None:
        self.max_norm = checks.check_float("ClipByNorm", "max_norm", max_norm, above=0.0)

    def append(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Append a norm, a factor and a product for each gradient."""
        new_pairs = []
        for parameter, grad in pairs:
            factor = _append_factor(_append_square_sum(grad), self.max_norm, grad.name)
            new_pairs.append((parameter, _append_product(grad, factor)))
        return new_pairs


class ClipByGlobalNorm(GradientClip):
    """Each gradient g becomes ``g * max_norm / max(n, max_norm)``, n the norm of all of them.

    Pascanu, Mikolov and Bengio, On the difficulty of training recurrent neural networks, 2013.

    Parameters
    ----------
    max_norm : float, > 0
        The greatest norm of all gradients together. They must have one dtype.
    """

    def __init__(self, max_norm: float) -> None:
        self.max_norm = checks.check_float("ClipByGlobalNorm", "max_norm", max_norm, above=0.0)

    def append(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Append one norm and factor, and a product for each gradient."""
        if not pairs:
            return []
        block = pairs[0][1].block
        sums = [_append_square_sum(grad) for _, grad in pairs]
        total = operators.append(block, "add_n", {"x": sums}, prefix="global_square_sum")
        factor = _append_factor(total, self.max_norm, "global")
        return [(parameter, _append_product(grad, factor)) for parameter, grad in pairs]


def _append_square_sum(grad: ow.Variable) -> ow.Variable:
    block, name = grad.block, grad.name
    squares = operators.append(block, "square", {"x": grad}, prefix=f"{name}_square")
    return operators.append(block, "sum", {"x": squares}, prefix=f"{name}_square_sum")


def _append_factor(square_sum: ow.Variable, max_norm: float, name: str) -> ow.Variable:
    # max_norm / max(norm, max_norm): no division by zero, and exactly 1 for gradients within the
    # bound, where reciprocal and scale would differ by a rounding error.
    def append(
        op_type: str, inputs: dict[str, ow.Variable], what: str, **attrs: float
    ) -> ow.Variable:
        prefix = f"{name}_{what}"
        return operators.append(square_sum.block, op_type, inputs, attrs, prefix=prefix)

    norm = append("sqrt", {"x": square_sum}, "norm")
    longest = append("clip", {"x": norm}, "norm_or_bound", min=max_norm)
    bound = append("fill_like", {"x": norm}, "bound", value=max_norm)
    return append("divide", {"x": bound, "y": longest}, "factor")


def _append_product(grad: ow.Variable, factor: ow.Variable) -> ow.Variable:
    inputs = {"x": grad, "y": factor}
    return operators.append(grad.block, "multiply", inputs, prefix=f"{grad.name}_clipped")
