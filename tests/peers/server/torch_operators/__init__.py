"""The standard operators, written in PyTorch.

A function is called with the inputs by slot (lists for duplicable slots) and with all attributes
that it names as parameters, defaults included; ``n_outputs`` is the number of variables of the
first output slot. It returns the outputs in the order of the OpProto: a tensor, a list for a slot
with several variables, or a tuple of these. Outputs that are None, or missing at the end of the
tuple, are not compared. An attribute that the function does not name must have its default value.
`NotExpressibleError` means that PyTorch cannot express the call.
"""

from __future__ import annotations

from torch_operators import (
    decoding,
    detection,
    elementwise,
    functions,
    linear_algebra,
    losses,
    masked,
    metrics,
    movement,
    networks,
    optimizers,
    places,
    proximal,
    recurrent,
    reductions,
    sequences,
    signals,
    sparse_optimizers,
)
from torch_operators.convert import Function, NotExpressibleError

OPERATORS: dict[str, Function] = {
    **elementwise.OPERATORS,
    **functions.OPERATORS,
    **masked.OPERATORS,
    **reductions.OPERATORS,
    **linear_algebra.OPERATORS,
    **movement.OPERATORS,
    **networks.OPERATORS,
    **recurrent.OPERATORS,
    **sequences.OPERATORS,
    **signals.OPERATORS,
    **places.OPERATORS,
    **losses.OPERATORS,
    **decoding.OPERATORS,
    **detection.OPERATORS,
    **metrics.OPERATORS,
    **optimizers.OPERATORS,
    **proximal.OPERATORS,
    **sparse_optimizers.OPERATORS,
}

__all__ = ["OPERATORS", "NotExpressibleError"]
