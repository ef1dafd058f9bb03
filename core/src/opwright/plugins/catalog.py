"""Lists the operators of the current Context, and their descriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opwright.plugins.context import current_context

if TYPE_CHECKING:
    from opwright.describe.op_proto import OpProto


def list_ops(all: bool = False) -> list[str]:
    """Return the types of all operators, sorted; with `all`, also those that only gradients use."""
    return current_context().ops.types(all=all)


def op_proto(type: str) -> OpProto:
    """Return the description of an operator: slots, attributes, defaults and ranges.

    Raises
    ------
    OperatorNotFoundError
        Naming the nearest type, and what to install.
    """
    return current_context().ops.get(type).proto
