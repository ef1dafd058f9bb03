"""Which operators there are now: asked by the rooms below the Context, provided from above.

A program needs the definitions of its operators, and a Variable their functions, and what holds
these are rooms above. So `opwright` itself, above all rooms, provides functions that find them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opwright.registry import OpRegistry

_providers: list[Callable[[], OpRegistry]] = []
_function_finders: list[Callable[[str], Callable[..., Any]]] = []


def provide_operators(find: Callable[[], OpRegistry]) -> None:
    """Have `current_operators` return what ``find()`` returns."""
    _providers[:] = [find]


def current_operators() -> OpRegistry:
    """Return the operators of the current Context."""
    return _providers[0]()


def provide_functions(find: Callable[[str], Callable[..., Any]]) -> None:
    """Have `current_function` return what ``find(op_type)`` returns."""
    _function_finders[:] = [find]


def current_function(op_type: str) -> Callable[..., Any]:
    """Return the function of an operator, as `opwright.ops` has it in the current Context.

    Raises
    ------
    OperatorNotFoundError
        Where no plugin provides it; the message says what to install.
    """
    return _function_finders[0](op_type)
