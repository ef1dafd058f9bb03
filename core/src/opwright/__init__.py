"""opwright, a deep-learning framework made of plugins.

The core describes, finds, connects, differentiates and runs operators, but contains none itself.
Packages installed with it provide operators and kernels. ``import opwright`` imports almost
nothing, and no plugins, because names are imported at first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from opwright._version import __version__

_HOMES = {
    "Block": "opwright.program",
    "Context": "opwright.context.context",
    "Network": "opwright.run.network",
    "Operator": "opwright.program",
    "Parameter": "opwright.program",
    "Program": "opwright.program",
    "Scope": "opwright._runtime",
    "Variable": "opwright.program",
    "append_backward": "opwright.backward.append",
    "check_feed": "opwright.run.feeds",
    "context_guard": "opwright.context.context",
    "current_context": "opwright.context.context",
    "default_main_program": "opwright.program",
    "default_scope": "opwright.program",
    "default_startup_program": "opwright.program",
    "detach_guard": "opwright._runtime",
    "explain": "opwright.kernel",
    "get_include": "opwright.targets.include",
    "get_num_threads": "opwright.context.threads",
    "cut": "opwright.run.cutting",
    "grad": "opwright.run.differentiating",
    "list_ops": "opwright.context.context",
    "LoadedProgram": "opwright.run.loaded",
    "Lock": "opwright.lowering.lock",
    "load": "opwright.run.loading",
    "load_program": "opwright.run.loading",
    "load_translated": "opwright.run.translated",
    "load_tensors": "opwright.program.files.opening",
    "memory": "opwright.run.report",
    "name_guard": "opwright.program",
    "names_read_first": "opwright.program.operator",
    "operators_between": "opwright.program.operator",
    "op_proto": "opwright.context.context",
    "program_guard": "opwright.program",
    "release_memory": "opwright.run.report",
    "save": "opwright.program.files.writing",
    "scope_guard": "opwright.program",
    "set_num_threads": "opwright.context.threads",
    "suggest_arguments": "opwright.messages.arguments",
    "transaction": "opwright.program.journal",
    "value_and_grad": "opwright.run.differentiating",
}
"""Maps each public name to the module that defines it."""

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
"""Public modules."""

__all__ = [*_HOMES, *_MODULES, "__version__"]  # noqa: PLE0604 - all are strings
"""`__init__.pyi` lists these names for type checkers, which do not run this file."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"opwright.{name}")
    home = _HOMES.get(name)
    if home is None:
        near = ""
        if not name.startswith("_"):  # such as a private module, which is then imported
            from opwright.messages.names import hint

            near = hint(name, __all__)
        raise AttributeError(f"module 'opwright' has no attribute {name!r}{near}")
    value = getattr(import_module(home), name)
    globals()[name] = value  # later accesses find it directly
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
