"""Random programs compute what PyTorch computes, forward and backward, with passes and without."""

from __future__ import annotations

import os

import numpy as np
import pytest
from one_operator import compiled
from peer import Peer, widen
from programs import Drawing

import opwright as ow

COUNT = int(os.environ.get("OPWRIGHT_PEER_PROGRAMS", "60"))
"""OPWRIGHT_PEER_PROGRAMS=5000 makes a campaign of it."""

TOLERANCE = {"float32": 2e-3, "float64": 1e-9}
"""Of the largest gradient of a parameter: rounding adds up over forty operators."""


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("passes", [(), None], ids=["no passes", "passes"])
@pytest.mark.parametrize("seed", range(COUNT))
def test_program(seed: int, passes: tuple[str, ...] | None, dtype: str, peer: Peer) -> None:
    drawing = Drawing(seed, dtype)
    request = drawing.to_request()
    outputs, slopes = peer.ask("torch", request)
    pairs = ow.append_backward([drawing.block.var(drawing.loss)], parameters=drawing.parameters)
    fetch = [drawing.loss, *(gradient.name for _, gradient in pairs)]
    loss, *gradients = compiled(drawing.block, drawing.feeds, fetch, passes=passes)(**drawing.feeds)
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(loss, outputs[drawing.loss], rtol=tolerance)
    largest = max(float(np.max(np.abs(slope), initial=0.0)) for slope in slopes.values())
    for (variable, _), gradient in zip(pairs, gradients, strict=True):
        np.testing.assert_allclose(
            widen(gradient),
            slopes[variable.name],
            rtol=tolerance,
            atol=tolerance * max(largest, 1e-3),
            err_msg=variable.name,
        )
