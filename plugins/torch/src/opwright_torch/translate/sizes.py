"""Sizes that are unknown before a run, as arithmetic on PyTorch's symbols."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any, Final

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils._sympy import functions as parts

import opwright as ow
from opwright.errors import ShapeError


class Size:
    """A size given by an expression of PyTorch symbols.

    Two sizes are equal only if they are equal for all symbol values, and `<` raises an error if its
    result depends on these values. Decisions made by a row are therefore valid for all values.
    """

    __slots__ = ("symbol",)

    def __init__(self, symbol: torch.SymInt) -> None:
        self.symbol = symbol

    @property
    def expr(self) -> sympy.Expr:
        """The expression in terms of shape symbols."""
        return sympy.expand(self.symbol.node.expr)

    def __repr__(self) -> str:
        return str(self.symbol)

    def __hash__(self) -> int:
        return hash(self.expr)

    def __bool__(self) -> bool:
        return self != 0

    def __index__(self) -> int:
        raise ShapeError(f"a number must be known before a run, got the symbolic size {self}")

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.__index__())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (int, Size)):
            return False
        return _is_zero(self.symbol - _bare(other))

    def __lt__(self, other: Any) -> bool:
        return _decide(self.symbol < _bare(other), self.symbol >= _bare(other))

    def __ge__(self, other: Any) -> bool:
        return not self < other

    def __gt__(self, other: Any) -> bool:
        return _decide(self.symbol > _bare(other), self.symbol <= _bare(other))

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __neg__(self) -> Any:
        return as_size(-self.symbol)

    def __add__(self, other: Any) -> Any:
        return as_size(self.symbol + _bare(other))

    def __sub__(self, other: Any) -> Any:
        return as_size(self.symbol - _bare(other))

    def __rsub__(self, other: Any) -> Any:
        return as_size(_bare(other) - self.symbol)

    def __mul__(self, other: Any) -> Any:
        return as_size(self.symbol * _bare(other))

    def __floordiv__(self, other: Any) -> Any:
        return as_size(self.symbol // _bare(other))

    def __rfloordiv__(self, other: Any) -> Any:
        return as_size(_bare(other) // self.symbol)

    def __mod__(self, other: Any) -> Any:
        return as_size(self.symbol % _bare(other))

    def __rmod__(self, other: Any) -> Any:
        return as_size(_bare(other) % self.symbol)

    __radd__, __rmul__ = __add__, __mul__


def _bare(value: Any) -> Any:
    if not isinstance(value, (int, Size)):
        raise ShapeError(f"sizes must be integers, got {value!r}")
    return value.symbol if isinstance(value, Size) else value


def as_size(value: Any, known: Mapping[Any, int] | None = None) -> Any:
    """Return the value as an int if the `known` symbols determine it, otherwise as a `Size`."""
    if not isinstance(value, torch.SymInt):
        return int(value)
    expr = value.node.expr
    number = sympy.expand(expr if not known else expr.subs(known))
    return int(number) if number.is_number else Size(value)


def _is_zero(difference: Any) -> bool:
    if not isinstance(difference, torch.SymInt):
        return bool(difference == 0)
    is_zero = sympy.expand(difference.node.expr).is_zero
    return bool(is_zero or statically_known_true(difference == 0))


def _decide(holds: Any, fails: Any) -> bool:
    if statically_known_true(holds):
        return True
    if statically_known_true(fails):
        return False
    raise ShapeError(f"a condition must be known before a run, got {holds}")


def has_size(value: Any) -> bool:
    """Return whether an attribute has a symbolic size."""
    items = value if isinstance(value, (list, tuple)) else [value]
    return any(isinstance(item, Size) for item in items)


def shorten(type: str, shape: Iterable[Any], like: Iterable[Any]) -> list[Any]:
    """Return `shape` with 0 or -1 for sizes that a reshape or expand copies from its input.

    A reshape infers one of the remaining lengths, so no operators are needed to compute it.
    """
    old, new = list(like), list(shape)
    shift = len(new) - len(old) if type == "expand" else 0
    for axis, dim in enumerate(new):
        is_kept = (
            0 <= axis - shift < len(old) and isinstance(dim, Size) and dim == old[axis - shift]
        )
        if is_kept:
            new[axis] = -1 if type == "expand" else 0
    open_axes = [axis for axis, dim in enumerate(new) if isinstance(dim, Size)]
    if type == "reshape" and len(open_axes) == 1 and -1 not in new:
        new[open_axes[0]] = -1
    return new


Op = Callable[..., ow.Variable]

_FOLDS: Final[dict[type, str]] = {
    sympy.Add: "add",
    sympy.Mul: "multiply",
    sympy.Max: "maximum",
    sympy.Min: "minimum",
    parts.Max: "maximum",
    parts.Min: "minimum",
    sympy.And: "logical_and",
    sympy.Or: "logical_or",
}
_PAIRS: Final[dict[type, str]] = {
    parts.FloorDiv: "floor_divide",
    parts.CleanDiv: "floor_divide",
    parts.Mod: "mod",
    parts.PythonMod: "mod",
    sympy.Eq: "equal",
    sympy.Ne: "not_equal",
    sympy.StrictLessThan: "less",
    sympy.LessThan: "less_equal",
    sympy.StrictGreaterThan: "greater",
    sympy.GreaterThan: "greater_equal",
}


def write_size(expr: sympy.Expr, op: Op, find: Callable[[sympy.Symbol], ow.Variable]) -> Any:
    """Return a size as a number, or as a Variable that is computed by appended operators.

    Parameters
    ----------
    expr : sympy.Expr
    op : callable
        Appends an operator.
    find : callable
        Returns the Variable of a symbol.
    """
    if expr.is_Integer:
        return int(expr)
    if expr.is_Symbol:
        return find(expr)
    kind, args = type(expr), expr.args
    if kind is sympy.Pow and args[1].is_Integer and args[1] > 0:
        kind, args = sympy.Mul, (args[0],) * int(args[1])
    operands = [write_size(arg, op, find) for arg in args]
    if kind in _FOLDS:
        if kind in (sympy.Add, sympy.Mul):
            numbers = [value for value in operands if isinstance(value, int)]
            combine = math.prod if kind is sympy.Mul else sum
            others = [value for value in operands if not isinstance(value, int)]
            operands = [*others, combine(numbers)] if numbers else others
        return reduce(lambda x, y: _pair(op, _FOLDS[kind], x, y), operands)
    if kind in _PAIRS:
        return _pair(op, _PAIRS[kind], *operands)
    raise ShapeError(f"a size must be computed with +, *, //, %, max and min, got {expr}")


def _pair(op: Op, type: str, x: Any, y: Any) -> ow.Variable:
    x, y = (
        op("fill", shape=[], value=v, dtype="int64") if isinstance(v, int) else v for v in (x, y)
    )
    return op(type, x, y)
