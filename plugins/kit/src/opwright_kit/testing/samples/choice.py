"""Chooses few small samples of floats, for rules that run a kernel many times on each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Final

from opwright_kit.testing.samples.sample import Sample, count_elements

_MOST_ELEMENTS: Final = 600
_MOST_SAMPLES: Final = 3
"""Of each dtype, besides those with other attributes."""


class SampleChoice:
    """The samples that a rule has used so far, and whether it wants another one.

    Parameters
    ----------
    dtypes : collection of str
        The dispatch dtypes to use.
    """

    def __init__(self, dtypes: Collection[str]) -> None:
        self._dtypes = dtypes
        self._counts: Counter[str] = Counter()
        self._kinds: set[tuple[str, str]] = set()

    def wants(self, sample: Sample) -> bool:
        """Return whether a sample is small, and adds to those that were used."""
        if sample.dtype not in self._dtypes or not 0 < count_elements(sample) <= _MOST_ELEMENTS:
            return False
        kind = (sample.dtype, str(sample.attrs))
        if kind in self._kinds and self._counts[sample.dtype] >= _MOST_SAMPLES:
            return False
        self._kinds.add(kind)
        return True

    def add(self, sample: Sample) -> None:
        """Count a sample that was used."""
        self._counts[sample.dtype] += 1

    @property
    def is_empty(self) -> bool:
        """Whether no sample was used."""
        return not self._counts
