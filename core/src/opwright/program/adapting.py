"""Inputs of new operators in other dtypes: what mixed precision is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opwright.describe.definition import OpDefinition
    from opwright.program.block import Block

Names = Mapping[str, tuple[str, ...]]
InputAdapter = Callable[["Block", "OpDefinition", Names], Names]
"""Returns the names that an operator reads, by slot, for those that were given.

It may append operators, such as ``cast``; these are not adapted.
"""

_ADAPTER: ContextVar[InputAdapter | None] = ContextVar("input_adapter", default=None)


@contextmanager
def adapt_inputs(adapter: InputAdapter | None) -> Iterator[None]:
    """Have `Block.append_op` ask what each new operator reads, in this thread or task.

    Gradients are not adapted: rules write them for the forward operators as they are.

    Parameters
    ----------
    adapter : callable, optional
        ``adapter(block, definition, inputs) -> inputs``, names by slot. None: inputs stay.
    """
    token = _ADAPTER.set(adapter)
    try:
        yield
    finally:
        _ADAPTER.reset(token)


def adapted(block: Block, definition: OpDefinition, inputs: Names) -> dict[str, tuple[str, ...]]:
    """Return what an operator reads that is appended to `block`."""
    adapter = _ADAPTER.get()
    if adapter is None:
        return dict(inputs)
    with adapt_inputs(None):
        return dict(adapter(block, definition, inputs))
