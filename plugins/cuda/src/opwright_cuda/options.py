"""The options of the plugin, as read by kernels."""

from __future__ import annotations

from typing import Final, NamedTuple

ALLOW_TF32: Final = "cuda.allow_tf32"
"""Option: products and convolutions of float32 may round factors to TF32."""

TUNE: Final = "cuda.tune"
"""Option: benchmark cuDNN's engines and cuBLASLt's algorithms when a plan is made."""

ALLOW_VARYING: Final = "cuda.allow_varying"
"""Convolutions may use nondeterministic engines of cuDNN."""


class EngineChoice(NamedTuple):
    """The criteria for choosing one of cuDNN's engines."""

    allows_tf32: bool = False
    tunes: bool = False
    allows_varying: bool = False
