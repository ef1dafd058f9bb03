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
    "exchange_rows",
)

PLAN_OPS: Final = ("all_reduce_start", "all_reduce_wait", "compare_plans", "part")
"""What passes make of them."""

SHARD_OPS: Final = ("shard", "reduce_shard", "unshard")
"""Of tensors that are divided evenly among processes; the first one waits for no other."""

SHARD_PLAN_OPS: Final = (
    "reduce_shard_start",
    "reduce_shard_wait",
    "unshard_start",
    "unshard_wait",
)
"""What passes make of them."""
BLOCKS: Final = "blocks"
TABLE: Final = "table"
"""How a whole is divided: in equal blocks, or row by row in turn behind one that all have."""

COLLECTIVE_TYPES: Final = tuple(f"dist.{name}" for name in COLLECTIVES)

SHARD_TYPES: Final = tuple(f"dist.{name}" for name in SHARD_OPS[1:])
"""Those in which processes meet."""

COMPARED_TYPES: Final = (
    *COLLECTIVE_TYPES,
    *SHARD_TYPES,
    *("dist.all_reduce_start", "dist.reduce_shard_start", "dist.unshard_start", "dist.part"),
)
"""Those that all processes of a group must run in one order."""

BUCKET_BYTES: Final = "bucket_bytes"
"""The option, without ``dist.``: a bucket takes tensors until it has as many bytes."""

DEFAULT_BUCKET_BYTES: Final = 2 << 20
"""One large reduction is slow, and many small ones pay their latency: 1 to 4 MB are best."""
