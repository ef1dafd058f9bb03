"""The operators with a common prefix, as attributes of a module.

The runtime's `Namespace` first looks up a name in the module's ``__table__``. The table consists of
the context variable with the guarded Context, the Context of the functions (None for the default
Context), and the functions by name. So a known name costs one lookup, and still depends on the
Context of this thread or task. `Finder.find` handles all other names.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from opwright import _runtime
from opwright.context.context import Context, current_context
from opwright.context.guard import guarded_context
from opwright.errors import OperatorNotFoundError


class MissingOperatorError(OperatorNotFoundError, AttributeError):
    """The operator is unknown. The class is an AttributeError for ``hasattr`` and editors."""


class Finder:
    """Finds the attributes of one namespace: operators with types that begin with ``prefix``.

    `make` creates the function of an operator, from its definition and the Context.
    """

    def __init__(
        self, prefix: str, names: dict[str, Any], make: Callable[..., Any] | None = None
    ) -> None:
        self._prefix = prefix
        self._names = names
        self._make = make
        names["__getattr__"] = self.find
        names["__dir__"] = self.list

    def find(self, name: str) -> Callable[..., Any] | ModuleType:
        """Return an operator function or the namespace of a plugin, or raise AttributeError."""
        if name.startswith("__"):
            raise AttributeError(f"module {self._names['__name__']!r} has no attribute {name!r}")
        context = current_context()
        functions = context.functions.setdefault((self._prefix, self._make), {})
        # The runtime finds the functions of the current Context in this table.
        self._names["__table__"] = (guarded_context, guarded_context.get(), functions)
        value = functions.get(name)
        if value is None:
            value = functions[name] = self._make_value(name, context)
        return value

    def list(self) -> list[str]:
        """Return the operators and namespaces, sorted."""
        types = current_context().ops.types()
        inner = {t[len(self._prefix) :] for t in types if t.startswith(self._prefix)}
        return sorted({name.partition(".")[0] for name in inner})

    def _make_value(self, name: str, context: Context) -> Callable[..., Any] | ModuleType:
        from opwright.run.ops.function import make_function

        op_type = self._prefix + name
        definition = context.ops.find(op_type)
        if definition is not None and definition.plan_only:
            raise MissingOperatorError(
                f"{op_type}: an operator that is called must not be plan-only, got one that only "
                "passes put into plans; call the operators that it replaces"
            )
        if definition is not None:
            return (self._make or make_function)(definition, context)
        if any(t.startswith(op_type + ".") for t in context.ops.types()):
            module = _runtime.Namespace(f"{self._names['__name__']}.{name}")
            Finder(op_type + ".", module.__dict__, self._make)
            return module
        raise MissingOperatorError(str(context.ops.not_found(op_type)))
