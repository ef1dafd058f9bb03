"""The options of the plugin, as read by kernels."""

from __future__ import annotations

from typing import Final, NamedTuple

ALLOW_TF32: Final = "cuda.allow_tf32"
"""The option that allows products and convolutions of float32 to round factors to TF32."""

TUNE: Final = "cuda.tune"
"""The option that benchmarks cuDNN engines and cuBLASLt algorithms when a plan is created."""

ALLOW_VARYING: Final = "cuda.allow_varying"
"""The option that allows convolutions to use nondeterministic cuDNN engines."""


class EngineChoice(NamedTuple):
    """The criteria by which a cuDNN engine is chosen."""

    allows_tf32: bool = False
    tunes: bool = False
    allows_varying: bool = False
