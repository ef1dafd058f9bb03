"""Samplers of valid inputs for collectives, used by `opwright check`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from opwright_dist.names import COLLECTIVES, SHARD_OPS

if TYPE_CHECKING:
    from opwright_kit.testing import Draw

Drawn = tuple[Mapping[str, Any], Mapping[str, Any]] | None

_IDLE: Final = {
    "reduce": "with one process, every reduction returns its input",
    "unequal_rows": "row counts of a single process cannot differ",
    "losses": "it affects only gradients, and a single process has one loss",
    "digest": "it is compared with those of other processes, without effect on numbers",
    "entries": "they are compared with those of other processes, without effect on numbers",
    "seeds": "they are compared with those of other processes, without effect on numbers",
}
"""Arguments that do not have an effect in the kit's group of one."""


def collective(draw: Draw) -> Drawn:
    """Draw the proposed inputs, in the default group."""
    inputs = draw.propose()
    return None if inputs is None else (inputs, _in_world(draw))


def batch_norm(draw: Draw) -> Drawn:
    """Draw non-negative variances and epsilon, but never an unbiased variance of one element."""
    inputs = draw.propose()
    if inputs is None:
        return None
    (x,), (variance,) = inputs["x"], inputs["variance"]
    inputs["variance"] = (draw.floats(variance.shape, 0.25, 2.0),)
    attrs = {**_in_world(draw), "epsilon": abs(draw.attrs["epsilon"]) + 1e-3}
    return inputs, {**attrs, "unbiased": attrs["unbiased"] and x.size > variance.size}


def part(draw: Draw) -> Drawn:
    """Draw any tensor; its first dimension is the number of rows."""
    rows = draw.floats((draw.length, draw.other_length()), dtype="float32")
    return {"rows": rows}, {**_in_world(draw), "seeds": [draw.choice([0, 1, 7]), 9]}


def compare_plans(draw: Draw) -> Drawn:
    """Draw no inputs, since the compared entries are attributes."""
    entries = ["dist.barrier() of float32 [3]"] * draw.choice([1, 2])
    return {}, {**_in_world(draw), "entries": entries, "digest": draw.choice([0, 1, 2**62])}


def _in_world(draw: Draw) -> dict[str, Any]:
    draw.without_effect.update({name: _IDLE[name] for name in _IDLE if name in draw.attrs})
    return {**draw.attrs, "group": "world"}


def shard(draw: Draw) -> Drawn:
    """Draw the part of the only process."""
    inputs = draw.propose()
    if inputs is None:
        return None
    draw.without_effect["rank"] = "it only makes other ranks refuse to run"
    return inputs, {**_in_world(draw), "rank": draw.choice([-1, 0])}


def divided(draw: Draw) -> Drawn:
    """Draw one axis per part; each part is the complete array."""
    inputs = draw.propose()
    if inputs is None:
        return None
    ranks = [part.ndim for part in inputs["parts"]]
    if 0 in ranks:
        return None
    attrs = {**_in_world(draw), "layout": "blocks", "axes": [rank - 1 for rank in ranks]}
    return inputs, {**attrs, "sizes": [0] * len(ranks)}


def own_part(draw: Draw) -> Drawn:
    """Draw a tensor with an axis: rows of a table, or blocks along the axis."""
    rows = draw.floats((draw.length, draw.other_length()), dtype=draw.dtype)
    layout = draw.choice(["blocks", "table"])
    axis = 0 if layout == "table" else draw.choice([0, -1])
    return {"x": rows}, {**_in_world(draw), "layout": layout, "axis": axis}


def route_rows(draw: Draw) -> Drawn:
    """Draw row ids of a table."""
    size = draw.choice([5, 9])
    ids = draw.integers((draw.length, draw.other_length()), 0, size, draw.dtype)
    draw.refused["ids"] = [-1, size]
    padding_index = draw.choice([-1, 2])
    attrs = {**_in_world(draw), "size": size, "padding_index": padding_index}
    return {"ids": ids}, attrs


def exchange_rows(draw: Draw) -> Drawn:
    """Draw rows; the single process sends all of them to itself."""
    rows = draw.floats((draw.length, draw.other_length()), dtype=draw.dtype)
    counts = draw.integers((1,), draw.length, draw.length + 1)
    inputs = {"x": rows, "send_counts": counts, "receive_counts": counts}
    return inputs, _in_world(draw)


SAMPLES = {
    **{
        f"pass dist_{name}": "it affects only programs of several processes"
        for name in ("random", "shards", "buckets", "compare")
    },
    **{f"dist.{name}": collective for name in (*COLLECTIVES, *SHARD_OPS, "mean_share")},
    "dist.batch_norm": batch_norm,
    "dist.compare_plans": compare_plans,
    "dist.copy_to_group": collective,
    "dist.divided": divided,
    "dist.exchange_rows": exchange_rows,
    "dist.own_part": own_part,
    "dist.route_rows": route_rows,
    "dist.part": part,
    "dist.shard": shard,
}
"""The samplers by operator type."""
