"""Symbolic sizes: objects that support arithmetic and record comparisons."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

Sizes = Mapping[int, int]
"""The size that each symbol stands for; its key is the size with which it was created."""


class Symbol:
    """An expression of sizes. It has a value for comparisons, but cannot be converted to a number.

    All expressions of one symbol share ``guards``, which lists comparisons and their results.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, evaluate: Callable[[Sizes], int], value: int, guards: list[Any]) -> None:
        self.evaluate = evaluate
        self.value = value
        self.guards = guards

    @classmethod
    def of(cls, size: int, guards: list[Any]) -> Symbol:
        return cls(lambda sizes: sizes[size], size, guards)

    def _refuse(self) -> Any:
        raise TypeError("a symbol cannot be converted to a number")

    __int__ = __index__ = __float__ = __bool__ = _refuse

    def __neg__(self) -> Symbol:
        return 0 - self


def evaluate(dim: Any, sizes: Sizes) -> int:
    """Return the value of a dimension, which is a symbol or an int."""
    return dim.evaluate(sizes) if isinstance(dim, Symbol) else dim


def _calculating(compute: Callable[[int, int], int], is_reflected: bool) -> Any:
    def method(self: Symbol, other: Any) -> Any:
        if not isinstance(other, (int, Symbol)):
            return NotImplemented
        a, b = (other, self) if is_reflected else (self, other)
        guards = self.guards

        def evaluated(sizes: Sizes) -> int:
            return compute(evaluate(a, sizes), evaluate(b, sizes))

        values = [x.value if isinstance(x, Symbol) else x for x in (a, b)]
        return Symbol(evaluated, compute(*values), guards)

    return method


def _comparing(compare: Callable[[int, int], bool]) -> Any:
    def method(self: Symbol, other: Any) -> Any:
        if not isinstance(other, (int, Symbol)):
            return NotImplemented
        value = other.value if isinstance(other, Symbol) else other
        result = compare(self.value, value)
        self.guards.append(
            lambda sizes: compare(evaluate(self, sizes), evaluate(other, sizes)) == result
        )
        return result

    return method


_CALCULATIONS: Final = ("add", "sub", "mul", "floordiv", "mod")
_COMPARISONS: Final = ("lt", "le", "gt", "ge", "eq", "ne")

for _name in _CALCULATIONS:
    setattr(Symbol, f"__{_name}__", _calculating(getattr(operator, _name), False))
    setattr(Symbol, f"__r{_name}__", _calculating(getattr(operator, _name), True))
for _name in _COMPARISONS:
    setattr(Symbol, f"__{_name}__", _comparing(getattr(operator, _name)))
