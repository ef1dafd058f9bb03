"""Formulas in bodies and compositions: ``x * (1.0 - x)`` emits two operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from opwright.errors import GradientError
from opwright.op import BodyContext, GradientContext
from opwright_std.numerics.dtypes import HALVES

Operand: TypeAlias = "Expression | float"


class Expression:
    """A variable of a body; arithmetic with it emits operators.

    Attributes
    ----------
    name : str
        The variable.
    """

    __slots__ = ("_b", "name")

    def __init__(self, b: BodyContext | GradientContext, name: str | None) -> None:
        self._b = b
        self.name = name or ""

    def then(self, op_type: str, **attrs: Any) -> Expression:
        """Emit an operator with one input."""
        return Expression(self._b, self._b.emit(op_type, {"x": self.name}, attrs=attrs))

    def each(self, op_type: str, count: int, **attrs: Any) -> list[Expression]:
        """Emit an operator with one input and `count` outputs; emit nothing if `count` is 0."""
        if count == 0:
            return []
        names = self._b.emit_multi(op_type, {"x": self.name}, {"out": count}, attrs)["out"]
        return [Expression(self._b, name) for name in names]

    def with_(self, op_type: str, y: Expression, **attrs: Any) -> Expression:
        """Emit an operator with two inputs, this and `y`."""
        return Expression(
            self._b, self._b.emit(op_type, {"x": self.name, "y": y.name}, attrs=attrs)
        )

    def like(self, other: Expression, op_type: str = "reshape_like") -> Expression:
        """Emit `reshape_like`, `expand_like`, `sum_like` or `cast_like`."""
        inputs = {"x": self.name, "like": other.name}
        return Expression(self._b, self._b.emit(op_type, inputs))

    def filled(self, value: float) -> Expression:
        """Return an array of this shape filled with a number."""
        return self.then("fill_like", value=value)

    def compare(self, op_type: str, value: float) -> Expression:
        """Compare each element with a number."""
        return self.with_(op_type, self.filled(value))

    def choose(self, x: Expression, y: Expression) -> Expression:
        """Return x where this condition is true, and y elsewhere."""
        inputs = {"condition": self.name, "x": x.name, "y": y.name}
        return Expression(self._b, self._b.emit("where", inputs))

    def take(self, index: Expression, axis: int) -> Expression:
        """Return the elements at positions along an axis; the other axes broadcast."""
        inputs = {"x": self.name, "index": index.name}
        return Expression(self._b, self._b.emit("take_along_axis", inputs, attrs={"axis": axis}))

    def reduce(self, op_type: str, axis: Sequence[int]) -> Expression:
        """Reduce axes, keeping them with length 1."""
        return self.then(op_type, axis=list(axis), keepdims=True)

    def __neg__(self) -> Expression:
        return self.then("negative")

    def __add__(self, other: Operand) -> Expression:
        if isinstance(other, Expression):
            return self.with_("add", other)
        return self.then("scale", scale=1.0, bias=float(other))

    __radd__ = __add__

    def __sub__(self, other: Operand) -> Expression:
        if isinstance(other, Expression):
            return self.with_("subtract", other)
        return self.then("scale", scale=1.0, bias=-float(other))

    def __rsub__(self, other: float) -> Expression:
        return self.then("scale", scale=-1.0, bias=float(other))

    def __mul__(self, other: Operand) -> Expression:
        if isinstance(other, Expression):
            return self.with_("multiply", other)
        return self.then("scale", scale=float(other), bias=0.0)

    __rmul__ = __mul__

    def __truediv__(self, other: Operand) -> Expression:
        if isinstance(other, Expression):
            return self.with_("divide", other)
        return self * (1.0 / other)

    def __rtruediv__(self, other: float) -> Expression:
        return self.then("reciprocal") * other


def read(b: BodyContext | GradientContext, slot: str) -> Expression:
    """Return an input of the operator whose body or gradient is being written."""
    return Expression(b, b.input(slot))


def result(g: GradientContext) -> Expression:
    """Return the output of the operator whose gradient is being written."""
    return Expression(g, g.output("out"))


def in_float32(write: Callable[[BodyContext], Expression]) -> Callable[[BodyContext], None]:
    """Return a body that emits ``out``; 16-bit floats are computed in float32 and rounded once."""

    def body(b: BodyContext) -> None:
        inputs = {slot.name: b.inputs(slot.name) for slot in b.proto.inputs}
        metas = [b.meta(name) for names in inputs.values() for name in names]
        half = next((meta.dtype for meta in metas if meta and meta.dtype in HALVES), None)
        if half is None:
            b.set_output("out", write(b).name)
            return
        wide = {slot: [_widened(b, name) for name in names] for slot, names in inputs.items()}
        out = b.emit(b.type, wide, attrs=b.attrs)
        b.emit("cast", {"x": out}, {"out": b.output("out")}, {"dtype": half})

    return body


def _widened(b: BodyContext, name: str) -> str:
    meta = b.meta(name)
    if meta is None or meta.dtype not in HALVES:
        return name
    return b.emit("cast", {"x": name}, attrs={"dtype": "float32"})


def read_wide(b: BodyContext, slot: str) -> Expression:
    """Read an input; 16-bit floats are converted to float32."""
    return Expression(b, _widened(b, b.input(slot) or ""))


def rounded_to(b: BodyContext, x: Expression) -> Expression:
    """Cast x to the dtype of input x if that dtype has 16 bits; otherwise return x unchanged."""
    meta = b.meta(b.input("x") or "")
    return x if meta is None or meta.dtype not in HALVES else x.then("cast", dtype=meta.dtype)


def rank_of(b: BodyContext, slot: str) -> int:
    """Return the number of dimensions of an input."""
    return len(shape_of(b, slot))


def shape_of(b: BodyContext | GradientContext, slot: str) -> tuple[int, ...]:
    """Return the shape of an input.

    Raises
    ------
    GradientError
        If it is unknown.
    """
    name = b.input(slot) or ""
    meta = b.meta(name)
    if meta is None:
        raise GradientError(
            f"{b.type}: its gradient depends on the number of dimensions of {slot}, got {name!r} "
            "without a shape; declare it, with -1 for unknown dimensions"
        )
    return meta.shape


def dtype_of(w: BodyContext | GradientContext, slot: str = "x") -> str:
    """Return the dtype of an input, or float32 if it is unknown."""
    meta = w.meta(w.input(slot) or "")
    return "float32" if meta is None else meta.dtype
