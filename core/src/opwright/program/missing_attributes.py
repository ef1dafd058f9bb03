"""Answers an attribute that arrays have: to ``x.sum()`` with ``opwright.ops.sum(x)``."""

from __future__ import annotations

from typing import Final

from opwright.describe.current import current_operators

_FETCH: Final = "fetch it: opwright.Network(block).compile(feed, fetch=[x])"

_ANSWERS: Final = {
    "T": "write opwright.ops.transpose(x, axes=[1, 0])",
    "astype": "write opwright.ops.cast(x, dtype='float32')",
    "backward": "write opwright.append_backward(x), or minimize(x) of an optimizer",
    "data": _FETCH,
    "dim": "write len(x.shape)",
    "double": "write opwright.ops.cast(x, dtype='float64')",
    "float": "write opwright.ops.cast(x, dtype='float32')",
    "grad": "opwright.append_backward returns pairs of a variable and its gradient",
    "item": _FETCH,
    "long": "write opwright.ops.cast(x, dtype='int64')",
    "ndim": "write len(x.shape)",
    "numel": "write opwright.ops.size(x)",
    "numpy": _FETCH,
    "permute": "write opwright.ops.transpose(x, axes=[1, 0])",
    "to": "write opwright.ops.cast(x, dtype='float32')",
    "tolist": _FETCH,
    "var": "write opwright.ops.variance(x)",
    "view": "write opwright.ops.reshape(x, shape=[-1])",
}
"""Attribute of an array elsewhere to what to write, where that is no operator of the same name."""


def describe_missing(owner: type, name: str) -> str:
    """Return the message for an attribute that a Variable does not have."""
    start = f"{owner.__name__}: there must be an attribute of that name, got {name!r}"
    if name.startswith("_") or hasattr(owner, name):  # the slot of one that is being made
        return start
    answer = _ANSWERS.get(name)
    if answer is None and name in current_operators():
        answer = f"write opwright.ops.{name}(x)"
    return start if answer is None else f"{start}; {answer}"
