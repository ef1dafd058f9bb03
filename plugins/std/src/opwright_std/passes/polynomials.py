"""Represents values computed by sums and products as polynomials of other values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from opwright.rewriting import LoweredOp, Value, input_of
from opwright_std.passes.softmax_cross_entropy import constant_of

Polynomial = dict[tuple[int, ...], float]
"""The factor of each product of powers, by the exponents."""

_Rule = Callable[[Polynomial, Polynomial, Mapping[str, Any]], Polynomial | None]

MOST_FACTORS: Final = 4
_MOST_VALUES: Final = 24
"""Limit on the values read for one polynomial, since sums may go back through all layers."""

_FLOAT64_ERROR: Final = 1e-12
_OTHER_ERROR: Final = 1e-5
"""For float32 and narrower: sources write sqrt(0.5) as 0.70711, with a relative error of 5e-6."""


def is_near(found: Polynomial | None, wanted: Polynomial, dtype: str) -> bool:
    """Return whether polynomials have equal factors, up to the rounding of numbers of a dtype."""
    error = _FLOAT64_ERROR if dtype == "float64" else _OTHER_ERROR
    return (
        found is not None
        and found.keys() == wanted.keys()
        and all(math.isclose(found[powers], wanted[powers], rel_tol=error) for powers in wanted)
    )


def expand(value: Value, bases: tuple[Value, ...], ops: dict[LoweredOp, None]) -> Polynomial | None:
    """Return a value as a polynomial of other values, or None; add its operators to `ops`."""
    known: dict[Value, Polynomial | None] = {}
    for i, base in enumerate(bases):
        known[base] = {(0,) * i + (1,) + (0,) * (len(bases) - i - 1): 1.0}

    def find(value: Value | None) -> Polynomial | None:
        if value is None:
            return None
        if value not in known and len(known) < _MOST_VALUES:
            known[value] = None  # for a value that depends on itself
            known[value] = read(value)
        return known.get(value)

    def read(value: Value) -> Polynomial | None:
        op = value.op
        rule = None if op is None else ARITHMETIC.get(op.type)
        if op is None or rule is None:
            number = constant_of(value)
            return None if number is None else {(0,) * len(bases): number}
        x = None if value.source is not None else find(input_of(op, "x"))
        if x is None:
            return None
        y = find(input_of(op, "y")) if "y" in op.definition.input_index else {}
        if y is None:
            return None
        ops[op] = None
        return rule(x, y, op.attrs)

    return find(value)


def _add(x: Polynomial, y: Polynomial, factor: float = 1.0) -> Polynomial:
    return {p: x.get(p, 0.0) + factor * y.get(p, 0.0) for p in x | y}


def _multiply(x: Polynomial, y: Polynomial) -> Polynomial | None:
    product: Polynomial = {}
    for p, a in x.items():
        for q, b in y.items():
            powers = tuple(map(sum, zip(p, q, strict=True)))
            product[powers] = product.get(powers, 0.0) + a * b
    return product if max(map(sum, product), default=0) <= MOST_FACTORS else None


def _divide(x: Polynomial, y: Polynomial) -> Polynomial | None:
    ((powers, number),) = y.items() if len(y) == 1 else (((1,), 0.0),)
    return {p: a / number for p, a in x.items()} if number and not any(powers) else None


def _raise(x: Polynomial, exponent: float) -> Polynomial | None:
    result: Polynomial | None = x
    if exponent not in range(1, MOST_FACTORS + 1):
        return None
    for _ in range(int(exponent) - 1):
        result = None if result is None else _multiply(result, x)
    return result


def _scale(x: Polynomial, attrs: Mapping[str, Any]) -> Polynomial:
    zero = {tuple(0 for _ in powers): attrs["bias"] for powers in x}
    return _add({p: attrs["scale"] * a for p, a in x.items()}, zero if attrs["bias"] else {})


ARITHMETIC: Final[Mapping[str, _Rule]] = {
    "add": lambda x, y, attrs: _add(x, y),
    "subtract": lambda x, y, attrs: _add(x, y, -1.0),
    "multiply": lambda x, y, attrs: _multiply(x, y),
    "divide": lambda x, y, attrs: _divide(x, y),
    "scale": lambda x, y, attrs: _scale(x, attrs),
    "square": lambda x, y, attrs: _multiply(x, x),
    "pow_scalar": lambda x, y, attrs: _raise(x, attrs["exponent"]),
}
"""Computes the polynomial of an operator from the polynomials of ``x`` and ``y``."""
