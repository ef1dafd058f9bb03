"""Random programs match PyTorch, forward and backward, with and without passes."""

from __future__ import annotations

import os

import numpy as np
import pytest
from one_operator import compiled
from peer import Peer, widen
from programs import Drawing

import opwright as ow

COUNT = int(os.environ.get("OPWRIGHT_PEER_PROGRAMS", "60"))
"""The number of random programs; OPWRIGHT_PEER_PROGRAMS=5000 runs a campaign."""

TOLERANCE = {"float32": 2e-3, "float64": 1e-9}
"""The tolerance relative to the largest gradient of a parameter; rounding errors accumulate over
forty operators."""


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("passes", [(), None], ids=["no passes", "passes"])
@pytest.mark.parametrize("seed", range(COUNT))
def test_a_random_program_matches_pytorch(
    seed: int, passes: tuple[str, ...] | None, dtype: str, peer: Peer
) -> None:
    drawing = Drawing(seed, dtype)
    request = drawing.to_request()
    outputs, expected = peer.ask("torch", request)
    pairs = ow.append_backward([drawing.block.var(drawing.loss)], parameters=drawing.parameters)
    fetch = [drawing.loss, *(gradient.name for _, gradient in pairs)]
    loss, *gradients = compiled(drawing.block, drawing.feeds, fetch, passes=passes)(**drawing.feeds)
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(loss, outputs[drawing.loss], rtol=tolerance)
    largest = max(float(np.max(np.abs(array), initial=0.0)) for array in expected.values())
    for (variable, _), gradient in zip(pairs, gradients, strict=True):
        np.testing.assert_allclose(
            widen(gradient),
            expected[variable.name],
            rtol=tolerance,
            atol=tolerance * max(largest, 1e-3),
            err_msg=variable.name,
        )


@pytest.mark.parametrize("seed", range(COUNT))
def test_second_gradients_of_a_program_match_pytorch(seed: int, peer: Peer) -> None:
    drawing = Drawing(seed, "float64", has_recurrent=False)  # which are differentiated once
    request, block = drawing.to_request(), drawing.block
    square = block.append_op("square", {"x": drawing.loss}).output("out")[0]
    pairs = ow.append_backward([block.var(square)], parameters=drawing.parameters)
    rng = np.random.default_rng(seed)
    parts = []
    for variable, gradient in pairs:
        weight = np.asarray(rng.standard_normal(variable.shape))
        request.again[variable.name] = weight
        block.create_var(f"weight_of_{variable.name}", weight.shape, "float64", stop_gradient=True)
        drawing.feeds[f"weight_of_{variable.name}"] = weight
        inputs = {"x": gradient, "y": f"weight_of_{variable.name}"}
        parts.append(block.append_op("multiply", inputs).output("out")[0])
    sums = [block.append_op("sum", {"x": part}).output("out")[0] for part in parts]
    total = block.append_op("add_n", {"x": sums}).output("out")[0]
    pairs = ow.append_backward([block.var(total)], parameters=drawing.parameters)
    fetch = [gradient.name for _, gradient in pairs]
    seconds = compiled(block, drawing.feeds, fetch)(**drawing.feeds)
    _, expected = peer.ask("torch", request)
    largest = max(float(np.max(np.abs(array), initial=0.0)) for array in expected.values())
    for (variable, _), second in zip(pairs, seconds, strict=True):
        atol = 1e-8 * max(largest, 1e-3)
        np.testing.assert_allclose(
            second, expected[variable.name], rtol=1e-7, atol=atol, err_msg=variable.name
        )
