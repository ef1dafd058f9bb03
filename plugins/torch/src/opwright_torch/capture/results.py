"""Builds the outputs of a Dynamo graph from the results of the captured graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import sympy
import torch


class View(NamedTuple):
    """A view of a tensor's storage, in elements of the view dtype; sizes can be SymInts."""

    size: tuple[Any, ...]
    stride: tuple[Any, ...]
    offset: Any
    dtype: torch.dtype

    @classmethod
    def of(cls, tensor: torch.Tensor) -> View:
        """Return the view that describes a tensor."""
        return cls(
            tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset(), tensor.dtype
        )

    def apply(
        self, base: torch.Tensor, sizes: Mapping[sympy.Symbol, int], offset: int = 0
    ) -> torch.Tensor:
        """Return the view of a tensor's storage; `offset` is added to the offset of the view."""
        if base.dtype != self.dtype:
            base = base.view(self.dtype)
        return base.as_strided(
            [evaluate(size, sizes) for size in self.size],
            [evaluate(stride, sizes) for stride in self.stride],
            evaluate(self.offset, sizes) + offset,
        )


class Mutation(NamedTuple):
    """An input that the graph mutates.

    Attributes
    ----------
    input : int
        The index of the input.
    position : int
        The position of its new value in the flat list.
    requires_grad : bool
        Whether autograd must see the change, since gradients flow to the new value.
    """

    input: int
    position: int
    requires_grad: bool = False


class Output(NamedTuple):
    """How to build an output of Dynamo's graph.

    Attributes
    ----------
    source : str
        ``computed``: the value at `position` of the flat list; ``input``: the input at `position`;
        ``constant``: `value`.
    view : View, optional
        The output is this view of the source, or the source itself if absent. Outputs that are
        views of one computed value share its memory.
    requires_grad : bool
        Whether PyTorch's output requires gradients.
    value : object
        None, a number, or a SymInt.
    """

    source: Literal["computed", "input", "constant"]
    position: int = -1
    view: View | None = None
    requires_grad: bool = False
    value: Any = None

    def make(
        self,
        computed: Mapping[int, Any] | Sequence[Any],
        inputs: Sequence[Any],
        sizes: Mapping[sympy.Symbol, int],
    ) -> Any:
        """Return the output, given computed values by position and the mutated inputs."""
        if self.source == "constant":
            return evaluate(self.value, sizes)
        base = (inputs if self.source == "input" else computed)[self.position]
        if self.view is None:
            return base
        if not self.requires_grad and base.requires_grad:
            base = base.detach()
        # A computed value can start anywhere in its storage, and view offsets are relative to the
        # start of the value.
        return self.view.apply(base, sizes, 0 if self.source == "input" else base.storage_offset())


def evaluate(value: Any, sizes: Mapping[sympy.Symbol, int]) -> Any:
    """Return a number for a SymInt, and anything else unchanged."""
    if isinstance(value, torch.SymInt):
        return int(value.node.expr.subs(sizes))
    if isinstance(value, torch.SymFloat):
        return float(value.node.expr.subs(sizes))
    return value
