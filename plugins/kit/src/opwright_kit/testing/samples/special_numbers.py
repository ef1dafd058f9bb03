"""Samples with one element replaced by a special value, such as NaN or infinity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from opwright.op import is_float
from opwright_kit.testing.samples.sample import Sample, element_name, meta_of, widen

NOT_FINITE: Final = (np.nan, np.inf, -np.inf)


class Place(NamedTuple):
    """One element of one input.

    Attributes
    ----------
    slot : str
    item : int
        The index of the array in its slot.
    at : tuple of int
    """

    slot: str
    item: int
    at: tuple[int, ...]

    def __str__(self) -> str:
        return element_name(self.slot, self.at)


def choose_places(sample: Sample, most: int, rng: np.random.Generator) -> Iterator[Place]:
    """Yield at most `most` places in each array of floats."""
    for slot, arrays in sample.inputs.items():
        for item, array in enumerate(arrays):
            if is_float(meta_of(array).dtype):
                indices = rng.choice(array.size, min(most, array.size), replace=False)
                for flat in sorted(indices.tolist()):
                    at = tuple(int(i) for i in np.unravel_index(flat, array.shape))
                    yield Place(slot, item, at)


def number_at(sample: Sample, place: Place) -> float:
    """Return the number at a place."""
    return float(widen(sample.inputs[place.slot][place.item])[place.at])


def with_number(sample: Sample, place: Place, number: float) -> Sample:
    """Return the sample with a different number at one place."""
    arrays = list(sample.inputs[place.slot])
    changed = np.array(arrays[place.item])
    with np.errstate(over="ignore"):  # may overflow to infinity in a narrower dtype
        changed[place.at] = number
    arrays[place.item] = changed
    inputs = {**sample.inputs, place.slot: tuple(arrays)}
    return sample.with_inputs(inputs, f"{place} is {number:g}")


def filled_with(sample: Sample, slot: str, number: float) -> Sample:
    """Return the sample with one number in all elements of a single-array slot."""
    array = np.full_like(sample.inputs[slot][0], number)
    inputs = {**sample.inputs, slot: (array,)}
    return sample.with_inputs(inputs, f"{slot} is {number:g} everywhere")
