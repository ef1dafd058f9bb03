"""Changes what new operators read: mixed precision casts their inputs this way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from opwright.describe.journal import setting

if TYPE_CHECKING:
    from opwright.describe.definition import OpDefinition
    from opwright.program.block import Block

Names = Mapping[str, tuple[str, ...]]
InputAdapter = Callable[["Block", "OpDefinition", Names], Names]
"""From the names that an operator is given, by slot, to those that it reads.

It may append operators, such as ``cast``; these are not adapted.
"""

_ADAPTER: ContextVar[InputAdapter | None] = ContextVar("input_adapter", default=None)


def adapt_inputs(adapter: InputAdapter | None) -> AbstractContextManager[object]:
    """Let `Block.append_op` replace what each new operator reads, in this thread or task.

    Gradient operators are not adapted: their rules are written for the forward operators.

    Parameters
    ----------
    adapter : callable, optional
        ``adapter(block, definition, inputs) -> inputs``, names by slot. None changes nothing.
    """
    return setting(_ADAPTER, adapter)


def adapted(block: Block, definition: OpDefinition, inputs: Names) -> dict[str, tuple[str, ...]]:
    """Return what an operator that is appended to `block` reads."""
    adapter = _ADAPTER.get()
    if adapter is None:
        return dict(inputs)
    with adapt_inputs(None):
        return dict(adapter(block, definition, inputs))
