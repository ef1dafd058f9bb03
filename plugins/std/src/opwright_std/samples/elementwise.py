"""What the OpProto of an element-wise operator cannot say of its inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opwright_std.samples.operators import Drawn

if TYPE_CHECKING:
    from opwright_kit.testing import Draw


def nan_to_num(draw: Draw) -> Drawn:
    """Inputs as they are proposed: the operator is there to drop NaN."""
    draw.drops_nan = "another number stands for it"
    draw.flat_at_nan = "what stands for NaN does not depend on it"
    inputs = draw.propose()
    return None if inputs is None else (inputs, draw.attrs)


SAMPLES = {"nan_to_num": nan_to_num}
