"""Draws samples of an operator from its OpProto: shapes, dtypes, attributes with their bounds.

Only the OpProto and the shape rule of an operator are known. So shapes are proposed, first as the
comments of the slots write them (``[n, classes]``), then as operators usually take them, and the
shape rule accepts or refuses each proposal. If that is not enough (an index must be below a length,
a probability between 0 and 1), the package provides a function: see `Draw`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np

from opwright.errors import OpwrightError
from opwright.op import OpDefinition, OpProto, dtype_to_numpy, is_float, numel
from opwright.plugin import hint
from opwright_kit.testing.samples import attributes, proposals
from opwright_kit.testing.samples.sample import Array, Sample


class Case(NamedTuple):
    """A description of a sample.

    Attributes
    ----------
    label : str
    length : int
        Length of its axes, unless something else determines it.
    attrs : mapping
        Fixed attributes; other attributes are drawn, or have their defaults if `plain`.
    plain : bool
        Whether attributes that are not fixed have their defaults.
    others : (int, int)
        Range of lengths of the other axes; its end is exclusive.
    most_elements : int
        The maximum number of elements of all inputs, or of all outputs.
    rows : bool
        Whether `length` is the length of the first axis, usually the batch.
    """

    label: str
    length: int
    attrs: Mapping[str, Any] = {}
    plain: bool = True
    others: tuple[int, int] = (1, 4)
    most_elements: int = 2**19  # an outer product of large axes would take gigabytes
    rows: bool = False


LENGTHS: Final = (7, 8, 9, 15, 16, 17, 31, 33)
"""Around the widths of vector registers: 4 to 32 elements, one less and one more."""

ODD_LENGTHS: Final = (65, 127, 257)
"""Several whole vectors and blocks, and a rest of one element, or of all but one."""

LARGE: Final = 1501
"""Elements along one axis where a kernel may split its work between threads."""

LONG: Final = 5003
"""Elements along one axis that is longer than the blocks in which kernels work."""

WIDE: Final = (33, 41)
"""The length of every axis in one case: products and convolutions use other algorithms on long
axes."""

_MOST_WIDE: Final = 2**16
"""Elements of that case: a cube of such axes."""

_HALF_OF_DRAWN: Final = (17, 500)
"""The range from which a seed draws a number n, for the odd length of about 2 n."""

_TRIES: Final = 120
_PLAIN_UNTIL: Final = 0.5
_RANDOM_CASES: Final = 6

Sampler: TypeAlias = "Callable[[Draw], tuple[Mapping[str, Any], Mapping[str, Any]] | None]"
"""A package's function that draws a sample of one operator: see `Draw`."""


