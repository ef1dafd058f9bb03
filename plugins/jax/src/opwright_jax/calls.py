"""Describes computations without their arrays, as components and cache keys of programs."""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class Call(NamedTuple):
    """A call of an operator; its arguments are the arrays of all input slots, in order."""

    type: str
    counts: tuple[int, ...]  # arrays in each input slot, -1 if it is absent
    attrs: str  # JSON, which distinguishes 0.0 from -0.0, and 1 from True
    returned: tuple[str, ...]  # output slots
    is_wide: bool  # whether JAX has 64-bit types


class Whole(NamedTuple):
    """A call of a Program, whose arguments are all of its inputs, including parameters."""

    program: bytes
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    is_wide: bool

    def __repr__(self) -> str:
        return f"Program({', '.join(self.arguments)} -> {', '.join(self.results)})"


class Forward(NamedTuple):
    """A computation whose gradients are wanted.

    A `Forward` returns the results of `of`, followed by all other values that the gradients read,
    except arguments. The gradients of the results in `given` determine the gradients of the
    arguments in `wanted`.
    """

    of: What
    given: tuple[int, ...]
    wanted: tuple[int, ...]


class Vjp(NamedTuple):
    """The gradients of a computation.

    A `Vjp` takes the arguments of `of`, then the values of the variables in `saved`, which the
    `Forward` of `of` returns, then the gradients of the results in `given`. It returns the
    gradients of the arguments in `wanted`.
    """

    of: What
    saved: tuple[str, ...]
    given: tuple[int, ...]
    wanted: tuple[int, ...]


What = Call | Whole | Forward | Vjp


def innermost(what: What) -> Call | Whole:
    """Return the call or program that a gradient of any order differentiates."""
    return what if isinstance(what, (Call, Whole)) else innermost(what.of)


def label(what: What) -> str:
    """Return the name of a computation for error messages."""
    if isinstance(what, Vjp):
        return f"gradient of {label(what.of)}"
    if isinstance(what, Forward):
        return label(what.of)
    return what.type if isinstance(what, Call) else "a program"


def write_attrs(attrs: dict[str, Any]) -> str:
    """Return attributes as text."""
    return json.dumps(attrs, sort_keys=True, default=list)


def read_attrs(text: str) -> dict[str, Any]:
    """Return the attributes that `write_attrs` wrote; tuples are written as lists."""
    attrs: dict[str, Any] = json.loads(text)
    return attrs
