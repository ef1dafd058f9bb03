"""What the OpProtos of collectives cannot say of their inputs; `opwright check` draws them so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from opwright_dist.names import COLLECTIVES, SHARD_OPS

if TYPE_CHECKING:
    from opwright_kit.testing import Draw

Drawn = tuple[Mapping[str, Any], Mapping[str, Any]] | None

_IDLE: Final = {
    "reduce": "of one process each reduction is its tensor",
    "unequal_rows": "one process has as many rows as itself",
    "digest": "it is compared with those of other processes, and changes no number",
    "entries": "they are compared with those of other processes, and change no number",
    "seeds": "they are compared with those of other processes, and change no number",
}
"""What changes nothing in the group of one process that the kit runs in."""


def collective(draw: Draw) -> Drawn:
    """Inputs as they are proposed, of the group that every process has."""
    inputs = draw.propose()
    return None if inputs is None else (inputs, _in_world(draw))


def batch_norm(draw: Draw) -> Drawn:
    """A variance is not negative, and neither is what is added to it."""
    inputs = draw.propose()
    if inputs is None:
        return None
    inputs["variance"] = (draw.floats(inputs["variance"][0].shape, 0.25, 2.0),)
    return inputs, {**_in_world(draw), "epsilon": abs(draw.attrs["epsilon"]) + 1e-3}


def part(draw: Draw) -> Drawn:
    """The first dimension of any tensor is the number of rows."""
    rows = draw.floats((draw.length, draw.other_length()), dtype="float32")
    return {"rows": rows}, {**_in_world(draw), "seeds": [draw.choice([0, 1, 7]), 9]}


def compare_plans(draw: Draw) -> Drawn:
    """There are no inputs: what is compared is written into the plan."""
    entries = ["dist.barrier() of float32 [3]"] * draw.choice([1, 2])
    return {}, {**_in_world(draw), "entries": entries, "digest": draw.choice([0, 1, 2**62])}


def _in_world(draw: Draw) -> dict[str, Any]:
    draw.without_effect.update({name: _IDLE[name] for name in _IDLE if name in draw.attrs})
    return {**draw.attrs, "group": "world"}


def shard(draw: Draw) -> Drawn:
    """The part of the one process there is."""
    inputs = draw.propose()
    if inputs is None:
        return None
    draw.without_effect["rank"] = "it refuses to run elsewhere, and changes no number"
    return inputs, {**_in_world(draw), "rank": draw.choice([-1, 0])}


SAMPLES = {
    **{f"dist.{name}": collective for name in (*COLLECTIVES, *SHARD_OPS, "mean_share")},
    "dist.batch_norm": batch_norm,
    "dist.compare_plans": compare_plans,
    "dist.part": part,
    "dist.shard": shard,
}
"""Operator type to the function that draws its inputs."""
