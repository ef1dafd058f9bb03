"""Finds the operators of the current Context, for rooms below the one that holds the Context.

A program needs the definitions of its operators, and a Variable needs their functions. The rooms
that hold these are above, so `opwright` itself passes in the functions that find them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opwright.registry import OpRegistry

_finders: dict[str, Callable[..., Any]] = {}


def provide(
    find_operators: Callable[[], OpRegistry], find_function: Callable[[str], Callable[..., Any]]
) -> None:
    """Set what `current_operators` and `current_function` call."""
    _finders.update(operators=find_operators, function=find_function)


def current_operators() -> OpRegistry:
    """Return the operators of the current Context."""
    return _finders["operators"]()  # type: ignore[no-any-return]


def current_function(op_type: str) -> Callable[..., Any]:
    """Return the function of an operator, as `opwright.ops` has it in the current Context.

    Raises OperatorNotFoundError, which names what to install, where no plugin provides it.
    """
    return _finders["function"](op_type)  # type: ignore[no-any-return]
