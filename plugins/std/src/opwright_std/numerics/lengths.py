"""Lengths of padded sequences: their valid range, and the default, which is all steps."""

from __future__ import annotations

import numpy as np

from opwright_std.numerics.dtypes import Array


def read_lengths(who: str, lengths: Array | None, steps: int, n: int) -> Array:
    """Return the length of each of n sequences, int64 [n].

    Parameters
    ----------
    who : str
        Operator type and slot, ``"lstm: lengths"``, the beginning of the error.
    lengths : int array [n] or None
        Each in [0, steps], otherwise ValueError is raised; None means all steps.
    steps, n : int
    """
    if lengths is None:
        return np.full(n, steps, np.int64)
    if lengths.size and (lengths.min() < 0 or lengths.max() > steps):
        wrong = lengths[(lengths < 0) | (lengths > steps)][0]
        raise ValueError(f"{who} must be in [0, {steps}], got {wrong}")
    return lengths.astype(np.int64, copy=False)
