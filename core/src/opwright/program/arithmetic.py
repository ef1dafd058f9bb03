"""Symbols on Variables, such as ``x + 1``, ``x @ y`` and ``x[:, 1:]``, append operators.

The core does not contain operators, so each symbol is mapped to an operator type below, which is
looked up when the symbol is used. If no plugin provides the operator, the error names the package
to install. Numbers and arrays as operands become constants, as in any call of `opwright.ops`. For
an array attribute of other libraries, the error names the equivalent function, such as
``opwright.ops.sum(x)`` for ``x.sum()``.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import numpy as np

from opwright.context.context import current_context
from opwright.describe.dtypes import Array, is_float
from opwright.errors import DtypeError, ProgramError

if TYPE_CHECKING:
    from opwright.program.variable import Variable


_FETCH: Final = "fetch it: opwright.Network(block).compile(feed, fetch=[x])"

_ANSWERS: Final = {
    "T": "write opwright.ops.transpose(x, axes=[1, 0])",
    "astype": "write opwright.ops.cast(x, dtype='float32')",
    "backward": "write opwright.append_backward(x), or minimize(x) of an optimizer",
    "data": _FETCH,
    "dim": "write len(x.shape)",
    "double": "write opwright.ops.cast(x, dtype='float64')",
    "float": "write opwright.ops.cast(x, dtype='float32')",
    "grad": "opwright.append_backward returns pairs of a variable and its gradient",
    "item": _FETCH,
    "long": "write opwright.ops.cast(x, dtype='int64')",
    "ndim": "write len(x.shape)",
    "numel": "write opwright.ops.size(x)",
    "numpy": _FETCH,
    "permute": "write opwright.ops.transpose(x, axes=[1, 0])",
    "to": "write opwright.ops.cast(x, dtype='float32')",
    "tolist": _FETCH,
    "var": "write opwright.ops.variance(x)",
    "view": "write opwright.ops.reshape(x, shape=[-1])",
}
"""Replacements for array attributes of other libraries, if no operator has the same name."""


SYMBOLS: Final = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "//": "floor_divide",
    "%": "mod",
    "**": "power",
    "** number": "pow_scalar",
    "@": "matmul",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
    "&": "logical_and",
    "|": "logical_or",
    "^": "logical_xor",
    "~": "logical_not",
    "-x": "negative",
    "abs": "abs",
}
"""The operator type of each symbol; variants for a plain number take the number as an attribute."""

_RUN: Final = "fetch it: opwright.Network(block).compile(feed, fetch=[variable])"

Operand: TypeAlias = "Variable | Array | np.generic | float"
"""The other operand of a symbol; arrays of any library with DLPack are also accepted."""


BinaryMethod: TypeAlias = "Callable[[Any, Operand], Variable]"


def _binary(symbol: str) -> tuple[BinaryMethod, BinaryMethod]:
    """Return the two methods of a symbol, for a Variable as its left and as its right operand."""

    def on_left(self: Any, other: Operand) -> Variable:
        return _apply(symbol, self, other)

    def on_right(self: Any, other: Operand) -> Variable:
        return _apply(symbol, other, self)

    return on_left, on_right


def _apply(symbol: str, x: Any, y: Any) -> Variable:
    """Append the operator of a symbol; return NotImplemented if a side cannot be an operand."""
    for side in (x, y):
        if not _is_operand(side):
            return NotImplemented  # type: ignore[no-any-return]
        if isinstance(side, Arithmetic):
            _check_side(symbol, side)
    return _append(SYMBOLS[symbol], x, y)


def _is_operand(value: Any) -> bool:
    kinds = (Arithmetic, np.ndarray, np.generic, numbers.Real)
    return isinstance(value, kinds) or hasattr(value, "__dlpack__")


def _append(op_type: str, *operands: Any, **attrs: Any) -> Variable:
    """Append an operator to the current block of the first Variable."""
    variable: Any = next(operand for operand in operands if isinstance(operand, Arithmetic))
    block = variable.block.program.current_block()
    return block.append_call(op_type, operands, attrs)  # type: ignore[no-any-return]


def _check_side(symbol: str, side: Any) -> None:
    if symbol in "&|^~" and _dtype(side) != "bool":
        raise DtypeError(
            f"{symbol}: combines bools, got {side!r}; compare it first, as in (x > 0) {symbol} y, "
            f"or use opwright.ops.{SYMBOLS[symbol]}"
        )


def _dtype(variable: Any) -> str:
    return variable.dtype  # type: ignore[no-any-return]


class NoValueError(ProgramError, TypeError):
    """Raised if a Variable is used where a value is needed."""


def _refusing(what: str, way_out: str) -> Callable[..., Any]:
    """Return a method that always raises NoValueError, because it would need a value."""

    def refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise NoValueError(
            f"{self.name}: a Variable has no value while a program is built, so one cannot {what} "
            f"it, got {self!r}; {way_out}"
        )

    return refuse


_refuse_comparison = _refusing(
    "compare", "elements are compared by opwright.ops.equal and not_equal"
)


class Arithmetic:
    """NumPy's symbols and indexing for Variables.

    ``==`` and ``!=`` compare identity, because sets, lists and dicts contain Variables. To compare
    elements, use ``opwright.ops.equal`` and ``not_equal``; a comparison with a number or an array
    raises an error that names them.
    """

    __slots__ = ()

    __array_ufunc__ = None
    """Makes NumPy pass ``array + variable`` to the Variable."""

    if not TYPE_CHECKING:  # hidden, so that type checkers report unknown names

        def __getattr__(self, name: str) -> NoReturn:
            """Raise AttributeError that names the equivalent function."""
            raise AttributeError(describe_missing(type(self), name))

    __add__, __radd__ = _binary("+")
    __sub__, __rsub__ = _binary("-")
    __mul__, __rmul__ = _binary("*")
    __truediv__, __rtruediv__ = _binary("/")
    __floordiv__, __rfloordiv__ = _binary("//")
    __mod__, __rmod__ = _binary("%")
    _power, __rpow__ = _binary("**")
    __matmul__, __rmatmul__ = _binary("@")
    __and__, __rand__ = _binary("&")
    __or__, __ror__ = _binary("|")
    __xor__, __rxor__ = _binary("^")
    __lt__ = _binary("<")[0]
    __le__ = _binary("<=")[0]
    __gt__ = _binary(">")[0]
    __ge__ = _binary(">=")[0]

    def __pow__(self, other: Operand) -> Variable:
        if isinstance(other, (int, float)) and is_float(_dtype(self)):
            return _append(SYMBOLS["** number"], self, exponent=float(other))
        return self._power(other)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (numbers.Number, np.ndarray)):
            _refuse_comparison(self)
        return self is other

    __hash__ = object.__hash__

    def __invert__(self) -> Variable:
        _check_side("~", self)
        return _append(SYMBOLS["~"], self)

    def __neg__(self) -> Variable:
        return _append(SYMBOLS["-x"], self)

    def __pos__(self) -> Variable:
        return self  # type: ignore[return-value]

    def __abs__(self) -> Variable:
        return _append(SYMBOLS["abs"], self)

    def __getitem__(self, key: Any) -> Variable:
        from opwright.program.indexing import read_key

        out: Any = self
        for op_type, index, attrs in read_key(out, key):
            out = _append(op_type, out, *index, **attrs)
        return out  # type: ignore[no-any-return]

    __setitem__ = _refusing(
        "set a part of", "opwright.ops.slice_scatter returns a copy with it set"
    )
    __bool__ = _refusing(
        "ask for the truth of",
        "test for None with `is None`, choose elements by opwright.ops.where, and operators by "
        "a layer such as cond",
    )
    __len__ = _refusing("take the length of", "x.shape[0] is the length, -1 if it is unknown")
    __iter__ = _refusing("iterate over", "index it, or use opwright.ops.unstack or split")
    __contains__ = _refusing("search in", "take opwright.ops.equal and any")
    __float__ = __int__ = _refusing("make a number of", _RUN)
    __index__ = _refusing("make an index of", "index with it: opwright.ops.gather(x, index)")
    __array__ = _refusing("make an array of", _RUN)


def describe_missing(owner: type, name: str) -> str:
    """Return the message for an attribute that a Variable does not have."""
    start = f"{owner.__name__}: unknown attribute, got {name!r}"
    if name.startswith("_") or hasattr(owner, name):  # a slot without a value so far
        return start
    answer = _ANSWERS.get(name)
    if answer is None and name in current_context().ops:
        answer = f"write opwright.ops.{name}(x)"
    return start if answer is None else f"{start}; {answer}"
