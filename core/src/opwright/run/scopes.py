"""Checks the argument `scope` of functions that run, compile or load."""

from __future__ import annotations

from opwright._runtime import Scope
from opwright.errors import AttributeTypeError


def check_scope(who: str, scope: object) -> Scope:
    """Return `scope` if it is a Scope; AttributeTypeError for anything else."""
    if not isinstance(scope, Scope):
        raise AttributeTypeError(
            f"{who}: scope must be a Scope, got {scope!r} ({type(scope).__name__}); create one "
            "with opwright.Scope()"
        )
    return scope
