"""Chooses few samples of floats, most of them small, for rules that run a kernel many times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Final

from opwright_kit.testing.samples.sample import Sample, count_elements

_MOST_ELEMENTS: Final = 600
_MOST_SAMPLES: Final = 3
"""Samples of each dtype, besides samples with other attributes."""

_MOST_OF_LARGE: Final = 2**14


class SampleChoice:
    """The samples that a rule has used so far, and whether it needs another sample.

    Parameters
    ----------
    dtypes : collection of str
        The dispatch dtypes to use.
    most_large : int
        The number of additional samples, of up to 16384 elements, of each dtype.
    """

    def __init__(self, dtypes: Collection[str], most_large: int = 0) -> None:
        self._dtypes = dtypes
        self._most_large = most_large
        self._counts: Counter[str] = Counter()
        self._large: Counter[str] = Counter()
        self._kinds: set[tuple[str, str]] = set()

    def wants(self, sample: Sample) -> bool:
        """Return whether to use a sample.

        A small sample is used if its dtype and attributes are new, or few of its dtype were used; a
        large sample if fewer than `most_large` of its dtype were used.
        """
        n_elements = count_elements(sample)
        if sample.dtype not in self._dtypes or not 0 < n_elements <= _MOST_OF_LARGE:
            return False
        if n_elements > _MOST_ELEMENTS:
            return self._large[sample.dtype] < self._most_large
        kind = (sample.dtype, str(sample.attrs))
        if kind in self._kinds and self._counts[sample.dtype] >= _MOST_SAMPLES:
            return False
        self._kinds.add(kind)
        return True

    def add(self, sample: Sample) -> None:
        """Count a sample that was used."""
        counts = self._large if count_elements(sample) > _MOST_ELEMENTS else self._counts
        counts[sample.dtype] += 1

    @property
    def is_empty(self) -> bool:
        """Whether no sample was used."""
        return not self._counts and not self._large
