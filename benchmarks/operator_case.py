"""A case of the single-operator benchmark, with inputs and attributes for one size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

SIZES: Final = (1_000, 100_000, 10_000_000)
COLUMNS: Final = 100


@dataclass(frozen=True)
class Spec:
    """An array of uniform random numbers in a range, which are integers for integer dtypes."""

    shape: tuple[int, ...]
    low: float = 0.1
    high: float = 2.0
    dtype: str = "float32"
    then: Callable[[Array], Array] | None = None

    def make(self, rng: np.random.Generator) -> Array:
        """Return the array, passed through `then` if it is given."""
        drawn = self._draw(rng)
        return drawn if self.then is None else self.then(drawn)

    def _draw(self, rng: np.random.Generator) -> Array:
        if self.dtype == "bool":
            return rng.random(self.shape) < 0.5
        if self.dtype.startswith("int"):
            return rng.integers(int(self.low), int(self.high), self.shape).astype(self.dtype)
        return rng.uniform(self.low, self.high, self.shape).astype(self.dtype)


Specs = Mapping[str, Spec | Sequence[Spec]]


@dataclass(frozen=True)
class Case:
    """One operator at one size.

    Attributes
    ----------
    op : str
    size : int
        The approximate number of elements that the operator reads or writes.
    layout : str
        Empty, or one word: ``broadcast``, ``rows``, ``columns``.
    inputs : mapping
    attrs : mapping
    graded : tuple of str
        Inputs whose gradient is also measured; empty if the operator has no gradient.
    """

    op: str
    size: int
    inputs: Specs
    attrs: Mapping[str, Any] = field(default_factory=dict)
    layout: str = ""
    graded: tuple[str, ...] = ()

    def make_inputs(self) -> dict[str, Any]:
        """Return the arrays by slot, the same in every process."""
        rng = np.random.default_rng(1)
        return {
            slot: spec.make(rng) if isinstance(spec, Spec) else [one.make(rng) for one in spec]
            for slot, spec in self.inputs.items()
        }
