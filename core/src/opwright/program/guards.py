"""The default programs and scope, and guards that replace them within a ``with`` block."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

from opwright._runtime import Scope
from opwright.context.guard import setting
from opwright.messages.arguments import suggest_arguments
from opwright.program.program import Program

_PROGRAMS: ContextVar[tuple[Program, Program] | None] = ContextVar("programs", default=None)
_SCOPE: ContextVar[Scope | None] = ContextVar("scope", default=None)

# The defaults are created at first use, once per process; guards do not change them.
_DEFAULTS: dict[str, Any] = {}


def _programs() -> tuple[Program, Program]:
    guarded = _PROGRAMS.get()
    if guarded is not None:
        return guarded
    return _DEFAULTS.setdefault("programs", (Program(), Program()))  # type: ignore[no-any-return]


def default_main_program() -> Program:
    """Return the program that layers and operators append to."""
    return _programs()[0]


def default_startup_program() -> Program:
    """Return the program that initializes the parameters of the main program."""
    return _programs()[1]


def is_program_guarded() -> bool:
    """Whether this thread or task is within a `program_guard`."""
    return _PROGRAMS.get() is not None


@suggest_arguments
def program_guard(
    main: Program, startup: Program | None = None
) -> AbstractContextManager[tuple[Program, Program]]:
    """Make programs the default within a ``with`` block, for this thread or task only.

    Within the block, a function of `opwright.ops` without inputs, such as ``fill``, appends to
    `main`; elsewhere it computes immediately.

    Parameters
    ----------
    main : Program
        Layers append to it.
    startup : Program, optional
        Initializers append to it; by default the current startup program.

    Yields
    ------
    (Program, Program)
        Both.
    """
    return setting(_PROGRAMS, (main, default_startup_program() if startup is None else startup))


def default_scope() -> Scope:
    """Return the scope where networks keep persistable variables by default."""
    guarded = _SCOPE.get()
    if guarded is not None:
        return guarded
    return _DEFAULTS.setdefault("scope", Scope())  # type: ignore[no-any-return]


def scope_guard(scope: Scope) -> AbstractContextManager[Scope]:
    """Make a scope the default within a ``with`` block, for this thread or task only."""
    return setting(_SCOPE, scope)
