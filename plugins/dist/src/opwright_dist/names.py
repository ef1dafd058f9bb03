"""The operators, by their types without ``dist.``: lists of their own, which import nothing."""

from __future__ import annotations

from typing import Final

COLLECTIVES: Final = (
    "all_reduce",
    "broadcast",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "barrier",
)

PLAN_OPS: Final = ("all_reduce_start", "all_reduce_wait", "compare_plans", "part")
"""What passes make of them."""

COLLECTIVE_TYPES: Final = tuple(f"dist.{name}" for name in COLLECTIVES)

BUCKET_BYTES: Final = "bucket_bytes"
"""The option, without ``dist.``: a bucket takes tensors until it has as many bytes."""

DEFAULT_BUCKET_BYTES: Final = 2 << 20
"""One large reduction is slow, and many small ones pay their latency: 1 to 4 MB are best."""
