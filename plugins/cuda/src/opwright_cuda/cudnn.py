"""cuDNN: where it is found, and what it is told of a convolution.

A convolution and what is done to its result are one graph of operations on tensors with extents and
strides, so that every order of axes is described and nothing is copied here. The library makes a
plan of it when the operator is prepared, and refuses where cuDNN has no engine that is exact and
deterministic enough. Of those that are, the first by cuDNN's heuristics is taken; with the option
``cuda.tune`` the fastest, so that another run may take another one.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from opwright.errors import PluginError
from opwright_cuda import native
from opwright_cuda.launch import Pointer
from opwright_cuda.options import ALLOW_TF32, EngineChoice
from opwright_cuda.products import tell_blas_path

LIBRARY: Final = "libcudnn.so.9"
INSTALL: Final = 'pip install "opwright-cuda[cudnn]"'
"""The way to cuDNN."""

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
    """Operations: ``OperationGraphSpec::What`` of native/cudnn.h."""

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
        """Return what native/cudnn.h reads.

        Parameters
        ----------
        places : sequence of int
            Where the pointers lie in the constants of a launch, for each tensor.
        choice : EngineChoice
            What the options say.
        """
        allows_tensor_cores = self.dtype != "float32" or choice.allows_tf32
        most_tried = MOST_TRIED if choice.tunes else 1
        numbers = [_DATA_TYPES[self.dtype], int(allows_tensor_cores), MAX_WORKSPACE, most_tried]
        numbers.append(len(self._tensors))
        for tensor, place in zip(self._tensors, places, strict=True):
            numbers += [tensor.pointer is None, place, *tensor.extents, *tensor.strides]
        numbers.append(len(self._operations))
        for operation in self._operations:
            numbers += operation
        return list(map(int, numbers))


class Engine(NamedTuple):
    """What cuDNN chose for a graph.

    Attributes
    ----------
    number : int
        Among its engines for graphs of this form.
    workspace_bytes : int
        What it wants.
    notes : int
        Bits by ``cudnnBackendNumericalNote``: 1 for tensor cores, 1 << 4 for results that vary.
    """

    number: int
    workspace_bytes: int
    notes: int


def choose_engine(graph: OperationGraph, properties: str, choice: EngineChoice) -> Engine:
    """Return what cuDNN would choose on a GPU, which need not be there.

    Parameters
    ----------
    graph : OperationGraph
        What shall be computed.
    properties : str
        The GPU as cuDNN writes it down, in JSON.
    choice : EngineChoice
        What the options say.

    Raises
    ------
    KernelError
        Where it has no engine, or cannot be used.
    """
    places = [8 * i for i, _ in enumerate(graph.pointers)]
    return Engine(*native.choose_engine(graph.record(places, choice), properties))


@cache
def find_refusal() -> str | None:
    """Return why nothing can be computed by cuDNN here, None where it can.

    The library is loaded by the first call in a process.
    """
    try:
        if native.find_cudnn_path() is None:
            tell_blas_path()  # cuDNN ends the process where it does not find it by itself
            native.set_cudnn_path(_find_library())
    except PluginError:
        return f"cuDNN needs cuBLASLt, which is not found; {INSTALL}"
    try:
        native.cudnn_version()
    except PluginError as error:
        return f"{error}; {INSTALL}"
    return None


def find_tf32_refusal(options: Mapping[str, Any]) -> str | None:
    """Return why nothing can be computed by cuDNN in TF32 here, None where it can."""
    if not options[ALLOW_TF32]:
        return f"float32 is not rounded to TF32; the option {ALLOW_TF32} allows it"
    return find_refusal()


def _find_library() -> str:
    """Return the library of the wheel, beside Python's packages, or the loader's own name."""
    try:
        spec = importlib.util.find_spec("nvidia.cudnn")
    except ModuleNotFoundError:  # no package is called nvidia
        spec = None
    for folder in (spec and spec.submodule_search_locations) or ():
        path = Path(folder) / "lib" / LIBRARY
        if path.exists():
            return str(path)
    return LIBRARY