class Draw:
    """Draws the arrays of one sample; the argument of a package's own function.

    The function is named in ``opwright.samples`` and takes a `Draw`. It returns the inputs
    by slot (an array, or a list for a duplicable slot) and the attributes that differ from their
    defaults; or None if this attempt has no valid sample.

    >>> def gather(draw):
    ...     x = draw.floats((draw.length, 3))
    ...     index = draw.integers((4,), 0, max(draw.length, 1), "int64")
    ...     return {"x": x, "index": index}, {"axis": 0}

    Attributes
    ----------
    rng : numpy.random.Generator
        A seeded generator; equal seeds draw equal samples.
    dtype : str
        The dispatch dtype for which the sample is drawn.
    length : int
        The length of an axis: 0, 1, around vector widths, or large.
    rows : bool
        Whether that axis is the first axis, usually the batch.
    label : str
        A description of the case.
    most_elements : int
        The number of elements that the inputs may have together.
    attrs : dict
        Attributes drawn from their declared ranges, bounds included; use those that fit.
    refused : dict of str to sequence of int
        To be filled: by input slot, integers that the operator must refuse at run time.
    without_effect : dict of str to str
        To be filled: attributes that do not change results, each with the reason.
    drops_nan : str
        To be set: why NaN or infinity in an input may give a number.
    loses_tails : str
        To be set: why the gradient may lose precision far from 0.
    flat_at_nan : str
        To be set: why the gradient of a NaN that reaches an output may be 0.
    tolerance : (float, str)
        To be set: how far kernels may differ, relative to the largest number, and why:
        ``(0.02, "weights have 8 bits")``.
    """

    __slots__ = (  # so that a misspelled attribute is an error
        *("_others", "_progress", "attrs", "definition", "drops_nan", "dtype", "flat_at_nan"),
        *("label", "length", "loses_tails", "most_elements", "refused", "rng", "rows"),
        *("tolerance", "without_effect"),
    )

    def __init__(
        self,
        definition: OpDefinition,
        dtype: str,
        case: Case,
        rng: np.random.Generator,
        progress: float = 0.0,
    ) -> None:
        self.definition = definition
        self.rng = rng
        self.dtype = dtype
        self.length = case.length
        self.rows = case.rows
        self.label = case.label
        self.refused: dict[str, Sequence[int]] = {}
        self.without_effect: dict[str, str] = {}
        self.drops_nan = ""
        self.loses_tails = ""
        self.flat_at_nan = ""
        self.tolerance: tuple[float, str] = (0.0, "")
        self.most_elements = case.most_elements
        self._others = case.others
        self._progress = progress
        # Some operators reject every call in which all attributes have their default values.
        plain = case.plain and progress < _PLAIN_UNTIL
        self.attrs = attributes.draw(definition, case.attrs, dtype, plain, rng)

    def propose(self) -> dict[str, tuple[Array, ...]] | None:
        """Return inputs as they are drawn by default, so that some of them can be changed.

        Shapes may not fit: inputs that the shape rule refuses are redrawn. Returns None if a dtype
        does not fit.
        """
        return proposals.draw(self, self._progress)

    def other_length(self) -> int:
        """Return a length for an axis other than the axis of `length`."""
        return int(self.rng.integers(*self._others))

    def floats(
        self,
        shape: Sequence[int],
        low: float = -2.0,
        high: float = 2.0,
        dtype: str | None = None,
    ) -> Array:
        """Return numbers between `low` and `high`, by default of the dispatch dtype.

        An integer dtype draws integers, bool either value.
        """
        name = dtype or self.dtype
        kind = dtype_to_numpy(name)
        if kind.kind == "b":
            return np.asarray(self.rng.random(tuple(shape)) < 0.5)
        if not is_float(name):
            least = max(int(low), 0) if kind.kind == "u" else int(low)
            return self.integers(shape, least, max(int(high), least) + 1, name)
        return np.asarray(self.rng.uniform(low, high, tuple(shape))).astype(kind)

    def integers(self, shape: Sequence[int], low: int, high: int, dtype: str = "int64") -> Array:
        """Return integers in [low, high)."""
        numbers = self.rng.integers(low, max(high, low + 1), tuple(shape))
        return np.asarray(numbers).astype(dtype_to_numpy(dtype))

    def choice(self, values: Sequence[Any]) -> Any:
        """Return one of several values."""
        return values[int(self.rng.integers(len(values)))]


def draw_samples(
    definition: OpDefinition,
    dtype: str,
    seed: int,
    sampler: Sampler | None = None,
    refusals: Counter[str] | None = None,
) -> list[Sample]:
    """Return samples that the operator's shape rule accepts; equal seeds give equal samples.

    Parameters
    ----------
    definition : OpDefinition
    dtype : str
        The dispatch dtype.
    seed : int
    sampler : callable, optional
        The package's own function for the operator.
    refusals : Counter, optional
        Counts the errors by which the operator refuses proposals.
    """
    numbered = enumerate(cases(definition, seed))
    refusals = Counter() if refusals is None else refusals
    samples = (
        _draw_case(definition, dtype, seed, sampler, n, case, refusals) for n, case in numbered
    )
    return [sample for sample in samples if sample is not None]


def draw_sample(
    definition: OpDefinition, dtype: str, seed: int, sampler: Sampler | None = None
) -> Sample | None:
    """Return the first sample of `draw_samples`, with few elements, or None if there is none."""
    first = next(cases(definition, seed))
    return _draw_case(definition, dtype, seed, sampler, 0, first, Counter())


def _draw_case(
    definition: OpDefinition,
    dtype: str,
    seed: int,
    sampler: Sampler | None,
    number: int,
    case: Case,
    refusals: Counter[str],
) -> Sample | None:
    rng = np.random.default_rng([seed, crc32(definition.op_type.encode()), number])
    sample = _draw(definition, dtype, case, rng, sampler, refusals)
    return None if sample is None else replace(sample, number=number)


