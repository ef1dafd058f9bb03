"""cuDNN graphs of a convolution and its fused operations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

from opwright_cuda.launch import Pointer
from opwright_cuda.options import EngineChoice

MOST_TRIED: Final = 8
"""Maximum number of engines to try for a graph, in the order that cuDNN recommends."""

MAX_WORKSPACE: Final = 2**30
"""Maximum workspace bytes of a graph, shared by the operators of a plan."""

_DATA_TYPES: Final = {"float32": 0, "float16": 2, "bfloat16": 9}  # cudnnDataType

Four = tuple[int, int, int, int]


class Tensor(NamedTuple):
    """A tensor of a graph, with its axes in the order n, channels, height, width.

    Attributes
    ----------
    extents, strides : (int, int, int, int)
        Sizes, and strides in elements.
    pointer : Pointer or None
        Its memory; None for an intermediate tensor in float32.
    """

    extents: Four
    strides: Four
    pointer: Pointer | None


class Windows(NamedTuple):
    """Window parameters, each for height and width."""

    strides: tuple[int, int]
    before: tuple[int, int]
    behind: tuple[int, int]
    dilations: tuple[int, int]

    @classmethod
    def of(cls, attrs: Mapping[str, Any]) -> Windows:
        """Return the parameters that an operator's attributes specify."""
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
    """A graph of operations that cuDNN computes together.

    Parameters
    ----------
    dtype : str
        The dtype of all tensors in memory; sums are float32.
    """

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self._tensors: list[Tensor] = []
        self._operations: list[tuple[int, ...]] = []

    @property
    def pointers(self) -> list[Pointer | None]:
        """Pointers of the tensors, in order."""
        return [tensor.pointer for tensor in self._tensors]

    @property
    def is_empty(self) -> bool:
        """Whether a tensor is empty, which cuDNN does not support."""
        return any(math.prod(tensor.extents) == 0 for tensor in self._tensors)

    def add_convolution(
        self, what: What, x: Tensor, weight: Tensor, result: Tensor, windows: Windows
    ) -> int:
        """Add a convolution or one of its gradients; return the index of `result`."""
        tensors = [self._add(tensor) for tensor in (x, weight, result)]
        numbers = [*windows.strides, *windows.before, *windows.behind, *windows.dilations]
        self._operations.append((what, *tensors, *numbers))
        return tensors[-1]

    def add_sum(self, x: int, y: Tensor, out: Tensor) -> None:
        """Add y to tensor x; axes of length 1 in y broadcast."""
        self._operations.append((What.ADD, x, self._add(y), self._add(out)))

    def _add(self, tensor: Tensor) -> int:
        self._tensors.append(tensor)
        return len(self._tensors) - 1

    def record(self, places: Sequence[int], choice: EngineChoice) -> list[int]:
        """Return the record for native/cudnn/record.cc.

        Parameters
        ----------
        places : sequence of int
            Offset of each tensor's pointer in the constants of a launch.
        choice : EngineChoice
            Settings from the options.
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
