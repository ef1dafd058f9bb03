"""Finds what the current Context has, for rooms below the one that holds the Context.

A program needs the definitions of its operators and its annexes, and a Variable needs functions of
operators. The rooms that hold these are above, so `opwright` itself passes in what finds them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opwright.registry import AnnexRegistry, OpRegistry

_finders: dict[str, Callable[..., Any]] = {}


def provide(
    find_context: Callable[[], Any], find_function: Callable[[str], Callable[..., Any]]
) -> None:
    """Set what the other functions of this module call."""
    _finders.update(context=find_context, function=find_function)


def current_operators() -> OpRegistry:
    """Return the operators of the current Context."""
    return _finders["context"]().ops  # type: ignore[no-any-return]


def current_annexes() -> AnnexRegistry:
    """Return the annexes of the current Context."""
    return _finders["context"]().annexes  # type: ignore[no-any-return]


def current_function(op_type: str) -> Callable[..., Any]:
    """Return the function of an operator, as `opwright.ops` has it in the current Context.

    Raises OperatorNotFoundError, which names what to install, where no plugin provides it.
    """
    return _finders["function"](op_type)  # type: ignore[no-any-return]
