"""``fuse_formulas``: replace operators that compute a known formula step by step by one operator.

Exporters write activations, softmax and normalizations as sums, products and roots. If constants
and shapes match the formula, these operators are replaced by one, whose kernel reads its input
once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from opwright.rewriting import (
    Graph,
    LoweredOp,
    Value,
    input_of,
    make_if_served,
    other_input,
    output_of,
    writer_of,
)
from opwright_std.names import CURVES, ROOTS, SCALED_CURVES
from opwright_std.passes.polynomials import ARITHMETIC, MOST_FACTORS, Polynomial, expand, is_near
from opwright_std.passes.softmax_cross_entropy import constant_of

_GELU: Final[Polynomial] = {(1, 0): 0.5, (1, 1): 0.5}
_PRODUCT: Final[Polynomial] = {(1, 1): 1.0}
_TANH: Final = math.sqrt(2 / math.pi)

_ACTIVATIONS: Final[Mapping[str, tuple[str, dict[str, Any], Polynomial, Polynomial]]] = {
    "erf": ("gelu", {"approximate": "none"}, {(1,): math.sqrt(0.5)}, _GELU),
    "tanh": ("gelu", {"approximate": "tanh"}, {(1,): _TANH, (3,): _TANH * 0.044715}, _GELU),
    "sigmoid": ("silu", {}, {(1,): 1.0}, _PRODUCT),
    "relu6": ("hard_swish", {}, {(0,): 3.0, (1,): 1.0}, {(1, 1): 1 / 6}),
    "hard_sigmoid": ("hard_swish", {}, {(1,): 1.0}, _PRODUCT),
}
"""Maps the operator of a curve to the activation that is a product of x and the curve: its type,
its attributes, the polynomial of x inside of the curve, and the polynomial of x and the curve."""


def fuse_formulas(graph: Graph) -> None:
    """Fuse operators into ``softmax``, ``layer_norm``, ``rms_norm`` and activations."""
    for op_types, others, read in (
        (("divide",), ("sum",), _read_softmax),
        (ROOTS, ("mean",), _read_norm),
        (CURVES, ("multiply",), _read_activation),
        (SCALED_CURVES, ("scale", "fill", "fill_like"), _read_activation),
    ):
        if not graph.of_type(*others):  # in every such formula
            continue
        edit = graph.edit()
        for op in graph.of_type(*op_types):
            formula = read(graph, op)
            if formula is None:
                continue
            made = make_if_served(graph, formula.op_type, *formula.slots, formula.attrs, op)
            if made is not None:
                edit.fuse(formula.list_ops(graph), [made])
        edit.apply()


class _Formula:
    """An operator that exporters write step by step.

    Attributes
    ----------
    op_type : str
    ops : dict of LoweredOp to None
        The operators that compute it step by step.
    slots : pair of dict of str to Value or None
        Inputs and outputs.
    attrs : dict
    """

    def __init__(self, ops: Iterable[LoweredOp] = ()) -> None:
        self.ops = dict.fromkeys(ops)
        self.op_type = ""
        self.slots: tuple[dict[str, Value | None], dict[str, Value | None]] = ({}, {})
        self.attrs: dict[str, Any] = {}

    def add(self, *ops: LoweredOp) -> None:
        self.ops.update(dict.fromkeys(ops))

    def become(self, op_type: str, x: Value, out: Value, **attrs: Any) -> _Formula:
        self.op_type, self.attrs = op_type, attrs
        self.slots = ({"x": x}, {"out": out})
        return self

    def list_ops(self, graph: Graph) -> list[LoweredOp]:
        """Return the formula's operators, and the operators that create constants only for them."""
        readers = graph.uses().readers
        numbers = {
            value.op
            for op in self.ops
            for values in op.inputs
            for value in values
            if value.op is not None and constant_of(value) is not None
        }
        for number in numbers:
            if all(reader in self.ops for value in number.writes() for reader in readers(value)):
                self.add(number)
        return [*self.ops]


# -- softmax ---------------------------------------------------------------------------------------


