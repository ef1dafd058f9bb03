"""The operators that share a prefix, as attributes of one object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opwright.context import Context, current_context


class Namespace:
    """Operators whose types begin with ``prefix``; ``opwright.ops`` itself has the prefix "".

    Its own names begin with an underscore: every other one may be an operator's.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._context: Context | None = None
        self._records: object = None
        self._found: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"<opwright.ops.{self._prefix.rstrip('.')}: {', '.join(self._names())}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._get(name)

    def __dir__(self) -> list[str]:
        return self._names()

    def _get(self, name: str) -> Callable[..., Any] | Namespace:
        """Return the function of an operator, or the namespace of a plugin.

        Raises
        ------
        AttributeError
            Where there is neither; it is an `OperatorNotFoundError` too, and names the nearest.
        """
        context = current_context()
        if context is not self._context or context.records is not self._records:
            # Functions bind the operators of one context, as they were found last.
            self._context, self._records, self._found = context, context.records, {}
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = self._make(name, context)
        return found

    def _names(self) -> list[str]:
        """The operators and namespaces here, sorted."""
        types = current_context().ops.types()
        inner = {t[len(self._prefix) :] for t in types if t.startswith(self._prefix)}
        return sorted({name.partition(".")[0] for name in inner})

    def _make(self, name: str, context: Context) -> Callable[..., Any] | Namespace:
        from opwright.ops.function import make_function

        op_type = self._prefix + name
        definition = context.ops.find(op_type)
        if definition is not None and definition.plan_only:
            raise _plan_only(op_type)
        if definition is not None:
            return make_function(definition, context)
        if any(t.startswith(op_type + ".") for t in context.ops.types()):
            return Namespace(op_type + ".")
        raise _not_found(op_type, context)


def _plan_only(op_type: str) -> AttributeError:
    from opwright.ops.missing import MissingOperatorError

    return MissingOperatorError(
        f"{op_type}: an operator that is called must not be plan-only, got one that only passes "
        "put into plans; call the operators that it stands for"
    )


def _not_found(op_type: str, context: Context) -> AttributeError:
    """An AttributeError, so that ``hasattr`` works, that is an OperatorNotFoundError as well."""
    from opwright.ops.missing import MissingOperatorError

    return MissingOperatorError(str(context.ops.not_found(op_type)))
