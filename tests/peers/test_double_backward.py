"""Calling `append_backward` twice agrees with PyTorch's double backward for each operator."""

from __future__ import annotations

import numpy as np
import pytest
from case import Case
from choices import GRADIENTS
from compare import leave_out
from one_operator import build, compiled, graded_slots
from peer import LackingError, Peer, request_of
from table import over_cases
from test_gradients import float_inputs
from test_second_gradients import add_sum_of_gradients, twice_cases
from test_table import NO_PEER

import opwright as ow


@over_cases(case for case in twice_cases() if case.op not in NO_PEER)
def test_the_second_gradient_matches_pytorch(case: Case, peer: Peer) -> None:
    arrays = case.make_inputs("float64")
    one = build(case, arrays)
    request = request_of(one)
    wanted = float_inputs(one, graded_slots(case, arrays))
    total, request.weights, request.again = add_sum_of_gradients(one, wanted)
    request.wanted = [variable.name for variable in wanted]
    fetch = [gradient for _, gradient in ow.append_backward([total], parameters=wanted)]
    with np.errstate(all="ignore"):
        seconds = compiled(one.block, one.feeds, fetch)(**one.feeds)
    try:
        _, expected = peer.ask("torch", request)
    except LackingError as error:
        pytest.skip(str(error))
    for variable, second in zip(wanted, seconds, strict=True):
        mask = GRADIENTS.get(case.op)
        got, theirs = leave_out(mask, request.feed, second, expected[variable.name])
        size = max(1.0, float(np.max(np.abs(theirs), initial=0.0)))
        np.testing.assert_allclose(
            got, theirs, rtol=1e-8, atol=1e-9 * size, err_msg=f"{case}: {variable.name}"
        )
