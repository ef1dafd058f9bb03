"""Gradient clipping by value, by norm and by global norm."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence

import opwright as ow
from opwright_nn import arguments, checks, operators

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

    @arguments.suggest
    def __init__(self, max: float, min: float | None = None) -> None:
        self.max = checks.check_float("ClipByValue", "max", max)
        low = -self.max if min is None else min
        self.min = checks.check_float("ClipByValue", "min", low, at_most=self.max)

    def append(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Append one ``clip`` for each gradient."""
        return _append_each("clip", pairs, {"min": self.min, "max": self.max})


class ClipByNorm(GradientClip):
    """Each gradient g becomes ``g * max_norm / max(|g|, max_norm)``, ``|g|`` its norm.

    Parameters
    ----------
    max_norm : float, > 0
        The greatest norm of a gradient.
    """

    @arguments.suggest
    def __init__(self, max_norm: float) -> None:
        self.max_norm = checks.check_float("ClipByNorm", "max_norm", max_norm, above=0.0)

    def append(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Append one ``clip_by_norm`` for each gradient."""
        return _append_each("clip_by_norm", pairs, {"max_norm": self.max_norm})


class ClipByGlobalNorm(GradientClip):
    """Each gradient g becomes ``g * max_norm / max(n, max_norm)``, n the norm of all of them.

    Pascanu, Mikolov and Bengio, On the difficulty of training recurrent neural networks, 2013.

    Parameters
    ----------
    max_norm : float, > 0
        The greatest norm of all gradients together. They must have one dtype.
    """

    @arguments.suggest
    def __init__(self, max_norm: float) -> None:
        self.max_norm = checks.check_float("ClipByGlobalNorm", "max_norm", max_norm, above=0.0)

    def append(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Append one ``clip_by_global_norm`` for all gradients."""
        if not pairs:
            return []
        block = pairs[0][1].block
        gradients = [grad for _, grad in pairs]
        names = [block.program.free_name(f"{grad.name}_clipped") for grad in gradients]
        inputs, outputs = {"x": gradients}, {"out": names}
        block.append_op("clip_by_global_norm", inputs, outputs, {"max_norm": self.max_norm})
        return [(pair[0], block.var(name)) for pair, name in zip(pairs, names, strict=True)]


def _append_each(op_type: str, pairs: Sequence[Pair], attrs: Mapping[str, float]) -> list[Pair]:
    def append(grad: ow.Variable) -> ow.Variable:
        prefix = f"{grad.name}_clipped"
        return operators.append(grad.block, op_type, {"x": grad}, attrs, prefix=prefix)

    return [(parameter, append(grad)) for parameter, grad in pairs]
