"""Small increments are not lost to rounding of the state in long 16-bit sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from calls import call

pytestmark = pytest.mark.cuda_kernels

STEPS = 48
CHANGE = 2.0**-13
"""The change per step, one eighth of the distance between float16 numbers at 1."""


def run(kind: str, slots: str, bias: list[float], **firsts: Any) -> list[Any]:
    """Return the output of a layer with one hidden unit whose gates depend only on biases."""
    gates = len(bias)
    given = {
        "x": np.zeros((STEPS, 1, 1)),
        "weight_ih": np.zeros((gates, 1)),
        "weight_hh": np.zeros((gates, 1)),
        "bias_ih": np.array(bias),
    }
    inputs = {slot: array.astype(np.float16) for slot, array in (given | firsts).items()}
    return call(kind, inputs, slots)


def test_an_lstm_cell_accumulates_increments_below_16_bit_precision() -> None:
    # The forget gate is 1, the cell candidate is tanh(CHANGE), and the input gate is 1.
    first = np.ones((1, 1, 1))
    (c_n,) = run("lstm", "c_n", [20.0, 20.0, CHANGE, 0.0], c0=first, h0=first)
    np.testing.assert_allclose(c_n.item(), 1 + STEPS * CHANGE, rtol=2.0**-11)


def test_a_gru_state_accumulates_changes_below_16_bit_precision() -> None:
    # The state decays from 1 towards tanh(0); each step multiplies it by z.
    bias = np.float16(np.log((1 - CHANGE) / CHANGE))
    keep = 1 / (1 + np.exp(-np.float64(bias)))
    (h_n,) = run("gru", "h_n", [0.0, float(bias), 0.0], h0=np.ones((1, 1, 1)))
    np.testing.assert_allclose(h_n.item(), keep**STEPS, rtol=2.0**-11)
