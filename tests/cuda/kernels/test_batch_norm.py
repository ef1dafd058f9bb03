"""Fused batch normalization on a GPU is bitwise identical to the separate operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright.op import dtype_to_numpy
from opwright_cuda.kernels import batch_norm, elementwise, lines
from opwright_kit.testing import Sample, run_kernel

pytestmark = [pytest.mark.cuda_kernels, pytest.mark.grid(3)]

FUSED = "std.batch_norm_activation"
GRAD = f"{FUSED}_grad"
FLOATS = ("float16", "bfloat16", "float32", "float64")
CHANNELS = ("scale", "bias", "mean", "variance")
SAVED = ("saved_mean", "saved_inv_std")

# The shapes include matrices with many rows, one row or one column, and images. Some row lengths
# and image sizes are multiples of the vector width.
SHAPES = ((41, 16), (9, 5), (530, 40), (1, 24), (30, 1), (3, 4, 8, 8), (2, 3, 5, 7), (2, 2, 1500))

Arrays = dict[str, Any]


def entry_of(op_type: str, dtype: str) -> Any:
    """Return the registry entry of the opwright CUDA kernel."""
    wanted = ("cuda", dtype, "native")
    entries = ow.current_context().kernels.entries(op_type)
    return next(e for e in entries if (e.device, e.dtype, e.library) == wanted)


def run(
    op_type: str,
    inputs: Mapping[str, Any],
    attrs: Mapping[str, Any],
    absent: Sequence[str] = (),
    reuse: Sequence[tuple[str, str]] = (),
) -> Arrays:
    """Return the results of a CUDA kernel by slot; check that it writes only its outputs."""
    entry = entry_of(op_type, next(iter(inputs.values())).dtype.name)
    definition = ow.current_context().ops.get(op_type)
    known = {slot.name for slot in definition.proto.inputs}
    given = {slot: (array,) for slot, array in inputs.items() if slot in known}
    filled = definition.proto.fill_attrs(dict(attrs))
    sample = Sample(op_type, given, filled, dict.fromkeys(absent, 0))
    done = run_kernel(entry, sample, reuse=reuse)
    assert not done.broken_guards
    assert not done.changed
    return {slot: arrays[0] for slot, arrays in done.outputs.items() if arrays}


def numbers(shape: tuple[int, ...], dtype: str, *, seed: int = 1) -> Arrays:
    """Return inputs for the fused and the separate operators."""
    rng = np.random.default_rng(seed)
    kind = dtype_to_numpy(dtype)
    large = ("x", "residual", "out_grad")
    made = {name: rng.standard_normal(shape).astype(kind) for name in large}
    made |= {name: rng.uniform(0.5, 2, shape[1:2]).astype(kind) for name in CHANNELS}
    made["bias"] -= kind.type(1)
    return made


def at_the_edge(shape: tuple[int, ...], dtype: str) -> Arrays:
    """Return inputs for which the argument of relu is a difference of nearly equal numbers.

    The difference is so small that it has the opposite sign, or is 0, if the product is rounded
    before the addition.
    """
    made = numbers(shape, dtype)
    kind = dtype_to_numpy(dtype)
    made["variance"] = np.ones(shape[1], kind)
    rows = np.moveaxis(made["x"], 1, -1)
    flat = rows.reshape(-1, shape[1])
    wide = np.float32 if kind.itemsize == 2 else kind
    distance = flat[0].astype(wide) - made["mean"].astype(wide)
    made["bias"] = -(distance * made["scale"].astype(wide)).astype(kind)
    # Fill the rows with adjacent representable numbers.
    for row in range(1, len(flat)):
        flat[row] = np.nextafter(flat[row - 1], kind.type(np.inf if row % 4 < 2 else -np.inf))
    made["x"] = np.moveaxis(flat.reshape(rows.shape), -1, 1).copy()
    return made


def one_by_one(given: Arrays, attrs: Mapping[str, Any], *, has_residual: bool) -> Arrays:
    """Return the results of the separate operators batch_norm, add and relu."""
    made = run("batch_norm", given, attrs)
    if has_residual:
        (made["out"],) = run("add", {"x": made["out"], "y": given["residual"]}, {}).values()
    (made["out"],) = run("relu", {"x": made["out"]}, {}).values()
    return made


def assert_same_bits(one: Arrays, other: Arrays) -> None:
    assert one.keys() == other.keys()
    for slot, array in one.items():
        np.testing.assert_array_equal(other[slot], array, err_msg=slot)


def assert_close(one: Arrays, other: Arrays, dtype: str) -> None:
    """Compare gradients that may differ in summation order and in fused multiply-adds."""
    unit = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5, "float64": 1e-13}[dtype]
    assert one.keys() == other.keys()
    for slot, array in one.items():
        a, b = array.astype(np.float64), other[slot].astype(np.float64)
        np.testing.assert_allclose(b, a, unit, unit * np.abs(a).max(initial=1), err_msg=slot)


ATTRS = {"momentum": 0.75, "epsilon": 1e-3}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_fusing_residual_and_relu_does_not_change_a_bit(shape: Any, dtype: str) -> None:
    given = numbers(shape, dtype)
    bare = {slot: array for slot, array in given.items() if slot != "residual"}
    pairs = []
    for training in (True, False):
        attrs = {**ATTRS, "training": training}
        fused = {**attrs, "activation": "relu"}
        pairs.append((one_by_one(given, attrs, has_residual=True), run(FUSED, given, fused)))
        pairs.append((one_by_one(bare, attrs, has_residual=False), run(FUSED, bare, fused)))
        fused["activation"] = ""
        pairs.append((run("batch_norm", bare, attrs), run(FUSED, bare, fused)))
    for apart, together in pairs:
        assert_same_bits(apart, together)


@pytest.mark.parametrize("op_type", ["batch_norm", FUSED])
def test_the_running_variance_can_be_updated_with_the_unbiased_variance(op_type: str) -> None:
    given = numbers((5, 7, 3), "float64")
    attrs = {**ATTRS, "training": True, "unbiased": True}
    activation = {"activation": "relu"} if op_type == FUSED else {}
    found = run(op_type, given, {**attrs, **activation})["variance_out"]
    spread = given["x"].var(axis=(0, 2), ddof=1)
    np.testing.assert_allclose(found, 0.75 * given["variance"] + 0.25 * spread, rtol=1e-12)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(12, 16), (6, 5), (3, 4, 4, 4), (2, 3, 3, 5)], ids=str)
def test_the_gradient_masks_exactly_the_elements_where_relu_returned_0(
    shape: Any, dtype: str
) -> None:
    given = at_the_edge(shape, dtype)
    attrs = {"training": False, "activation": "relu", "epsilon": 0.0, "momentum": 0.5}
    forward = run(FUSED, {s: a for s, a in given.items() if s != "residual"}, attrs)
    given |= {slot: forward[slot] for slot in SAVED}
    given["out_grad"] = np.ones_like(given["x"])
    del attrs["epsilon"], attrs["momentum"]
    made = run(GRAD, given, attrs, absent=["residual_grad"])
    positive = forward["out"] > 0
    axes = (0, *range(2, len(shape)))
    np.testing.assert_array_equal(made["x_grad"] != 0, positive)
    np.testing.assert_array_equal(made["bias_grad"], positive.sum(axes))
    assert 0 < positive.mean() < 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_gradient_masks_elements_whose_result_underflowed(dtype: str) -> None:
    given = numbers((8, 3), dtype)
    kind = dtype_to_numpy(dtype)
    for slot, value in (("scale", 2.0 ** (-24 if dtype == "float16" else -133)), ("bias", 0.0)):
        given[slot] = np.full(3, value, kind)
    given["saved_mean"], given["saved_inv_std"] = np.zeros(3, kind), np.ones(3, kind)
    given["x"] = np.linspace(0, 1.5, 24).reshape(8, 3).astype(kind)
    given["out_grad"] = np.ones_like(given["x"])
    made = run(GRAD, given, {"training": False, "activation": "relu"}, absent=["residual_grad"])
    np.testing.assert_array_equal(made["bias_grad"], (given["x"] > 0.5).sum(0).astype(kind))


def gradients(given: Arrays, training: bool) -> tuple[Arrays, Arrays]:
    """Return the gradients of relu and of batch_norm, computed by separate operators."""
    (behind,) = run("relu_grad", given, {}).values()
    attrs = {**ATTRS, "training": training}
    made = run("batch_norm_grad", {**given, "out_grad": behind}, attrs)
    return made, {**made, "residual_grad": behind}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients_match_the_unfused_operators(shape: Any, dtype: str) -> None:
    pairs = []
    for training in (True, False):
        given = numbers(shape, dtype)
        attrs = {**ATTRS, "training": training}
        forward = one_by_one(given, attrs, has_residual=False)
        given |= {slot: forward[slot] for slot in ("out", *SAVED)}
        alone, with_residual = gradients(given, training)
        fused = {"training": training, "activation": "relu"}
        anew = {slot: array for slot, array in given.items() if slot != "out"}
        pairs.append((alone, run(GRAD, anew, fused, absent=["residual_grad"])))
        read = {slot: array for slot, array in given.items() if slot != "bias"}
        pairs.append((with_residual, run(GRAD, read, fused)))
    for apart, together in pairs:
        assert_close(apart, together, dtype)
        if "residual_grad" in apart:
            np.testing.assert_array_equal(together["residual_grad"], apart["residual_grad"])


@pytest.mark.parametrize("shape", [(41, 16), (2, 3, 5, 7)], ids=str)
def test_outputs_can_share_the_memory_of_inputs(shape: Any) -> None:
    given = numbers(shape, "float32")
    given |= dict(zip((*SAVED, "out"), (given["mean"], given["variance"], given["residual"])))
    without = {slot: {s: a for s, a in given.items() if s != slot} for slot in given}
    attrs = {**ATTRS, "training": True, "activation": "relu"}
    grad = {"training": True, "activation": "relu"}
    calls: list[tuple[str, Arrays, Arrays, tuple[str, ...]]] = [
        (FUSED, given, attrs, ()),
        (FUSED, without["residual"], attrs, ()),
        (GRAD, without["out"], grad, ("residual_grad",)),
        (GRAD, without["bias"], grad, ()),
    ]
    pairs = []
    for op_type, inputs, of_op, absent in calls:
        allowed = [
            (out, source)
            for out, source in entry_of(op_type, "float32").may_reuse
            if source in inputs and out not in absent
        ]
        assert allowed
        both = [
            [one, other]
            for one in allowed
            for other in allowed
            if one[0] == "x_grad" != other[0] and one[1] != other[1]
        ]
        right = run(op_type, inputs, of_op, absent)
        for reuse in [*([pair] for pair in allowed), *both]:
            pairs.append((right, run(op_type, inputs, of_op, absent, reuse)))
    for apart, together in pairs:
        assert_same_bits(apart, together)


@pytest.mark.parametrize("training", [True, False])
def test_unrequested_gradients_are_omitted(training: bool) -> None:
    given = numbers((9, 5), "float32")
    given |= {"saved_mean": given["mean"], "saved_inv_std": given["variance"]}
    given["out"] = given["residual"]
    attrs = {"training": training, "activation": "relu"}
    slots = ("x_grad", "scale_grad", "bias_grad")
    for other, more in (("out", ["residual_grad"]), ("bias", [])):
        inputs = {slot: array for slot, array in given.items() if slot != other}
        everything = run(GRAD, inputs, attrs, more)
        for wanted in slots:
            absent = [slot for slot in slots if slot != wanted]
            made = run(GRAD, inputs, attrs, [*more, *absent])
            kept = {wanted, "residual_grad"} & everything.keys()
            assert_same_bits({slot: everything[slot] for slot in kept}, made)


@pytest.mark.parametrize("shape", [(0, 3), (2, 3, 0)], ids=str)
def test_an_empty_batch_keeps_the_running_statistics_and_has_zero_gradients(shape: Any) -> None:
    given = numbers(shape, "float32")
    attrs = {**ATTRS, "training": True, "activation": "relu"}
    made = run(FUSED, given, attrs)
    np.testing.assert_array_equal(made["saved_mean"], given["mean"])
    np.testing.assert_array_equal(made["mean_out"], given["mean"])
    given |= {"saved_mean": given["mean"], "saved_inv_std": given["variance"], "out": given["x"]}
    del given["bias"]
    grads = run(GRAD, given, {"training": True, "activation": "relu"})
    assert grads["residual_grad"].shape == shape
    for slot in ("scale_grad", "bias_grad"):
        np.testing.assert_array_equal(grads[slot], np.zeros(3), err_msg=slot)


def test_relu_propagates_the_gradient_if_its_input_is_nan() -> None:
    given = numbers((4, 3), "float32")
    given |= {"saved_mean": given["mean"], "saved_inv_std": given["variance"]}
    given["x"][1, 2] = np.nan
    given["out_grad"][...] = 2.0
    made = run(GRAD, given, {"training": False, "activation": "relu"}, ["residual_grad"])
    factor = given["scale"][2] * given["saved_inv_std"][2]
    np.testing.assert_allclose(made["x_grad"][1, 2], 2.0 * factor, rtol=1e-6)
    assert np.isfinite(made["x_grad"]).all()


# Kernels for large arrays reuse a row that is broadcast to all rows.


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(300, 64), (1300, 24), (4, 3, 40, 32), (6, 4, 14, 14)], ids=str)
def test_large_arrays_are_normalized_like_small_arrays(
    shape: Any, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = numbers(shape, dtype)
    given |= {"saved_mean": given["mean"], "saved_inv_std": given["variance"]}
    attrs = {**ATTRS, "training": True, "activation": "relu"}
    grad_attrs = {"training": True, "activation": "relu"}
    found = []
    for limit in (elementwise.MANY_VECTORS, 1):
        monkeypatch.setattr(elementwise, "MANY_VECTORS", limit)
        monkeypatch.setattr(batch_norm, "MANY_LINES", limit)
        monkeypatch.setattr(lines, "FEW_ELEMENTS", limit)
        found.append((run(FUSED, given, attrs), run(GRAD, given, grad_attrs, ["residual_grad"])))
    (small, small_grads), (large, large_grads) = found
    assert_close(small, large, dtype)
    assert_close(small_grads, large_grads, dtype)
