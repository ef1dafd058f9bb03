"""One test case of an operator: inputs, attributes, and expected outputs for any kernel.

Case files define tuples of cases named ``CASES``. For every registered kernel of an operator, from
any package, the tests compare the outputs with the reference, and check shapes and gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from zlib import crc32

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]

FLOATS = ("float16", "float32", "float64")
WIDE = ("float32", "float64")
HALVES = ("float16", "bfloat16")
INTS = ("int8", "int32", "int64", "uint8")
NUMBERS = FLOATS + INTS

# 0, 1, and sizes around the width of a vector register.
LENGTHS = (0, 1, 7, 8, 9, 15, 17, 31, 33)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether the dtype is a float; NumPy does not count bfloat16 as a float."""
    return dtype.kind == "f" or dtype == ml_dtypes.bfloat16


@dataclass(frozen=True)
class Values:
    """Explicit values, in the dtype of the case unless `dtype` is given."""

    values: Any
    dtype: str | None = None

    def make(self, dtype: str, seed: int) -> Array:
        """Return the array."""
        return np.array(self.values, dtype=self.dtype or dtype)


@dataclass(frozen=True)
class Random:
    """Uniform random values: integers for integer dtypes, and True or False for bool.

    Attributes
    ----------
    shape : tuple of int
        The shape.
    low, high : float
        The range; integers can take both ends, and unsigned integers begin at 0 or above.
    avoid : tuple of float
        Places where the function has a kink or a pole: no number comes nearer than `gap`.
    distinct : bool
        Whether all numbers differ by as much as possible, for functions that compare them.
    dtype : str, optional
        By default the dtype of the case.
    """

    shape: tuple[int, ...]
    low: float = -2.0
    high: float = 2.0
    avoid: tuple[float, ...] = ()
    gap: float = 0.05
    distinct: bool = False
    dtype: str | None = None

    def make(self, dtype: str, seed: int) -> Array:
        """Return the array; equal seeds return equal numbers in any dtype."""
        kind = np.dtype(self.dtype or dtype)
        rng = np.random.default_rng(seed)
        if kind.kind == "b":
            return np.asarray(rng.random(self.shape) < 0.5)
        low = max(self.low, 0.0) if kind.kind == "u" else self.low
        numbers = rng.uniform(low, self.high, self.shape)
        if self.distinct:
            ordered = np.linspace(low, self.high, numbers.size)
            numbers = rng.permutation(ordered).reshape(self.shape)
        if kind.kind in "iu":
            return np.asarray(np.rint(numbers)).astype(kind)
        for place in self.avoid:
            near = np.abs(numbers - place) < self.gap
            numbers = np.where(near, place + np.where(numbers < place, -1, 1) * self.gap, numbers)
        return np.asarray(numbers).astype(kind)


Source: TypeAlias = Values | Random
Result: TypeAlias = Any


