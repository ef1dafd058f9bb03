"""The operators that share a prefix, as attributes of a module.

The runtime's `Namespace` looks into the module's ``__table__`` before it does anything else: the
variable that holds the guarded Context, the Context for which the names were found (None: the
default one), and what was found. So a name that is known costs a look-up, and still means what the
Context of this thread or task says. All other names come to `Finder.find`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, NamedTuple

from opwright import _runtime
from opwright.plugins.context import Context, current_context, guarded_context

MAX_TABLES: Final = 4
"""Contexts whose functions are kept: threads with guards of their own shall not take turns."""


class _Kept(NamedTuple):
    """What was found for one Context, as it was discovered then."""

    table: tuple[Any, Context | None, dict[str, Any]]
    context: Context
    records: tuple[Any, ...]


class Finder:
    """Finds the attributes of one namespace: operators whose types begin with ``prefix``."""

    def __init__(self, prefix: str, names: dict[str, Any]) -> None:
        self._prefix = prefix
        self._names = names
        self._kept: dict[Context | None, _Kept] = {}
        self._lock = threading.RLock()  # the collector may run code that looks a name up
        names["__getattr__"] = self.find
        names["__dir__"] = self.list

    def clear(self) -> None:
        """Forget the functions of operators that were discovered anew; pins change none."""
        with self._lock:
            for key, kept in list(self._kept.items()):
                if kept.records is not kept.context.records:
                    del self._kept[key]
                    self._names.pop("__table__", None)

    def find(self, name: str) -> Callable[..., Any] | ModuleType:
        """Return the function of an operator, or the namespace of a plugin.

        Raises
        ------
        AttributeError
            Where there is neither; it is an `OperatorNotFoundError` too, and names the nearest.
        """
        if name.startswith("__"):
            raise AttributeError(f"module {self._names['__name__']!r} has no attribute {name!r}")
        context = current_context()
        found = self._choose(context)
        value = found.get(name)
        if value is None:
            value = found[name] = self._make(name, context)
        return value

    def list(self) -> list[str]:
        """The operators and namespaces here, sorted."""
        types = current_context().ops.types()
        inner = {t[len(self._prefix) :] for t in types if t.startswith(self._prefix)}
        return sorted({name.partition(".")[0] for name in inner})

    def _choose(self, context: Context) -> dict[str, Any]:
        """Have the runtime look into what was found for the current Context; return that."""
        key = guarded_context.get()
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                context.watch(self)
                kept = _Kept((guarded_context, key, {}), context, context.records)
                if len(self._kept) >= MAX_TABLES:
                    del self._kept[next(iter(self._kept))]
                self._kept[key] = kept
            self._names["__table__"] = kept.table
            return kept.table[2]

    def _make(self, name: str, context: Context) -> Callable[..., Any] | ModuleType:
        from opwright.run.ops.function import make_function

        op_type = self._prefix + name
        definition = context.ops.find(op_type)
        if definition is not None and definition.plan_only:
            raise _plan_only(op_type)
        if definition is not None:
            return make_function(definition, context)
        if any(t.startswith(op_type + ".") for t in context.ops.types()):
            return make_namespace(op_type + ".")
        raise _not_found(op_type, context)


def make_namespace(prefix: str) -> ModuleType:
    """Return the module with the operators whose types begin with ``prefix``."""
    module = _runtime.Namespace("opwright.ops." + prefix.rstrip("."))
    Finder(prefix, module.__dict__)
    return module


def _plan_only(op_type: str) -> AttributeError:
    from opwright.run.ops.missing import MissingOperatorError

    return MissingOperatorError(
        f"{op_type}: an operator that is called must not be plan-only, got one that only passes "
        "put into plans; call the operators that it stands for"
    )


def _not_found(op_type: str, context: Context) -> AttributeError:
    """An AttributeError, so that ``hasattr`` works, that is an OperatorNotFoundError as well."""
    from opwright.run.ops.missing import MissingOperatorError

    return MissingOperatorError(str(context.ops.not_found(op_type)))
