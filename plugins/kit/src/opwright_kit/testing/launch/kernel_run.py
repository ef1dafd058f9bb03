"""The outcome of one run of a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from opwright_kit.testing.samples.sample import Array

POISON: Final = 0xFF
"""The byte in outputs and guards before the run: NaN in floats, -1 in integers."""


@dataclass(frozen=True)
class KernelRun:
    """The outcome of one run of a kernel.

    Attributes
    ----------
    outputs : dict of str to list of ndarray
        By slot, each in separate memory.
    inputs : dict of str to list of ndarray
        The inputs after the run.
    changed : tuple of str
        Inputs whose bytes changed though no output shares them: ``"x"``, ``"x[1]"``.
    broken_guards : tuple of str
        Writes outside of every array: ``"3 bytes before out"``.
    untouched : dict of str to list of ndarray of bool
        By output slot, true where an element contains only poison. A kernel may have written just
        that: an element is unwritten where this holds for two different poisons.
    """

    outputs: dict[str, list[Array]]
    inputs: dict[str, list[Array]]
    changed: tuple[str, ...]
    broken_guards: tuple[str, ...]
    untouched: dict[str, list[Array]]
