"""opwright: a deep-learning framework made as a plugin ecosystem.

Core describes, finds, connects, differentiates and executes operators; it contains none. Packages
installed beside it provide operators and kernels. ``import opwright`` imports no plugin and almost
nothing else: names are imported when they are first used.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from opwright._version import __version__
from opwright.describe.current import provide

# Public name -> module that holds it. Modules that are public as a whole stand for themselves.
_HOMES = {
    "Block": "opwright.program",
    "Context": "opwright.plugins.context",
    "Network": "opwright.run.network",
    "Operator": "opwright.program",
    "Parameter": "opwright.program",
    "Program": "opwright.program",
    "Scope": "opwright._runtime",
    "Variable": "opwright.program",
    "append_backward": "opwright.backward",
    "check_feed": "opwright.device.feeds",
    "context_guard": "opwright.plugins.context",
    "current_context": "opwright.plugins.context",
    "default_main_program": "opwright.program",
    "default_scope": "opwright.program",
    "default_startup_program": "opwright.program",
    "explain": "opwright.kernel",
    "get_include": "opwright.plugins.include",
    "get_num_threads": "opwright.plugins.threads",
    "grad": "opwright.run.differentiating",
    "list_ops": "opwright.plugins.catalog",
    "LoadedProgram": "opwright.program.files",
    "Lock": "opwright.lowering.lock",
    "load": "opwright.run.loading",
    "load_program": "opwright.program.files",
    "load_tensors": "opwright.program.files",
    "name_guard": "opwright.program",
    "names_read_first": "opwright.run.bindings",
    "op_proto": "opwright.plugins.catalog",
    "program_guard": "opwright.program",
    "save": "opwright.program.files",
    "scope_guard": "opwright.program",
    "set_num_threads": "opwright.plugins.threads",
    "transaction": "opwright.describe.journal",
    "value_and_grad": "opwright.run.differentiating",
}
_MODULES = (
    "commands",
    "device",
    "errors",
    "kernel",
    "op",
    "ops",
    "plugin",
    "rewriting",
    "runtime",
    "vocabulary",
)

# Written out, for type checkers read no expressions.
__all__ = [
    "Block",
    "Context",
    "Network",
    "Operator",
    "Parameter",
    "Program",
    "Scope",
    "Variable",
    "append_backward",
    "check_feed",
    "context_guard",
    "current_context",
    "default_main_program",
    "default_scope",
    "default_startup_program",
    "explain",
    "get_include",
    "get_num_threads",
    "grad",
    "list_ops",
    "LoadedProgram",
    "Lock",
    "load",
    "load_program",
    "load_tensors",
    "name_guard",
    "names_read_first",
    "op_proto",
    "program_guard",
    "save",
    "scope_guard",
    "set_num_threads",
    "transaction",
    "value_and_grad",
    "commands",
    "device",
    "errors",
    "kernel",
    "op",
    "ops",
    "plugin",
    "rewriting",
    "runtime",
    "vocabulary",
    "__version__",
]

if TYPE_CHECKING:
    from opwright import (
        commands,
        device,
        errors,
        kernel,
        op,
        ops,
        plugin,
        rewriting,
        runtime,
        vocabulary,
    )
    from opwright._runtime import Scope
    from opwright.backward import append_backward
    from opwright.describe.journal import transaction
    from opwright.device.feeds import check_feed
    from opwright.kernel import explain
    from opwright.lowering.lock import Lock
    from opwright.plugins.catalog import list_ops, op_proto
    from opwright.plugins.context import Context, context_guard, current_context
    from opwright.plugins.include import get_include
    from opwright.plugins.threads import get_num_threads, set_num_threads
    from opwright.program import (
        Block,
        Operator,
        Parameter,
        Program,
        Variable,
        default_main_program,
        default_scope,
        default_startup_program,
        name_guard,
        program_guard,
        scope_guard,
    )
    from opwright.program.files import LoadedProgram, load_program, load_tensors, save
    from opwright.registry import OpRegistry
    from opwright.run.bindings import names_read_first
    from opwright.run.differentiating import grad, value_and_grad
    from opwright.run.loading import load
    from opwright.run.network import Network


class _UnknownNameError(AttributeError):
    """Looks for the nearest name when it is shown: ``from opwright import a_module`` drops it."""

    def __str__(self) -> str:
        from opwright.describe.names import hint

        (name,) = self.args
        near = hint(name, __all__) if not name.startswith("_") else ""
        return f"module 'opwright' has no attribute {name!r}{near}"


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"opwright.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise _UnknownNameError(name)
    value = getattr(import_module(home), name)
    globals()[name] = value  # the next access does not come here
    return value


def _find_operators() -> OpRegistry:
    return import_module("opwright.plugins.context").current_context().ops  # type: ignore[no-any-return]


def _find_function(op_type: str) -> Callable[..., Any]:
    return getattr(import_module("opwright.ops"), op_type)  # type: ignore[no-any-return]


provide(_find_operators, _find_function)


def __dir__() -> list[str]:
    return sorted(__all__)
