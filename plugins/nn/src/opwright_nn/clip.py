"""Gradient clipping by value, by norm and by global norm, like `torch.nn.utils.clip_grad`.

Instances are passed as the `clip` argument of optimizers.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import opwright as ow
from opwright.errors import AttributeValueError, ProgramError
from opwright_nn import arguments, checks, operators
from opwright_nn.foreign_names import CLIPS, answering

__all__ = ["ClipByGlobalNorm", "ClipByNorm", "ClipByValue", "GradientClip"]

if not TYPE_CHECKING:  # type checkers should report an unknown name
    __getattr__, __dir__ = answering(__name__, __all__, CLIPS)

Pair = tuple[ow.Variable, ow.Variable]
Attrs = Mapping[str, float | str]


class GradientClip(abc.ABC):
    """A bound on gradients; the base class."""

    @abc.abstractmethod
    def append(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Append the operators that clip the gradients; return the pairs with the new gradients."""

    def append_to_shards(self, pairs: Sequence[Pair], group: str) -> list[Pair]:
        """Append the operators for gradients that are sharded across the processes of a group.

        Raises
        ------
        ProgramError
            The class does not support sharded gradients; it must override this method.
        """
        raise ProgramError(
            f"{type(self).__name__}: append_to_shards must clip gradient shards for group "
            f"{group!r}, got a class without this method; define it, or pass "
            "shard_optimizer=False to DataParallel"
        )


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
        self.min = -self.max if min is None else checks.check_float("ClipByValue", "min", min)
        if self.min > self.max:
            low, high = sorted((self.min, self.max))
            raise AttributeValueError(
                f"ClipByValue: max must be at least min, got max={self.max:g}, min={self.min:g}; "
                f"max comes first: ClipByValue({high:g}, min={low:g})"
            )

    def append(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Append one ``clip`` for each gradient."""
        return _append_each("clip", pairs, {"min": self.min, "max": self.max})

    def append_to_shards(self, pairs: Sequence[Pair], group: str) -> list[Pair]:
        """Append one ``clip`` for each shard."""
        return self.append(pairs)


class ClipByNorm(GradientClip):
    """Each gradient g becomes ``g * max_norm / max(|g|, max_norm)``, where ``|g|`` is its norm.

    Parameters
    ----------
    max_norm : float, > 0
        The maximum norm of a gradient.
    """

    @arguments.suggest
    def __init__(self, max_norm: float) -> None:
        self.max_norm = checks.check_float("ClipByNorm", "max_norm", max_norm, above=0.0)

    def append(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Append one ``clip_by_norm`` for each gradient."""
        return _append_each("clip_by_norm", pairs, {"max_norm": self.max_norm})

    def append_to_shards(self, pairs: Sequence[Pair], group: str) -> list[Pair]:
        """Append one ``dist.clip_by_norm`` for each shard."""
        attrs: Attrs = {"max_norm": self.max_norm, "group": group}
        return _append_each("dist.clip_by_norm", pairs, attrs)


class ClipByGlobalNorm(GradientClip):
    """Each gradient g becomes ``g * max_norm / max(n, max_norm)``, where n is the global norm.

    Pascanu, Mikolov and Bengio, On the difficulty of training recurrent neural networks, 2013.

    Parameters
    ----------
    max_norm : float, > 0
        The maximum norm of all gradients together. They must have one dtype.
    """

    @arguments.suggest
    def __init__(self, max_norm: float) -> None:
        self.max_norm = checks.check_float("ClipByGlobalNorm", "max_norm", max_norm, above=0.0)

    def append(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Append one ``clip_by_global_norm`` for all gradients."""
        return self._append("clip_by_global_norm", pairs, {"max_norm": self.max_norm})

    def append_to_shards(self, pairs: Sequence[Pair], group: str) -> list[Pair]:
        """Append one ``dist.clip_by_global_norm`` for all shards."""
        attrs: Attrs = {"max_norm": self.max_norm, "group": group}
        return self._append("dist.clip_by_global_norm", pairs, attrs)

    def _append(self, op_type: str, pairs: Sequence[Pair], attrs: Attrs) -> list[Pair]:
        if not pairs:
            return []
        block = pairs[0][1].block
        gradients = [grad for _, grad in pairs]
        names = [block.program.free_name(f"{grad.name}_clipped") for grad in gradients]
        inputs, outputs = {"x": gradients}, {"out": names}
        block.append_op(op_type, inputs, outputs, attrs)
        return [(pair[0], block.var(name)) for pair, name in zip(pairs, names, strict=True)]


def _append_each(op_type: str, pairs: Sequence[Pair], attrs: Attrs) -> list[Pair]:
    def append(grad: ow.Variable) -> ow.Variable:
        prefix = f"{grad.name}_clipped"
        return operators.append(grad.block, op_type, {"x": grad}, attrs, prefix=prefix)

    return [(parameter, append(grad)) for parameter, grad in pairs]
