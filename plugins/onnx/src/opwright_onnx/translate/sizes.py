"""Integer vectors with known and unknown items: shapes, and values computed from shapes.

If only the batch size of a model is unknown, the other sizes of a reshape become constants. Kernels
and rows can use these constants, and no operator computes them at run time.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import opwright as ow

if TYPE_CHECKING:
    from opwright_onnx.translate.translator import Translator

Item = Any
"""An integer, or a Variable of shape [1]."""

MAX_ITEMS: Final = 64
MAX_RANK: Final = 8
"""The greatest length of a joined vector that is considered a shape."""


class Sizes:
    """A vector or scalar that consists of numbers and Variables.

    Attributes
    ----------
    items : list of int and Variable
    shape : tuple of int
        ``(n,)``, or ``()`` for a scalar.
    dtype : str
    is_natural : bool
        Whether no item can be negative.
    """

    __slots__ = ("_variable", "dtype", "is_natural", "items", "shape")

    def __init__(
        self, items: Sequence[Item], shape: tuple[int, ...], dtype: str, is_natural: bool
    ) -> None:
        self.items = list(items)
        self.shape = shape
        self.dtype = dtype
        self.is_natural = is_natural
        self._variable: ow.Variable | None = None

    def variable(self, t: Translator) -> ow.Variable:
        """Return a Variable with all items; its operators are appended to the current block."""
        made = self._variable
        if made is not None and t.block.find_var(made.name) is made:
            return made
        parts: list[Any] = [
            item if isinstance(item, ow.Variable) else np.array([item], "int64")
            for item in self.items
        ]
        found = t._append("concat", {"x": parts}, {"axis": 0}) if len(parts) > 1 else parts[0]
        found = t.cast(found, self.dtype)
        self._variable = new = t.variable(found if self.shape else t.reshape(found, []))
        return new


def make_sizes(
    items: Sequence[Item], shape: tuple[int, ...], dtype: str, is_natural: bool
) -> Sizes | np.ndarray[Any, Any]:
    """Return an array if all items are known, otherwise Sizes."""
    if any(isinstance(item, ow.Variable) for item in items):
        return Sizes(items, shape, dtype, is_natural)
    return np.array(items, dtype).reshape(shape)


def reads_sizes(type: str, values: Sequence[Any]) -> bool:
    """Return whether an operator reads Sizes, or joins known and computed sizes to a shape."""
    if any(isinstance(value, Sizes) for value in values):
        return True
    if type != "concat" or not any(isinstance(value, np.ndarray) for value in values):
        return False
    shapes = [value.shape for value in values]
    are_vectors = all(shape is not None and len(shape) == 1 for shape in shapes)
    return (
        are_vectors
        and all(str(value.dtype) == "int64" for value in values)
        and all(0 < shape[0] <= MAX_RANK for shape in shapes)
        and sum(shape[0] for shape in shapes) <= MAX_RANK
    )


def fold_sizes(t: Translator, type: str, bound: Mapping[str, Any], named: Mapping[str, Any]) -> Any:
    """Return the result of an operator on sizes, or None if the operator needs Variables."""
    if type in _PAIRS:
        return _combine(t, type, bound["x"], bound["y"])
    folds = _FOLDS.get(type)
    return None if folds is None else folds(t, bound, named)


def _as_sizes(value: Any) -> Sizes | None:
    """Return `value` as Sizes if it is Sizes or a small integer array, otherwise None."""
    if isinstance(value, Sizes):
        return value
    if not isinstance(value, np.ndarray) or value.ndim > 1 or value.size > MAX_ITEMS:
        return None
    if value.dtype.kind not in "iu":
        return None
    items = [int(number) for number in value.reshape(-1)]
    return Sizes(items, value.shape, value.dtype.name, all(item >= 0 for item in items))


def _split(t: Translator, value: Any) -> Sizes | None:
    """Return an integer Variable of a known length as Sizes, otherwise None."""
    if not isinstance(value, ow.Variable) or value.dtype not in ("int32", "int64"):
        return None
    shape = value.shape
    if shape is None or len(shape) != 1 or not 0 < shape[0] <= MAX_ITEMS:
        return None
    wide = t.cast(value, "int64")
    items = [wide] if shape == (1,) else [t.slice(wide, [0], [i], [i + 1]) for i in range(shape[0])]
    return Sizes(items, (shape[0],), value.dtype, is_natural=False)


def _divided(a: int, b: int) -> int | None:
    return a // b if b else None


def _rest(a: int, b: int) -> int | None:
    return a % b if b else None


_PAIRS: Final[dict[str, Callable[[int, int], int | None]]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "floor_divide": _divided,
    "mod": _rest,
    "maximum": max,
    "minimum": min,
}
_NEUTRAL: Final = {"add": 0, "subtract": 0, "multiply": 1, "floor_divide": 1}
"""The identity element as right operand; for commutative operators also as left operand."""


def _combine(t: Translator, type: str, x: Any, y: Any) -> Any:
    a, b = _as_sizes(x), _as_sizes(y)
    if a is None or b is None:
        return None
    count = max(len(a.items), len(b.items))
    if {len(a.items), len(b.items)} - {1, count}:
        return None
    pairs = zip(a.items * (count // len(a.items)), b.items * (count // len(b.items)))
    items = [_pair(t, type, *pair) for pair in pairs]
    if None in items:
        return None
    shape = (count,) if a.shape or b.shape else ()
    is_natural = a.is_natural and b.is_natural and type != "subtract"
    return make_sizes(items, shape, a.dtype, is_natural)


def _pair(t: Translator, type: str, a: Item, b: Item) -> Item:
    if isinstance(a, int) and isinstance(b, int):
        return _PAIRS[type](a, b)
    if type in _NEUTRAL and isinstance(b, int) and b == _NEUTRAL[type]:
        return a
    if type in ("add", "multiply") and isinstance(a, int) and a == _NEUTRAL[type]:
        return b
    parts = [np.array([v], "int64") if isinstance(v, int) else v for v in (a, b)]
    return t.op(type, *parts)


def _gather(t: Translator, bound: Mapping[str, Any], named: Mapping[str, Any]) -> Any:
    x, index = bound["x"], bound["index"]
    if not isinstance(x, Sizes) or not isinstance(index, np.ndarray) or index.ndim > 1:
        return None
    places = [int(i) for i in index.reshape(-1)]
    if not x.shape or any(not 0 <= i < len(x.items) for i in places):
        return None
    return make_sizes([x.items[i] for i in places], index.shape, x.dtype, x.is_natural)


def _slice(t: Translator, bound: Mapping[str, Any], named: Mapping[str, Any]) -> Any:
    x = bound["x"]
    bounds = [*named["starts"], *named["ends"], *named.get("steps", ())]
    if not isinstance(x, Sizes) or list(named["axes"]) != [0] or not x.shape:
        return None
    if any(isinstance(bound, ow.Variable) for bound in bounds):
        return None
    step = bounds[2] if len(bounds) > 2 else 1
    if step <= 0:
        return None
    items = x.items[bounds[0] : bounds[1] : step]
    return make_sizes(items, (len(items),), x.dtype, x.is_natural)


def _concat(t: Translator, bound: Mapping[str, Any], named: Mapping[str, Any]) -> Any:
    parts = [_as_sizes(part) or _split(t, part) for part in bound["x"]]
    if any(part is None or not part.shape for part in parts):
        return None
    known = [part for part in parts if part is not None]
    items = [item for part in known for item in part.items]
    is_natural = all(part.is_natural for part in known)
    return make_sizes(items, (len(items),), known[0].dtype, is_natural)


def _reshaped(t: Translator, bound: Mapping[str, Any], named: Mapping[str, Any]) -> Any:
    """Fold squeeze, unsqueeze and reshape between a scalar and a one-item vector."""
    x = bound["x"]
    count = len(x.items)
    if "shape" in named:
        shape = tuple(named["shape"])
        shape = (count,) if shape == (-1,) else shape
    else:
        shape = () if x.shape else (1,)
        if x.shape not in ((), (1,)):
            return None
    if shape not in ((), (count,)) or (shape == () and count != 1):
        return None
    return Sizes(x.items, shape, x.dtype, x.is_natural)


def _cast(t: Translator, bound: Mapping[str, Any], named: Mapping[str, Any]) -> Any:
    x, dtype = bound["x"], named["dtype"]
    if dtype not in ("int32", "int64"):
        return None
    return Sizes(x.items, x.shape, dtype, x.is_natural)


def _assign(t: Translator, bound: Mapping[str, Any], named: Mapping[str, Any]) -> Any:
    return bound["x"]


def _negative(t: Translator, bound: Mapping[str, Any], named: Mapping[str, Any]) -> Any:
    return _combine(t, "multiply", bound["x"], np.array(-1, bound["x"].dtype))


def _equal(t: Translator, bound: Mapping[str, Any], named: Mapping[str, Any]) -> Any:
    """Evaluate decidable comparisons; a natural size never equals a negative number."""
    a, b = _as_sizes(bound["x"]), _as_sizes(bound["y"])
    if a is None or b is None or len(a.items) != len(b.items):
        return None
    found = []
    for x, y in zip(a.items, b.items):
        if x is y or (isinstance(x, int) and isinstance(y, int)):
            found.append(x is y or x == y)
        elif (isinstance(y, int) and y < 0 and a.is_natural) or (
            isinstance(x, int) and x < 0 and b.is_natural
        ):
            found.append(False)
        else:
            return None
    return np.array(found).reshape(a.shape or b.shape)


def _where(t: Translator, bound: Mapping[str, Any], named: Mapping[str, Any]) -> Any:
    condition, a, b = bound["condition"], _as_sizes(bound["x"]), _as_sizes(bound["y"])
    if not isinstance(condition, np.ndarray) or a is None or b is None:
        return None
    if not condition.shape == a.shape == b.shape:
        return None
    items = [x if c else y for c, x, y in zip(condition.reshape(-1), a.items, b.items)]
    return make_sizes(items, a.shape, a.dtype, a.is_natural and b.is_natural)


def _prod(t: Translator, bound: Mapping[str, Any], named: Mapping[str, Any]) -> Any:
    x = bound["x"]
    total: Item = 1
    for item in x.items:
        total = _pair(t, "multiply", total, item)
    return make_sizes([total], (1,) if named.get("keepdims") else (), x.dtype, x.is_natural)


_FOLDS: Final[dict[str, Callable[..., Any]]] = {
    "assign": _assign,
    "cast": _cast,
    "concat": _concat,
    "equal": _equal,
    "gather": _gather,
    "negative": _negative,
    "prod": _prod,
    "reshape": _reshaped,
    "slice": _slice,
    "squeeze": _reshaped,
    "unsqueeze": _reshaped,
    "where": _where,
}