def _read_softmax(graph: Graph, divide: LoweredOp) -> _Formula | None:
    """exp(x - max(x)) / sum(exp(x - max(x))), along one axis."""
    powers = input_of(divide, "x")
    total, exp = writer_of(input_of(divide, "y"), "sum"), writer_of(powers, "exp")
    subtract = None if exp is None else writer_of(input_of(exp, "x"), "subtract")
    if total is None or exp is None or subtract is None or input_of(total, "x") is not powers:
        return None
    x, highest = input_of(subtract, "x"), writer_of(input_of(subtract, "y"), "max")
    out = output_of(divide, "out")
    if x is None or highest is None or out is None or input_of(highest, "x") is not x:
        return None
    axes = _kept_axes(total, x)
    if len(axes) != 1 or axes != _kept_axes(highest, x):
        return None
    formula = _Formula([highest, subtract, exp, total, divide])
    return formula.become("softmax", x, out, axis=axes[0])


def _kept_axes(reduction: LoweredOp, x: Value) -> list[int]:
    """Return the axes that a reduction keeps with size 1, or an empty list if it removes them."""
    rank = len(x.meta.shape)
    axes = sorted({axis % rank for axis in reduction.attrs["axis"]} or range(rank)) if rank else []
    return axes if reduction.attrs["keepdims"] else []


# -- normalizations --------------------------------------------------------------------------------


def _read_norm(graph: Graph, root: LoweredOp) -> _Formula | None:
    """(x - mean(x)) / sqrt(mean(square) + epsilon) * scale + bias; or just x in the numerator."""
    formula = _Formula()
    moment, epsilon = _read_root(formula, root)
    squared = None if moment is None else _squared(formula, input_of(moment, "x"))
    if moment is None or squared is None:
        return None
    axes, rank = _kept_axes(moment, squared), len(squared.meta.shape)
    begin = rank - len(axes)
    if not axes or axes != [*range(begin, rank)]:
        return None
    divided = _divided(graph, formula, root)
    if divided is None:
        return None
    numerator, out = divided
    x = _centered(formula, squared, begin)
    if numerator is not squared and (x is None or _centered(formula, numerator, begin) is not x):
        return None
    shape = squared.meta.shape[begin:]
    scale, out = _behind(graph, formula, "multiply", out, shape)
    bias = None
    if x is not None and scale is not None:
        bias, out = _behind(graph, formula, "add", out, shape)
    kind = "rms_norm" if x is None else "layer_norm"
    formula.become(kind, squared if x is None else x, out, begin_norm_axis=begin, epsilon=epsilon)
    formula.slots[0].update({"scale": scale} if x is None else {"scale": scale, "bias": bias})
    side, statistic = ("inv_rms", None) if x is None else ("inv_std", "mean")
    lead = squared.meta._replace(shape=squared.meta.shape[:begin])
    for slot in filter(None, (statistic, side)):
        formula.slots[1][slot] = graph.value(f"{out.name}/{slot}", lead)
    return formula


def _read_root(formula: _Formula, root: LoweredOp) -> tuple[LoweredOp | None, float]:
    """Return the mean under a root, and the number added to the mean."""
    inside = input_of(root, "x")
    if abs(_power(root)) != 0.5 or inside is None or inside.op is None:
        return None, 0.0
    for moment in (inside, *(value for values in inside.op.inputs for value in values)):
        mean = writer_of(moment, "mean")
        if mean is None or moment.meta != inside.meta:
            continue
        found = {(0,): 0.0, **(expand(inside, (moment,), formula.ops) or {})}
        epsilon = found.pop((0,))
        if found == {(1,): 1.0} and 0 <= epsilon < math.inf:
            formula.add(root, mean)
            return mean, epsilon
    return None, 0.0


def _power(op: LoweredOp) -> float:
    """Return the exponent of a root, or 0 for other operators."""
    exponents = {"sqrt": 0.5, "rsqrt": -0.5}
    return exponents.get(op.type, float(op.attrs.get("exponent", 0.0)))


def _squared(formula: _Formula, value: Value | None) -> Value | None:
    """Return x if a value is the square of x."""
    op = writer_of(value, "square", "pow_scalar", "multiply")
    if op is None:
        return None
    x = input_of(op, "x")
    is_square = op.type == "square" or op.attrs.get("exponent") == 2.0
    if not is_square and (op.type != "multiply" or input_of(op, "y") is not x):
        return None
    formula.add(op)
    return x


def _centered(formula: _Formula, value: Value, begin: int) -> Value | None:
    """Return x if a value is x minus its mean over axis `begin` and later axes."""
    subtract = writer_of(value, "subtract")
    x = None if subtract is None else input_of(subtract, "x")
    mean = None if subtract is None else writer_of(input_of(subtract, "y"), "mean")
    if subtract is None or x is None or mean is None or input_of(mean, "x") is not x:
        return None
    if _kept_axes(mean, x) != [*range(begin, len(x.meta.shape))]:
        return None
    formula.add(mean, subtract)
    return x