def cases(definition: OpDefinition, seed: int) -> Iterator[Case]:
    """Yield cases: lengths, attribute bounds, and odd lengths, one of which depends on the seed."""
    yield Case("small", 3)
    yield Case("empty", 0)
    yield Case("no rows", 0, rows=True)
    yield Case("length 1", 1)
    for length in LENGTHS:
        yield Case(f"length {length}", length)
    yield Case(f"length {LARGE}", LARGE)
    yield Case(f"length {LONG}", LONG, others=(1, 3))
    yield Case("no short axis", WIDE[0], others=WIDE, most_elements=_MOST_WIDE)
    for attr in definition.proto.attrs:
        for label, value in attributes.edges(attr):
            yield Case(f"{attr.name} {label}", 3, {attr.name: value})
    for number in range(_RANDOM_CASES):
        yield Case(f"random {number}", 2 + number, plain=False)
    drawn = 2 * int(np.random.default_rng(seed).integers(*_HALF_OF_DRAWN)) + 1
    for length in (*ODD_LENGTHS, drawn):
        # Other axes have length 1 so that kernels that merge axes see this odd length, too.
        yield Case(f"length {length}", length, others=(1, 2))


def _draw(
    definition: OpDefinition,
    dtype: str,
    case: Case,
    rng: np.random.Generator,
    sampler: Sampler | None,
    refusals: Counter[str],
) -> Sample | None:
    for attempt in range(_TRIES):
        draw = Draw(definition, dtype, case, rng, attempt / _TRIES)
        if sampler is not None:
            answer = sampler(draw)
            if answer is None:
                continue
            inputs, attrs = answer
            _check_names(definition.proto, draw, inputs, attrs)
            slot_arrays = {name: _listed(arrays) for name, arrays in inputs.items()}
        else:
            attrs = draw.attrs
            proposal = draw.propose()
            if proposal is None:
                continue
            slot_arrays = proposal
        sample = _accepted(definition, dtype, case, slot_arrays, attrs, rng, refusals)
        if sample is not None:
            return replace(
                sample,
                refused=draw.refused,
                without_effect=draw.without_effect,
                drops_nan=draw.drops_nan,
                loses_tails=draw.loses_tails,
                flat_at_nan=draw.flat_at_nan,
                tolerance=_check_tolerance(draw.tolerance),
            )
    return None


def _check_names(
    proto: OpProto, draw: Draw, inputs: Mapping[str, Any], attrs: Mapping[str, Any]
) -> None:
    """Raise for unknown slots and attributes; values of attributes are checked later."""
    slots = [*proto.input_slots, *proto.output_slots]  # positions may be outputs, for gradients
    known_attrs = [*proto.attr_protos]
    for what, names, kind, known in (
        ("inputs", inputs, "slots", [*proto.input_slots]),
        ("draw.refused", draw.refused, "slots", slots),
        ("attributes", attrs, "attributes", known_attrs),
        ("draw.without_effect", draw.without_effect, "attributes", known_attrs),
    ):
        for name in names:
            if name not in known:
                near = hint(name, known, kind)
                raise ValueError(f"{what} must name {kind} of {proto.type}, got {name!r}{near}")


def _check_tolerance(tolerance: Any) -> tuple[float, str]:
    match tolerance:
        case (float() | int() as number, str(reason)) if 0 <= number < 1 and (reason or not number):
            return number, reason
    raise ValueError(
        f"draw.tolerance must be a number in [0, 1) and a reason, got {tolerance!r}; write "
        '(0.02, "weights have 8 bits")'
    )


def _listed(arrays: Any) -> tuple[Array, ...]:
    return tuple(arrays) if isinstance(arrays, (list, tuple)) else (arrays,)


def _accepted(
    definition: OpDefinition,
    dtype: str,
    case: Case,
    inputs: Mapping[str, tuple[Array, ...]],
    attrs: Mapping[str, Any],
    rng: np.random.Generator,
    refusals: Counter[str],
) -> Sample | None:
    """Return the sample with its output counts, or None if the operator does not accept it."""
    try:
        complete = definition.proto.fill_attrs(attrs)
        sample = Sample(definition.op_type, inputs, complete, {}, case.label, dtype)
        metas = sample.input_metas(definition)
        if definition.dispatch_dtype(metas, complete) != dtype:
            return None
        counts = proposals.output_counts(definition, metas, complete, rng)
        sample = replace(sample, outputs=counts)
        outputs = sample.infer(definition)
    except OpwrightError as error:
        refusals[str(error)] += 1
        return None
    sizes = [sum(numel(m.shape) for slot in side for m in slot) for side in (metas, outputs)]
    return sample if max(sizes) <= case.most_elements else None


__all__ = [
    "Case",
    "Draw",
    "LARGE",
    "LENGTHS",
    "LONG",
    "Sampler",
    "cases",
    "draw_sample",
    "draw_samples",
]
