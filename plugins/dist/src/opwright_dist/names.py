"""The operator names, without ``dist.``; this module does not import other modules."""

from __future__ import annotations

from collections.abc import Mapping
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
"""Operators that only passes insert into plans."""

SHARD_OPS: Final = ("shard", "reduce_shard", "unshard")
"""Operators on evenly sharded tensors; the first operator does not communicate."""

SHARD_PLAN_OPS: Final = (
    "reduce_shard_start",
    "reduce_shard_wait",
    "unshard_start",
    "unshard_wait",
)
"""Operators that only passes insert into plans."""

NUMBERS: Final = ("float16", "bfloat16", "float32", "float64", "int32", "int64")

ENGINE_KERNELS: Final[Mapping[str, tuple[str, ...] | str]] = {
    **dict.fromkeys(("all_reduce", "all_reduce_start", "all_reduce_wait"), NUMBERS),
    **dict.fromkeys((*SHARD_OPS, *SHARD_PLAN_OPS), NUMBERS),
    **dict.fromkeys(("all_gather", "reduce_scatter", "all_to_all"), NUMBERS),
    "broadcast": "*",
    "barrier": "*",
    "compare_plans": ("int64",),
    "part": ("int64",),
}
"""Operators for which every engine must have kernels, and their dtypes."""

BLOCKS: Final = "blocks"
TABLE: Final = "table"
"""How an array is partitioned: equal blocks, or cyclic rows after a shared first row."""

COLLECTIVE_TYPES: Final = tuple(f"dist.{name}" for name in COLLECTIVES)

SHARD_TYPES: Final = tuple(f"dist.{name}" for name in SHARD_OPS[1:])
"""Operators that communicate."""

COMPARED_TYPES: Final = (
    *COLLECTIVE_TYPES,
    *SHARD_TYPES,
    *("dist.all_reduce_start", "dist.reduce_shard_start", "dist.unshard_start", "dist.part"),
)
"""Operators that all processes of a group must run in the same order."""

BUCKET_BYTES: Final = "bucket_bytes"
"""The name, without ``dist.``, of the option with the maximum bucket size in bytes."""

DEFAULT_BUCKET_BYTES: Final = 2 << 20
"""A single large reduction cannot overlap, and small ones are latency-bound; 1 to 4 MB are best."""
