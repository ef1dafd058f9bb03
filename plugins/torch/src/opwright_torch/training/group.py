"""The input of an optimizer rule: the variables of one parameter group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import opwright as ow

Number = Any
"""A float, or a float64 Variable [1] for an option that changes between steps."""


class Item(NamedTuple):
    """One parameter with its gradient and optimizer state.

    Attributes
    ----------
    param, grad : Variable
    state : mapping of str to Variable
        The optimizer states, in the shape of the parameter.
    place : int
        Index of the parameter in vectors with one number per parameter.
    """

    param: ow.Variable
    grad: ow.Variable
    state: Mapping[str, ow.Variable]
    place: int


@dataclass
class Group:
    """Parameters with shared options, in the program to which their updates are appended.

    Attributes
    ----------
    items : sequence of Item
    numbers : mapping of str to Number
    nonzero : frozenset of str
        Names of nonzero numbers.
    flags : mapping of str to bool
    steps : Variable, optional
        float64 [n], the number of this step for each parameter.
    fresh : Variable, optional
        float64 [n], 1 for a parameter that does not have a state yet, otherwise 0.
    is_finite : Variable, optional
        A bool that enables the update; without it, updates are unconditional.
    """

    items: Sequence[Item]
    numbers: Mapping[str, Number]
    nonzero: frozenset[str]
    flags: Mapping[str, Any]
    steps: Any
    fresh: Any
    is_finite: ow.Variable | None
    _casts: dict[tuple[int, str, bool], ow.Variable] = field(default_factory=dict)
    _held: list[Any] = field(default_factory=list)

    def number(self, name: str) -> Number:
        """Return an option."""
        return self.numbers[name]

    def has(self, name: str) -> bool:
        """Whether a numeric option is nonzero."""
        return name in self.nonzero

    def is_fixed(self, *numbers: Number) -> bool:
        """Return whether an operator with these numbers as attributes can update parameters.

        Steps that may be skipped need the old values, which an operator would overwrite.
        """
        return self.is_finite is None and all(isinstance(number, float) for number in numbers)

    def pieces(self, vector: ow.Variable) -> Sequence[ow.Variable]:
        """Return the elements of a vector as Variables of shape [1]."""
        (n,) = vector.shape or (1,)
        return [vector] if n == 1 else ow.ops.split(vector, axis=0, num=n)

    def cast(self, number: Number, item: Item) -> Number:
        """Return a number in the dtype of a parameter; its shape is [] for a scalar parameter."""
        if isinstance(number, float):
            return number
        is_scalar = not item.param.shape
        key = id(number), item.param.dtype, is_scalar
        if key not in self._casts:
            narrow = ow.ops.cast(number, dtype=item.param.dtype)
            self._casts[key] = ow.ops.reshape(narrow, shape=[]) if is_scalar else narrow
            self._held.append(number)
        return self._casts[key]

    def gradient(self, item: Item, decays: bool = True) -> ow.Variable:
        """Return the gradient of the minimized objective, including weight decay."""
        grad = -item.grad if self.flags["maximize"] else item.grad
        if decays and self.has("weight_decay"):
            grad = grad + item.param * self.cast(self.number("weight_decay"), item)
        return grad

    def update(
        self,
        op_type: str,
        item: Item,
        grad: ow.Variable,
        attrs: Mapping[str, Any],
        states: Mapping[str, ow.Variable] | None = None,
        rate: ow.Variable | None = None,
    ) -> None:
        """Append an opwright-std optimizer that updates the parameter and states in place."""
        rate = self.number("lr") if rate is None else rate
        inputs = {"param": item.param, "grad": grad, "learning_rate": rate, **(states or {})}
        item.param.block.append_op(op_type, inputs=inputs, attrs=attrs)

    def write(self, variable: ow.Variable, value: ow.Variable) -> None:
        """Append the update of a parameter or state; it has no effect in a skipped step."""
        write(variable, value, self.is_finite)


def write(variable: ow.Variable, value: ow.Variable, condition: ow.Variable | None = None) -> None:
    """Append a conditional write to a variable of the scope."""
    if condition is not None:
        value = ow.ops.where(condition, value, variable)
    variable.block.append_op("assign", {"x": value}, {"out": variable.name})
