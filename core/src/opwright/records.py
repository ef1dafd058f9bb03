"""NamedTuple as in `typing`, created in a tenth of the time, for modules of every start.

`typing` compiles each annotation, and `collections` the constructor and four methods of each
class. Here classes share the methods, and the code of constructors with as many fields.
"""

from __future__ import annotations

from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING, Any

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from _collections import _tuplegetter  # as in `collections`

    @cache
    def _constructor(n: int) -> Any:
        names = "".join(f"_{i}, " for i in range(n))
        return eval(f"lambda _cls, {names}: _new(_cls, ({names}))").__code__

    class _Record(tuple):
        __slots__ = ()

        @classmethod
        def _make(cls, values: Any) -> Any:
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
            return made

        def _replace(self, /, **changes: Any) -> Any:
            made = self._make(map(changes.pop, self._fields, self))
            if changes:
                raise ValueError(f"Got unexpected field names: {[*changes]!r}")
            return made

        __replace__ = _replace  # for copy.replace of Python 3.13

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self) -> str:
            values = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())
            return f"{type(self).__name__}({values})"

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)

    class _Meta(type):
        def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
            fields = tuple(namespace.get("__annotations__", ()))
            defaults = {field: namespace.pop(field) for field in fields if field in namespace}
            code = _constructor(len(fields)).replace(co_varnames=("_cls", *fields))
            new = FunctionType(code, {"_new": tuple.__new__}, "__new__", (*defaults.values(),))
            new.__qualname__ = f"{name}.__new__"  # for messages
            getters = {field: _tuplegetter(i, None) for i, field in enumerate(fields)}
            own = {"__slots__": (), "_fields": fields, "_field_defaults": defaults, "__new__": new}
            own["__match_args__"] = fields
            return type(name, (_Record,), namespace | getters | own)

    NamedTuple = type.__new__(_Meta, "NamedTuple", (), {})
