"""The words that core itself uses: the operator types that it emits, and reserved names.

See `opwright.describe.vocabulary` for what each of them means.
"""

from __future__ import annotations

from opwright.describe.vocabulary import (
    ADD_N,
    ASSIGN,
    CAST,
    EMITTED_TYPES,
    FILL_LIKE,
    GRAD_SUFFIX,
    OUT,
    PROVIDER,
    SCAN,
    SEED_ATTR,
    STEP,
    STEP_SLOT,
    STREAM_ATTR,
    X,
)

__all__ = [
    "ADD_N",
    "ASSIGN",
    "CAST",
    "EMITTED_TYPES",
    "FILL_LIKE",
    "GRAD_SUFFIX",
    "OUT",
    "PROVIDER",
    "SCAN",
    "SEED_ATTR",
    "STEP",
    "STEP_SLOT",
    "STREAM_ATTR",
    "X",
]
