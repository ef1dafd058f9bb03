"""The loss scale of a ``torch.amp.GradScaler``; a plan reads and updates the scale."""

from __future__ import annotations

from typing import Any, Final

import torch

import opwright as ow
from opwright_torch.training.group import write

_FACTOR: Final = "scaler.scale"
_COUNT: Final = "scaler.growth_tracker"
_OPTIONS: Final = ("_growth_factor", "_backoff_factor", "_growth_interval")


class Scaling:
    """The tensors of a GradScaler, borrowed by a scope.

    Parameters
    ----------
    scaler : torch.amp.GradScaler
        An enabled scaler.
    scope : Scope
    """

    names: Final = (_FACTOR, _COUNT, *(f"scaler.{name[1:]}" for name in _OPTIONS))

    def __init__(self, scaler: Any, scope: ow.Scope) -> None:
        self._scaler, self._scope = scaler, scope
        self._held: Any = None
        options = torch.zeros(len(_OPTIONS), dtype=torch.float64)
        self._options = options.numpy()
        for i, name in enumerate(self.names[2:]):
            scope.var(name).borrow(options[i : i + 1])

    def read(self) -> None:
        """Share the current tensors of the scaler with the scope."""
        scaler = self._scaler
        if scaler._scale is None:
            scaler._lazy_init_scale_growth_tracker(torch.device("cpu"))
        if scaler._scale is not self._held:
            self._held = scaler._scale
            self._scope.var(_FACTOR).borrow(scaler._scale)
            self._scope.var(_COUNT).borrow(scaler._growth_tracker)
        self._options[:] = [getattr(scaler, name) for name in _OPTIONS]

    def declare(self, block: ow.Block) -> None:
        """Declare the variables in a program."""
        for name in self.names:
            dtype = {_FACTOR: "float32", _COUNT: "int32"}.get(name, "float64")
            shape = [] if name in (_FACTOR, _COUNT) else [1]
            block.create_var(name, shape, dtype, persistable=True, stop_gradient=True)

    def scale(self, loss: ow.Variable) -> ow.Variable:
        """Append the scaled loss."""
        factor = ow.ops.cast(loss.block.var(_FACTOR), dtype=loss.dtype)
        scaled: ow.Variable = loss * factor
        return scaled

    def unscale(self, grads: list[ow.Variable]) -> tuple[list[ow.Variable], ow.Variable]:
        """Append the unscaled gradients; return them, and whether all of them are finite."""
        wide = ow.ops.cast(grads[0].block.var(_FACTOR), dtype="float64")
        inverse = ow.ops.cast(ow.ops.reciprocal(wide), dtype="float32")
        parts = [ow.ops.all(ow.ops.isfinite(grad)) for grad in grads]
        is_finite = ow.ops.all(ow.ops.stack(parts)) if len(parts) > 1 else parts[0]
        return [grad * ow.ops.cast(inverse, dtype=grad.dtype) for grad in grads], is_finite

    def append_change(self, is_finite: ow.Variable) -> None:
        """Append the update of the scale factor and growth count for the next step."""
        factor, count, *options = map(is_finite.block.var, self.names)
        growth, backoff, interval = (ow.ops.reshape(option, shape=[]) for option in options)
        wide = ow.ops.cast(factor, dtype="float64")
        grown, shrunk = (ow.ops.cast(wide * by, dtype="float32") for by in (growth, backoff))
        counted = count + 1
        is_long = ow.ops.equal(counted, ow.ops.cast(interval, dtype="int32"))
        grows = ow.ops.logical_and(is_long, ow.ops.isfinite(grown))
        kept = ow.ops.where(grows, grown, factor)
        none = count * 0
        next_count = ow.ops.where(is_finite, ow.ops.where(is_long, none, counted), none)
        write(factor, ow.ops.where(is_finite, kept, shrunk))
        write(count, next_count)
