"""What cuDNN is given: a convolution and what is done to its result, as one graph of operations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

from opwright_cuda.launch import Pointer
from opwright_cuda.options import EngineChoice

MOST_TRIED: Final = 8
"""Engines for one graph; those that cuDNN expects more of come first."""

MAX_WORKSPACE: Final = 2**30
"""The most bytes that a graph may want; the operators of a plan share them."""

_DATA_TYPES: Final = {"float32": 0, "float16": 2, "bfloat16": 9}  # cudnnDataType

Four = tuple[int, int, int, int]


class Tensor(NamedTuple):
    """A tensor of a graph, its axes in the order n, channels, height, width.

    Attributes
    ----------
    extents, strides : (int, int, int, int)
        Sizes, and elements between neighbours.
    pointer : Pointer or None
        Where it lies; None where it is handed from one operation to the next in float32.
    """

    extents: Four
    strides: Four
    pointer: Pointer | None


class Windows(NamedTuple):
    """How windows slide; of each a number for the height and one for the width."""

    strides: tuple[int, int]
    before: tuple[int, int]
    behind: tuple[int, int]
    dilations: tuple[int, int]

    @classmethod
    def of(cls, attrs: Mapping[str, Any]) -> Windows:
        """Return those of an operator's attributes."""
        top, bottom, left, right = attrs["paddings"]
        (down, across), (high, wide) = attrs["strides"], attrs["dilations"]
        return cls((down, across), (top, left), (bottom, right), (high, wide))


class What(IntEnum):
    """Operations: ``OperationGraphSpec::What`` of native/cudnn/cudnn.h."""

    FORWARD = 0
    DATA_GRADIENT = 1
    WEIGHT_GRADIENT = 2
    ADD = 3


class OperationGraph:
    """What cuDNN computes at once.

    Parameters
    ----------
    dtype : str
        Of all tensors that lie in memory; sums are float32.
    """

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self._tensors: list[Tensor] = []
        self._operations: list[tuple[int, ...]] = []

    @property
    def pointers(self) -> list[Pointer | None]:
        """Where the tensors lie, in their order."""
        return [tensor.pointer for tensor in self._tensors]

    @property
    def is_empty(self) -> bool:
        """Whether a tensor has no elements, which cuDNN does not take."""
        return any(math.prod(tensor.extents) == 0 for tensor in self._tensors)

    def add_convolution(
        self, what: What, x: Tensor, weight: Tensor, result: Tensor, windows: Windows
    ) -> int:
        """Add a convolution or one of its gradients; return the number of `result`."""
        tensors = [self._add(tensor) for tensor in (x, weight, result)]
        numbers = [*windows.strides, *windows.before, *windows.behind, *windows.dilations]
        self._operations.append((what, *tensors, *numbers))
        return tensors[-1]

    def add_sum(self, x: int, y: Tensor, out: Tensor) -> None:
        """Add y to the tensor of number x; extents of 1 in y are repeated."""
        self._operations.append((What.ADD, x, self._add(y), self._add(out)))

    def _add(self, tensor: Tensor) -> int:
        self._tensors.append(tensor)
        return len(self._tensors) - 1

    def record(self, places: Sequence[int], choice: EngineChoice) -> list[int]:
        """Return what native/cudnn/record.cc reads.

        Parameters
        ----------
        places : sequence of int
            Where the pointers lie in the constants of a launch, for each tensor.
        choice : EngineChoice
            What the options say.
        """
        allows_tensor_cores = self.dtype != "float32" or choice.allows_tf32
        allowed = int(allows_tensor_cores) + 2 * int(choice.allows_varying)
        most_tried = MOST_TRIED if choice.tunes else 1
        numbers = [_DATA_TYPES[self.dtype], allowed, MAX_WORKSPACE, most_tried]
        numbers.append(len(self._tensors))
        for tensor, place in zip(self._tensors, places, strict=True):
            numbers += [tensor.pointer is None, place, *tensor.extents, *tensor.strides]
        numbers.append(len(self._operations))
        for operation in self._operations:
            numbers += operation
        return list(map(int, numbers))