@dataclass(frozen=True, eq=False)
class Case:
    """One operator with inputs and attributes, and its reference.

    Attributes
    ----------
    op : str
        The operator type.
    inputs : mapping
        Input slot to a source, to a list of them for a duplicable slot. Absent slots are missing.
    expected : callable or None
        The reference, a plain formula independent of any kernel: called with the inputs by
        slot (floats as float64) and with `attrs`, it returns an output, or a tuple in the order
        of the slots (a list for a duplicable one, None for an output that is not compared). None:
        the values are checked elsewhere, only shapes and gradients here.
    attrs : mapping
        Attributes that differ from the defaults.
    dtypes : tuple of str
        Dtypes that the case runs in.
    label : str
        Distinguishes the cases of one operator.
    outputs : mapping
        Number of variables in duplicable output slots.
    ulps, terms : float, int
        Tolerance: ``ulps * eps(dtype) * sqrt(terms)``, relative to the expected number or to
        `magnitude`, whichever is larger.
    magnitude : float
        Magnitude of the summands if the result is smaller; 0 requires relative accuracy.
    no_grad : str
        Why the gradient is not compared here.
    known_shapes : str
        Why shapes cannot be inferred while a dimension is unknown.
    no_half_grad : str
        Why the gradient is not compared in 16 bits.
    gradients : callable or None
        The gradients where differences would not show them: at infinities and NaN, in far tails,
        for an infinite `out_grad`. Called like `expected` and with `out_grad`, it returns the
        gradient of an input, or a tuple of the gradients of all inputs that have one.
    out_grad : number or nested lists of them
        The gradient of the first output for `gradients`; it broadcasts.
    """

    op: str
    inputs: Mapping[str, Source | Sequence[Source]]
    expected: Callable[..., Result] | None
    attrs: Mapping[str, Any] = field(default_factory=dict)
    dtypes: tuple[str, ...] = WIDE
    label: str = ""
    outputs: Mapping[str, int] = field(default_factory=dict)
    ulps: float = 4.0
    terms: int = 1
    magnitude: float = 1.0
    no_grad: str = ""
    known_shapes: str = ""
    no_half_grad: str = ""
    gradients: Callable[..., Result] | None = None
    out_grad: Any = 1.0

    def __str__(self) -> str:
        return f"{self.op}-{self.label}" if self.label else self.op

    def make_inputs(self, dtype: str) -> dict[str, list[Array]]:
        """Return the arrays of each slot; every call returns equal arrays."""
        arrays: dict[str, list[Array]] = {}
        for slot, sources in self.inputs.items():
            listed = sources if isinstance(sources, Sequence) else [sources]
            seed = crc32(f"{self} {slot}".encode())
            arrays[slot] = [source.make(dtype, seed + i) for i, source in enumerate(listed)]
        return arrays

    def is_list(self, slot: str) -> bool:
        """Return whether the slot accepts a list."""
        return isinstance(self.inputs.get(slot), Sequence)

    def compute_expected(
        self, inputs: Mapping[str, list[Array]], wide: type[np.floating[Any]] = np.float64
    ) -> tuple[Result, ...]:
        """Return the reference outputs, by slot, computed after float inputs are cast to `wide`."""
        return self._call(self.expected, inputs, wide)

    def compute_gradients(
        self, inputs: Mapping[str, list[Array]], out_grad: Array
    ) -> tuple[Result, ...]:
        """Return the reference gradients of these inputs."""
        return self._call(self.gradients, {**inputs, "out_grad": [out_grad]})

    def _call(
        self,
        reference: Callable[..., Result] | None,
        given: Mapping[str, list[Array]],
        wide: type[np.floating[Any]] = np.float64,
    ) -> tuple[Result, ...]:
        if reference is None:
            return ()
        listed = {slot: [_widen(array, wide) for array in arrays] for slot, arrays in given.items()}
        inputs = {slot: these if self.is_list(slot) else these[0] for slot, these in listed.items()}
        with np.errstate(all="ignore"):
            result = reference(**inputs, **self.attrs)
        return result if isinstance(result, tuple) else (result,)

    def tolerance(self, dtype: np.dtype[Any]) -> tuple[float, float]:
        """Return the relative and the absolute tolerance for outputs of this dtype."""
        info = ml_dtypes.finfo(dtype)
        relative = self.ulps * float(info.eps) * float(np.sqrt(max(self.terms, 1)))
        # Subnormal results always have reduced precision.
        return relative, relative * self.magnitude + 2 * float(info.smallest_subnormal)


def _widen(array: Array, wide: type[np.floating[Any]]) -> Array:
    return array.astype(wide) if is_float(array.dtype) else array


def lengths(make: Callable[[int], Case], skip: Iterable[int] = ()) -> tuple[Case, ...]:
    """Return one case for each length in `LENGTHS` that `skip` does not contain."""
    return tuple(make(length) for length in LENGTHS if length not in set(skip))
