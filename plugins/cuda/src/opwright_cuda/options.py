"""The options of the plugin, and how kernels call them."""

from __future__ import annotations

from typing import Final, NamedTuple

ALLOW_TF32: Final = "cuda.allow_tf32"
"""Products and convolutions of float32 may round what they multiply to TF32."""

TUNE: Final = "cuda.tune"
"""cuDNN's engines and cuBLASLt's algorithms are tried out when a plan is made, and the fastest is
taken."""

ALLOW_VARYING: Final = "cuda.allow_varying"
"""Convolutions may take engines of cuDNN that give other bits in another run."""


class EngineChoice(NamedTuple):
    """What decides which of cuDNN's engines computes a graph."""

    allows_tf32: bool = False
    tunes: bool = False
    allows_varying: bool = False
