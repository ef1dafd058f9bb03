"""One use of an operator: arrays, attributes and the number of its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from opwright.op import (
    Meta,
    OpDefinition,
    VarProto,
    dtype_from_numpy,
    dtype_to_numpy,
    format_shape,
    is_float,
)

Array: TypeAlias = NDArray[Any]
SlotMetas: TypeAlias = tuple[tuple[Meta, ...], ...]


@dataclass(frozen=True)
class Sample:
    """The input of one run of a kernel.

    Attributes
    ----------
    op_type : str
        The operator type.
    inputs : mapping of str to tuple of ndarray
        Arrays by slot, compact; an absent slot is missing or empty.
    attrs : mapping
        Complete attributes, as `OpProto.fill_attrs` gives them.
    outputs : mapping of str to int
        Number of variables in each output slot, 1 if not given.
    label : str
        Its description: ``"empty"``, ``"length 17"``, ``"beta at its minimum"``.
    dtype : str
        The dispatch dtype it was drawn for.
    number : int
        Its number among the samples of one operator, dtype and seed.
    forward : Sample or None
        For a gradient operator, the sample of the operator that it differentiates.
    refused : mapping of str to sequence of int
        By input slot, values that the operator must refuse.
    without_effect : mapping of str to str
        Attributes that do not change results, each with the reason.
    drops_nan : str
        Why NaN or infinity in an input may give a number; empty if it may not.
    loses_tails : str
        Why the gradient may lose precision far from 0; empty if it may not.
    flat_at_nan : str
        Why the gradient of a NaN that reaches an output may be 0; empty if it may not.
    tolerance : (float, str)
        The allowed difference from other kernels, relative to the largest number, and its reason;
        0 if only rounding is allowed.
    """

    op_type: str
    inputs: Mapping[str, tuple[Array, ...]]
    attrs: Mapping[str, Any]
    outputs: Mapping[str, int] = field(default_factory=dict)
    label: str = ""
    dtype: str = ""
    number: int = -1
    forward: Sample | None = None
    refused: Mapping[str, Sequence[int]] = field(default_factory=dict)
    without_effect: Mapping[str, str] = field(default_factory=dict)
    drops_nan: str = ""
    loses_tails: str = ""
    flat_at_nan: str = ""
    tolerance: tuple[float, str] = (0.0, "")

    def input_metas(self, definition: OpDefinition) -> SlotMetas:
        """Return shape and dtype of each array, slot by slot in the order of the OpProto."""
        slots = definition.proto.inputs
        return tuple(tuple(map(meta_of, self.inputs.get(slot.name, ()))) for slot in slots)

    def output_counts(self, definition: OpDefinition) -> tuple[int, ...]:
        """Return the number of variables in each output slot.

        An optional output that aliases an input is present if the input is present.
        """

        def count(slot: VarProto) -> int:
            is_absent = slot.optional and slot.aliases and not self.inputs.get(slot.aliases)
            return self.outputs.get(slot.name, 0 if is_absent else 1)

        return tuple(map(count, definition.proto.outputs))

    def infer(self, definition: OpDefinition) -> SlotMetas:
        """Infer the shapes and dtypes of the outputs by the operator's shape rule.

        Raises
        ------
        OpwrightError
            If the rule does not accept the inputs.
        """
        counts = self.output_counts(definition)
        return definition.infer(self.input_metas(definition), self.attrs, counts)

    def cast(self, dtype: str) -> Sample:
        """Return the sample with this dtype instead of the dtype it was drawn for."""
        target = dtype_to_numpy(dtype)
        inputs = {
            slot: tuple(a.astype(target) if meta_of(a).dtype == self.dtype else a for a in arrays)
            for slot, arrays in self.inputs.items()
        }
        attrs = {
            name: dtype if value == self.dtype else value for name, value in self.attrs.items()
        }
        return replace(self, inputs=inputs, attrs=attrs, dtype=dtype)

    def with_inputs(self, inputs: Mapping[str, tuple[Array, ...]], label: str) -> Sample:
        """Return the sample with other inputs, and a label for them."""
        return replace(self, inputs=inputs, label=label)

    def turned_inputs(self) -> dict[str, tuple[Array, ...]]:
        """Return the inputs shifted by one element, with floats scaled; usually they are valid."""
        return {slot: tuple(map(_turn, arrays)) for slot, arrays in self.inputs.items()}

    def describe(self) -> str:
        """Return the sample as one line: ``x float32[3, 17], beta=0.0 (beta at its minimum)``."""
        parts = [
            f"{variable_name(slot, i, len(arrays))} {_describe(array)}"
            for slot, arrays in self.inputs.items()
            for i, array in enumerate(arrays)
        ]
        parts += [f"{name}={_plain(value)!r}" for name, value in self.attrs.items()]
        parts += [f"{slot}: {n} variables" for slot, n in self.outputs.items() if n != 1]
        text = ", ".join(parts) or "no inputs"
        return f"{text} ({self.label})" if self.label else text


def variable_name(slot: str, index: int, count: int) -> str:
    """Return a variable's name for messages: ``"x"``, or ``"x[1]"`` if the slot has several."""
    return slot if count == 1 else f"{slot}[{index}]"


def element_name(variable: str, at: Sequence[int]) -> str:
    """Return an element's name for messages: ``"x[0, 2]"``, or ``"x"`` if `x` is a scalar."""
    return f"{variable}{list(at) if at else ''}"


def count_elements(sample: Sample) -> int:
    """Return the total number of elements of all inputs."""
    return sum(array.size for arrays in sample.inputs.values() for array in arrays)


def find_first(mask: Array) -> tuple[int, ...] | None:
    """Return the index of the first true element, or None if all are false."""
    if not np.any(mask):
        return None
    return tuple(int(i) for i in np.argwhere(mask)[0])


def differ(a: Array, b: Array) -> Array:
    """Return where elements differ; NaN counts as equal to NaN, also in 8-bit floats."""
    return np.asarray((a != b) & ~((a != a) & (b != b)))


def meta_of(array: Array) -> Meta:
    """Return shape and dtype of an array."""
    return Meta(array.shape, dtype_from_numpy(array.dtype))


def widen(array: Array) -> Array:
    """Return floats as float64 so that they can be compared; return other arrays unchanged."""
    return array.astype(np.float64) if is_float(meta_of(array).dtype) else array


def _turn(array: Array) -> Array:
    turned = np.roll(array.reshape(-1), 1).reshape(array.shape)
    return (turned * 0.75).astype(array.dtype) if is_float(meta_of(array).dtype) else turned


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _describe(array: Array) -> str:
    meta = meta_of(array)
    text = f"{meta.dtype}{format_shape(meta.shape)}"
    if 0 < array.size <= 4:
        text += f" = {array.ravel().tolist()}"
    return text
