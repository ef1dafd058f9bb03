"""Batch normalization of 16-bit images with float32 parameters and statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_batch_norm import (
    ATTRS,
    CHANNELS,
    SAVED,
    SHAPES,
    Arrays,
    assert_same_bits,
    at_the_edge,
    entry_of,
    run,
)
from test_batch_norm import numbers as numbers_of_one_dtype

from opwright_cuda.kernels import batch_norm, elementwise, lines

pytestmark = [pytest.mark.cuda_kernels, pytest.mark.grid(3)]

FUSED = "std.batch_norm_halves"
GRAD = f"{FUSED}_grad"
HALVES = ("float16", "bfloat16")
STEP = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24}
"""Half a step of each dtype, the largest error of one rounding."""


def numbers(shape: tuple[int, ...], dtype: str) -> Arrays:
    """Return inputs for the fused and the separate operators."""
    return with_wide_parameters(numbers_of_one_dtype(shape, dtype))


def with_wide_parameters(given: Arrays) -> Arrays:
    return given | {slot: given[slot].astype(np.float32) for slot in CHANNELS}


def but(given: Arrays, slot: str) -> Arrays:
    return {name: array for name, array in given.items() if name != slot}


def with_casts(given: Arrays, attrs: dict[str, Any]) -> Arrays:
    """Return the results of separate operators: batch_norm between casts, add and relu."""
    wide = given | {"x": given["x"].astype(np.float32)}
    made = run("batch_norm", wide, {k: v for k, v in attrs.items() if k != "activation"})
    made["out"] = made["out"].astype(given["x"].dtype)
    if "residual" in given:
        (made["out"],) = run("add", {"x": made["out"], "y": given["residual"]}, {}).values()
    if attrs["activation"]:
        (made["out"],) = run("relu", {"x": made["out"]}, {}).values()
    return made


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_results_match_float32_kernels_surrounded_by_casts(shape: Any, dtype: str) -> None:
    given = numbers(shape, dtype)
    for inputs in (given, but(given, "residual")):
        for activation in ("relu", ""):
            attrs = {**ATTRS, "training": False, "activation": activation}
            assert_same_bits(with_casts(inputs, attrs), run(FUSED, inputs, attrs))


def in_float64(given: Arrays, *, with_bias: bool) -> Arrays:
    """Return batch statistics and gradients through relu and normalization in float64.

    Parameters
    ----------
    given : dict
        Inputs with ``out``, which is positive where relu's argument was positive.
    with_bias : bool
        Whether the results exclude ``residual_grad``.
    """
    x, out_grad = given["x"].astype(np.float64), given["out_grad"].astype(np.float64)
    axes, along = (0, *range(2, x.ndim)), (1, -1, *[1] * (x.ndim - 2))
    mean, variance = x.mean(axes), x.var(axes)
    inv_std = (variance + ATTRS["epsilon"]) ** -0.5
    normal = (x - mean.reshape(along)) * inv_std.reshape(along)
    grad = out_grad * (given["out"] > 0)
    scale_grad, bias_grad = (grad * normal).sum(axes), grad.sum(axes)
    lost = bias_grad.reshape(along) + normal * scale_grad.reshape(along)
    factor = (inv_std * given["scale"].astype(np.float64)).reshape(along)
    share = ATTRS["momentum"]
    made = {
        "saved_mean": mean,
        "saved_inv_std": inv_std,
        "mean_out": share * given["mean"] + (1 - share) * mean,
        "variance_out": share * given["variance"] + (1 - share) * variance,
        "normal": normal * given["scale"].reshape(along) + given["bias"].reshape(along),
        "x_grad": (grad - lost * x.shape[1] / x.size) * factor,
        "scale_grad": scale_grad,
        "bias_grad": bias_grad,
    }
    return made if with_bias else made | {"residual_grad": grad}


def assert_rounded_once(found: Arrays, wanted: Arrays) -> None:
    """Compare with float64 results, with a tolerance of one rounding and float32 sum errors."""
    for slot, array in found.items():
        step, numbers = STEP[array.dtype.name], wanted[slot]
        lost = 2e-5 * np.abs(numbers).max(initial=1)
        close = array.astype(np.float64)
        np.testing.assert_allclose(close, numbers, step * 1.01 + 1e-5, lost, err_msg=slot)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("shape", [s for s in SHAPES if np.prod(s) > s[1]], ids=str)
def test_results_match_float64_results_rounded_once(shape: Any, dtype: str) -> None:
    given = numbers(shape, dtype)
    attrs = {**ATTRS, "training": True}
    bare = but(given, "residual")
    normal = run(FUSED, bare, {**attrs, "activation": ""})
    forward = run(FUSED, bare, {**attrs, "activation": "relu"})
    np.testing.assert_array_equal(forward["out"], np.maximum(normal["out"], 0))
    given |= {slot: forward[slot] for slot in (*SAVED, "out")}
    wanted = in_float64(given, with_bias=False)
    wanted["out"] = wanted["normal"]
    assert_rounded_once(normal, wanted)
    fused = {"training": True, "activation": "relu"}
    anew = run(GRAD, but(given, "out"), fused, absent=["residual_grad"])
    read = run(GRAD, but(given, "bias"), fused)
    assert_rounded_once(anew, wanted)
    assert_rounded_once(read, wanted)
    for found in (anew, read):
        assert found["scale_grad"].dtype == found["bias_grad"].dtype == np.float32


@pytest.mark.parametrize("dtype", HALVES)
def test_a_gradient_without_an_activation_does_not_need_the_bias_or_the_result(dtype: str) -> None:
    given = numbers((41, 16), dtype)
    normal = run(FUSED, but(given, "residual"), {**ATTRS, "training": True, "activation": ""})
    given |= {slot: normal[slot] for slot in SAVED} | {"out": np.ones_like(given["x"])}
    wanted = in_float64(given, with_bias=True)
    inputs = but(but(given, "bias"), "out")
    attrs = {"training": True, "activation": ""}
    assert_rounded_once(run(GRAD, inputs, attrs, absent=["residual_grad"]), wanted)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("shape", [(12, 16), (6, 5), (3, 4, 4, 4), (2, 3, 3, 5)], ids=str)
def test_the_gradient_masks_exactly_the_elements_where_relu_returned_0(
    shape: Any, dtype: str
) -> None:
    given = with_wide_parameters(at_the_edge(shape, dtype))
    attrs = {"training": False, "activation": "relu", "epsilon": 0.0, "momentum": 0.5}
    forward = run(FUSED, but(given, "residual"), attrs)
    given |= {slot: forward[slot] for slot in SAVED}
    given["out_grad"] = np.ones_like(given["x"])
    fused = {"training": False, "activation": "relu"}
    made = run(GRAD, given, fused, absent=["residual_grad"])
    positive = forward["out"] > 0
    np.testing.assert_array_equal(made["x_grad"] != 0, positive)
    np.testing.assert_array_equal(made["bias_grad"], positive.sum((0, *range(2, len(shape)))))
    assert 0 < positive.mean() < 1


@pytest.mark.parametrize("dtype", HALVES)
def test_outputs_can_share_the_memory_of_inputs(dtype: str) -> None:
    given = numbers((41, 16), dtype)
    given |= dict(zip((*SAVED, "out"), (given["mean"], given["variance"], given["residual"])))
    calls = (
        (FUSED, given, {**ATTRS, "training": True, "activation": "relu"}),
        (GRAD, but(given, "bias"), {"training": True, "activation": "relu"}),
    )
    for op_type, inputs, attrs in calls:
        right = run(op_type, inputs, attrs)
        allowed = [pair for pair in entry_of(op_type, dtype).may_reuse if pair[1] in inputs]
        assert len(allowed) > 1
        for pair in allowed:
            assert_same_bits(right, run(op_type, inputs, attrs, reuse=[pair]))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("shape", [(1300, 24), (300, 64), (6, 4, 14, 14)], ids=str)
def test_large_images_are_normalized_like_small_images(
    shape: Any, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = numbers(shape, dtype)
    for module, name in (
        (elementwise, "MANY_VECTORS"),
        (batch_norm, "MANY_LINES"),
        (lines, "FEW_ELEMENTS"),
    ):
        monkeypatch.setattr(module, name, 1)
    attrs = {**ATTRS, "training": True, "activation": "relu"}
    forward = run(FUSED, but(given, "residual"), attrs)
    given |= {slot: forward[slot] for slot in (*SAVED, "out")}
    wanted = in_float64(given, with_bias=False)
    wanted["out"] = np.maximum(wanted["normal"], 0)
    assert_rounded_once(forward, wanted)
    fused = {"training": True, "activation": "relu"}
    assert_rounded_once(run(GRAD, but(given, "out"), fused, absent=["residual_grad"]), wanted)
    assert_rounded_once(run(GRAD, but(given, "bias"), fused), wanted)
