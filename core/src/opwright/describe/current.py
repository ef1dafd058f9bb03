"""Looks up the current Context's registries, for modules below the one that defines Context.

A program needs the definitions of its operators and its annexes, and a Variable needs functions of
operators. The rooms that hold these are above, so they are imported by name at the first use.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opwright.registry import AnnexRegistry, OpRegistry


def _context() -> Any:
    return import_module("opwright.context.context").current_context()


def current_operators() -> OpRegistry:
    """Return the operators of the current Context."""
    return _context().ops  # type: ignore[no-any-return]


def current_annexes() -> AnnexRegistry:
    """Return the annexes of the current Context."""
    return _context().annexes  # type: ignore[no-any-return]


def current_function(op_type: str) -> Callable[..., Any]:
    """Return the function of an operator, as `opwright.ops` has it in the current Context.

    Raises OperatorNotFoundError, which names what to install, where no plugin provides it.
    """
    return getattr(import_module("opwright.ops"), op_type)  # type: ignore[no-any-return]
