"""Registrations of opwright-dist."""

from __future__ import annotations

from opwright import plugin
from opwright_dist.names import (
    BUCKET_BYTES,
    COLLECTIVE_TYPES,
    COLLECTIVES,
    COMPARED_TYPES,
    DEFAULT_BUCKET_BYTES,
    PLAN_OPS,
    SHARD_OPS,
    SHARD_PLAN_OPS,
    SHARD_TYPES,
)

PASSES: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("alone", "canonicalize", "dist_alone", COLLECTIVE_TYPES),
    ("random_numbers", "canonicalize", "dist_random", ()),
    ("shards", "layout", "dist_shards", ("dist.shard",)),
    ("buckets", "layout", "dist_buckets", ("dist.all_reduce", *SHARD_TYPES)),
    # This pass runs after the bucket pass, since it compares the buckets.
    ("comparison", "layout", "dist_compare", COMPARED_TYPES),
)
"""Module in ``passes``, phase, name and operators (one is required), in order of execution."""

HIDDEN = {
    "plan_ops": PLAN_OPS,
    "shards": (*SHARD_OPS, "shard_states", "every"),
    "clip_shards": ("clip_by_norm", "clip_by_global_norm"),
    "shard_plan_ops": SHARD_PLAN_OPS,
}
"""Operators appended by other functions: module in ``operators``, and names."""

SHARD_KERNELS = {"shard": "Shard", "reduce_shard": "AloneShard", "unshard": "AloneUnshard"}


@plugin.hookimpl
def opwright_ops(registry: plugin.OpRegistrar) -> None:
    """Register the collectives and the operators created only by passes."""
    for name in COLLECTIVES:
        module = "rows" if name == "exchange_rows" else "collectives"
        registry.add(f"dist.{name}", f"opwright_dist.operators.{module}:{name.upper()}")
    registry.add("dist.route_rows", "opwright_dist.operators.rows:ROUTE_ROWS")
    for name in ("own_part", "divided", "copy_to_group"):
        registry.add(f"dist.{name}", f"opwright_dist.operators.parts:{name.upper()}")
    registry.add("dist.batch_norm", "opwright_dist.operators.batch_norm:BATCH_NORM")
    mean_share = "opwright_dist.operators.mean_share:MEAN_SHARE"
    registry.add("dist.mean_share", mean_share, hidden=True)
    for module, names in HIDDEN.items():
        for name in names:
            target = f"opwright_dist.operators.{module}:{name.upper()}"
            registry.add(f"dist.{name}", target, hidden=True)


@plugin.hookimpl
def opwright_kernels(registry: plugin.KernelRegistrar) -> None:
    """Register the kernels for groups of one on every device."""
    for name in COLLECTIVES:
        registry.add(
            f"dist.{name}",
            device="*",
            dtypes="*",
            kernel="opwright_dist.kernels:Alone",
            library="alone",
            priority=0,
        )
    for name in SHARD_OPS:
        registry.add(
            f"dist.{name}",
            device="*",
            dtypes="*",
            kernel=f"opwright_dist.kernels:{SHARD_KERNELS[name]}",
            library="alone",
            priority=0,
        )
    registry.add(
        "dist.route_rows",
        device="cpu",
        dtypes=("int32", "int64"),
        kernel="opwright_dist.kernels:RouteRows",
        library="numpy",
        priority=0,
    )


@plugin.hookimpl
def opwright_passes(registry: plugin.PassRegistrar) -> None:
    """Register the passes."""
    for module, phase, name, operators in PASSES:
        function = f"opwright_dist.passes.{module}:{name}"
        registry.add(name, phase=phase, function=function, operators=operators)


@plugin.hookimpl
def opwright_options(registry: plugin.OptionRegistrar) -> None:
    """Declare the option for the bucket size."""
    registry.add(
        BUCKET_BYTES,
        default=DEFAULT_BUCKET_BYTES,
        comment="gradients are reduced in buckets of about this many bytes",
    )
