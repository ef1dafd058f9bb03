"""Tests that refusals have a reason, and that invalid ids do not change parameters."""

from __future__ import annotations

import numpy as np
import pytest

import opwright_nn as nn
from opwright.errors import KernelError, KernelNotFoundError

ROWS = np.full((2, 4), 0.25, np.float32)


@pytest.mark.parametrize(
    ("op_type", "arrays", "attrs", "reason"),
    [
        ("cross_entropy", {"x": ROWS, "label": ROWS}, {"soft_label": True}, "distributions as"),
        ("fc", {"x": ROWS, "weight": ROWS.T}, {"activation": "softmax"}, ""),
        (
            "sum",
            {"x": np.ones((2, 3, 4), np.float32)},
            {"axis": [0, 2]},
            "reduced axes must be adjacent",
        ),
        (
            "add",
            {"x": np.ones((2, 1, 2, 1, 2), np.float32), "y": np.ones((2, 1, 2, 1), np.float32)},
            {},
            "more than 4 dimensions of .* broadcast differently",
        ),
        (
            "matmul",
            {"x": np.ones((2, 1, 3, 3), np.float32), "y": np.ones((2, 3, 3), np.float32)},
            {},
            "must broadcast completely or not at all",
        ),
    ],
)
def test_a_refusal_gives_a_reason(run_on, op_type, arrays, attrs, reason):
    if not reason:  # the layer is decomposed into operators with kernels
        np.testing.assert_allclose(run_on("opencl", op_type, arrays, **attrs)[0].sum(1), 1)
        return
    with pytest.raises(KernelNotFoundError, match=f"(?s)every kernel refused.*{reason}"):
        run_on("opencl", op_type, arrays, **attrs)


def _model(probabilities):
    model = nn.Model(device="opencl")
    scores = model.fc_layer(input="x", size=3, activation="softmax" if probabilities else None)
    loss = model.cross_entropy if probabilities else model.softmax_with_cross_entropy
    model.backward(model.mean(input=loss(scores, "label")))
    model.sgd(learning_rate=0.5)
    model.initialize_parameters(seed=1, x=ROWS)
    model.fill("x", ROWS)
    return model


@pytest.mark.parametrize("probabilities", [True, False])
def test_an_invalid_class_id_raises_before_a_parameter_changes(probabilities):
    model = _model(probabilities)
    before = [model.scope.var(p.name).numpy() for p in model.parameters]
    model.fill("label", np.array([[1], [7]]))
    text = r"cross_entropy\[opencl\].*label must be in \[0, 3\), got 7.*no variable in the scope"
    with pytest.raises(KernelError, match=text):
        model.run()
    for parameter, value in zip(model.parameters, before, strict=True):
        np.testing.assert_array_equal(model.scope.var(parameter.name).numpy(), value)
    model.fill("label", np.array([[1], [2]]))
    assert np.isfinite(model.run()[0])
