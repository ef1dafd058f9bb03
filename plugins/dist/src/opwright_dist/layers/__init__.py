"""Layers partitioned over the processes of a group; they need opwright-nn.

- `embedding`: each process stores some rows of the table.
- `fc`: each process stores some columns or rows of the weight.
"""

from __future__ import annotations

from importlib.util import find_spec

from opwright.errors import MissingRequirementError

if find_spec("opwright_nn") is None:
    raise MissingRequirementError(
        "opwright_dist.layers: opwright-nn must be installed, since these layers "
        "partition its layers, got none; run: pip install opwright-nn"
    )

from opwright_dist.layers.embedding import embedding
from opwright_dist.layers.fc import fc

__all__ = ["embedding", "fc"]


def __dir__() -> list[str]:
    return sorted(__all__)