def _divided(graph: Graph, formula: _Formula, root: LoweredOp) -> tuple[Value, Value] | None:
    """Return the value divided by a root or multiplied by its inverse, and the result."""
    of_root = output_of(root, "out")
    reader = None if of_root is None else graph.uses().only_reader(of_root)
    if reader is None or of_root is None:
        return None
    is_inverse = _power(root) < 0
    if not is_inverse and reader.type in ("divide", "reciprocal"):
        numerator = input_of(reader, "x")
        formula.add(reader)
        if reader.type == "divide" and (numerator is None or input_of(reader, "y") is not of_root):
            return None
        if reader.type == "divide" and constant_of(numerator) is None:
            return _checked(numerator, output_of(reader, "out"))
        if reader.type == "divide" and constant_of(numerator) != 1.0:
            return None
        of_root, is_inverse = output_of(reader, "out"), True
        reader = None if of_root is None else graph.uses().only_reader(of_root)
    if not is_inverse or reader is None or reader.type != "multiply" or of_root is None:
        return None
    formula.add(reader)
    return _checked(other_input(reader, of_root), output_of(reader, "out"))


def _checked(numerator: Value | None, out: Value | None) -> tuple[Value, Value] | None:
    if numerator is None or out is None or numerator.meta != out.meta:
        return None
    return numerator, out


def _behind(
    graph: Graph, formula: _Formula, op_type: str, out: Value, shape: tuple[int, ...]
) -> tuple[Value | None, Value]:
    """If `out` has a single reader of type `op_type`, return its other input and its output.

    Otherwise return None and `out`.
    """
    reader = graph.uses().only_reader(out)
    if reader is None or reader.type != op_type:
        return None, out
    other, result = other_input(reader, out), output_of(reader, "out")
    if other is None or result is None or other.meta.shape != shape or result.meta != out.meta:
        return None, out
    formula.add(reader)
    return other, result


# -- activations -----------------------------------------------------------------------------------


def _read_activation(graph: Graph, curve: LoweredOp) -> _Formula | None:
    """0.5 x (1 + erf(x / sqrt(2))), x sigmoid(x) and the like, in any order of the factors."""
    op_type, attrs, inner, outer = _ACTIVATIONS[curve.type]
    result, inside = output_of(curve, "out"), input_of(curve, "x")
    if result is None or inside is None or not _is_plain(curve, result.meta.dtype):
        return None
    bases: list[Value] = []
    for out in _results_behind(graph, result, bases, is_sum=len(outer) > 1):
        for x in bases:
            formula, dtype = _Formula([curve]), x.meta.dtype
            if (
                out.meta == x.meta
                and is_near(expand(inside, (x,), formula.ops), inner, dtype)
                and is_near(expand(out, (x, result), formula.ops), outer, dtype)
            ):
                return formula.become(op_type, x, out, **attrs)
    return None


def _is_plain(curve: LoweredOp, dtype: str) -> bool:
    """Return whether a curve has its default attributes; only hard_sigmoid can differ."""
    if curve.type != "hard_sigmoid":
        return True
    found: Polynomial = {(0,): curve.attrs["beta"], (1,): curve.attrs["alpha"]}
    return is_near(found, {(0,): 0.5, (1,): 1 / 6}, dtype)


def _results_behind(
    graph: Graph, curve: Value, bases: list[Value], is_sum: bool
) -> Iterator[Value]:
    """Follow the chain of only readers from `curve`; yield the first product and later results.

    Add to `bases` the other factor of each product, and the inputs of the multiplication, division
    or scaling that computes this factor. The chain ends at a sum unless `is_sum` is set.
    """
    value: Value | None = curve
    only_reader = graph.uses().only_reader
    for _ in range(MOST_FACTORS):
        reader = None if value is None else only_reader(value)
        if reader is None or value is None or reader.type not in ARITHMETIC:
            return
        if not is_sum and reader.type in ("add", "subtract"):
            return
        other = other_input(reader, value) if reader.type == "multiply" else None
        if other is not None and constant_of(other) is None:
            bases.append(other)
            scaled = writer_of(other, "multiply", "divide", "scale")
            bases.extend(v for values in (scaled.inputs if scaled else ()) for v in values)
        value = output_of(reader, "out")
        if bases and value is not None:
            yield value
