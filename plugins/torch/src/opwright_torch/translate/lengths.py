"""Shapes of Variables during translation, including lengths that are unknown before a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy

import opwright as ow
from opwright.errors import OpwrightError, ShapeError
from opwright.op import Meta
from opwright_torch.translate.sizes import Op, Size, has_size, shorten, write_size


def open_shape(shape: Sequence[Any]) -> list[int]:
    """Return a shape for a Program, with -1 for each `Size`."""
    return [-1 if isinstance(dim, Size) else dim for dim in shape]


class Lengths:
    """Tracks symbolic shapes of Variables, and appends the operators that compute a `Size`.

    Parameters
    ----------
    block : Block
        The block of the Program under construction.
    op : callable
        Appends an operator: `Translator.op`.
    """

    def __init__(self, block: ow.Block, op: Op) -> None:
        self._block, self._op = block, op
        self._shapes: dict[str, Sequence[Any]] = {}
        self._places: dict[Any, tuple[ow.Variable, int]] = {}  # the axis that has each length
        self._numbers: dict[Any, ow.Variable] = {}

    def shape(self, x: ow.Variable) -> list[Any]:
        """Return a shape, with a `Size` for unknown lengths; ShapeError if the shape is unknown."""
        shape = list(x.shape or ())
        if -1 not in shape:
            return shape
        known = self._shapes.get(x.name, ())
        if len(known) != len(shape):
            raise ShapeError(
                f"the lengths of a result must follow from the lengths of the inputs, got {x}"
            )
        return [other if dim < 0 else dim for dim, other in zip(shape, known)]

    def set(self, x: ow.Variable, shape: Sequence[Any]) -> None:
        """Record the shape of a Variable, including lengths that are unknown in the Program."""
        x.shape = open_shape(shape)
        self._shapes[x.name] = shape

    def take(self, x: ow.Variable, shape: list[Any]) -> bool:
        """Return whether a result can have a shape; if it can, record the shape."""
        given = list(x.shape or ())
        if -1 not in given and not has_size(shape):
            return given == shape
        if len(given) != len(shape) or any(a not in (-1, b) for a, b in zip(given, shape)):
            return False
        self.set(x, shape)
        return True

    def enter(self, x: ow.Variable, shape: Sequence[Any]) -> None:
        """Record the shape of an input, from which dependent lengths are computed."""
        self._shapes[x.name] = shape
        for axis, dim in enumerate(shape):
            if isinstance(dim, Size) and dim.expr.is_Symbol:
                self._places.setdefault(dim.expr, (x, axis))

    def number(self, size: Size) -> ow.Variable:
        """Return the Variable of a size, an int64 scalar."""
        return self._compute(size.expr, lambda: write_size(size.expr, self._op, self._find_symbol))

    def _compute(self, expr: Any, write: Callable[[], ow.Variable]) -> ow.Variable:
        held = self._numbers.get(expr)
        if held is None or self._block.find_var(held.name) is not held:  # can be rolled back
            held = self._numbers[expr] = write()
        return held

    def _find_symbol(self, symbol: Any) -> ow.Variable:
        return self._compute(symbol, lambda: self._read(symbol))

    def _read(self, symbol: Any) -> ow.Variable:
        if symbol not in self._places:
            raise ShapeError(f"a symbolic length must be the length of an input axis, got {symbol}")
        x, axis = self._places[symbol]
        cut = self._op("slice", self._op("shape", x), axes=[0], starts=[axis], ends=[axis + 1])
        return self._op("squeeze", cut, axis=[0])

    def append(self, proto: Any, inputs: Mapping[str, Any], attrs: dict[str, Any]) -> ow.Operator:
        """Append an operator whose attributes can contain sizes."""
        whole: Any = attrs.get("shape") if proto.type in ("reshape", "expand") else None
        if has_size(whole):
            attrs = {**attrs, "shape": shorten(proto.type, whole, self.shape(inputs["x"]))}
        written = self._block.append_op(proto.type, inputs, {}, self._name_sizes(proto, attrs))
        if has_size(whole) and -1 not in whole:
            self.set(self._block.var(written.output("out")[0]), whole)
        else:
            self._infer(written, attrs)
        return written

    def _name_sizes(self, proto: Any, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes of an operator with variable names for sizes."""
        named = dict(attrs)
        for name, value in attrs.items():
            if not has_size(value):
                continue
            if name not in proto.operands:
                raise ShapeError(f"{proto.type}: {name} must be a number, got {value}")
            items = value if isinstance(value, (list, tuple)) else [value]
            names = [self.number(v).name if isinstance(v, Size) else v for v in items]
            named[name] = names if isinstance(value, (list, tuple)) else names[0]
        return named

    def _infer(self, written: ow.Operator, attrs: Mapping[str, Any]) -> None:
        """Record an operator's output shapes if the Program contains unknown lengths for them."""
        metas = [self._block.var(name).meta for name in written.output_names()]
        if not any(meta is not None and -1 in meta.shape for meta in metas):
            return
        definition = written.definition
        sizes = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in attrs.items()
            if has_size(value)
        }
        outputs = [written.outputs.get(slot.name, ()) for slot in definition.proto.outputs]
        try:
            inputs = tuple(
                tuple(map(self._meta, written.inputs.get(slot.name, ())))
                for slot in definition.proto.inputs
            )
            counts = tuple(map(len, outputs))
            inferred = definition.infer(inputs, {**written.attrs, **sizes}, counts)
        except (OpwrightError, TypeError):  # a shape rule in C++ accepts only numbers
            return
        for names, found in zip(outputs, inferred, strict=True):
            self._shapes.update({name: meta.shape for name, meta in zip(names, found)})

    def _meta(self, name: str) -> Meta:
        variable = self._block.var(name)
        return Meta(tuple(self.shape(variable)), variable.dtype)

    def require(self, condition: Any) -> tuple[ow.Variable, ow.Variable]:
        """Append a reshape of an input; it fails at run time if lengths violate a condition.

        Return the input and the Variable that replaces it.
        """
        symbol = min(condition.free_symbols, key=str)
        x, axis = self._places[symbol]
        holds = self._op("cast", write_size(condition, self._op, self._find_symbol), dtype="int64")
        length = self._op("add", self._op("subtract", self._find_symbol(symbol), holds), 1)
        shape: list[Any] = [0] * len(x.shape or ())
        shape[axis] = length.name
        spelled = {
            size: sympy.Symbol(f"{variable.name}.shape[{place}]")
            for size, (variable, place) in self._places.items()
        }
        text = str(condition.xreplace(spelled))
        name = self._block.program.take_name(f"{x.name} with {text}")
        self._block.append_op("reshape", {"x": x}, {"out": name}, {"shape": shape})
        checked = self._block.var(name)
        self.set(checked, self._shapes[x.name])
        for other, (held, place) in self._places.items():
            if held is x:
                self._places[other] = checked, place
        return x, checked
