"""Tests convolutions that are computed by opwright-cpu kernels instead of oneDNN.

The opwright-cpu kernels compute convolutions with few channels per group, convolutions with windows
of one pixel, and 3 x 3 Winograd convolutions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
from thread_counts import thread_counts

import opwright as ow
from opwright_cpu.plan_ops.convolution import ACTIVATIONS


class Case(NamedTuple):
    """Shapes of images [n, rows, columns, channels] and weight [filters, channels, *kernel].

    The channels of the weight are the channels per group.
    """

    images: tuple[int, ...]
    weight: tuple[int, ...]
    strides: tuple[int, int] = (1, 1)
    paddings: tuple[int, ...] = (0, 0, 0, 0)

    def attributes(self) -> dict[str, Any]:
        groups = self.images[-1] // self.weight[1]
        return {
            "strides": list(self.strides),
            "paddings": list(self.paddings),
            "groups": groups,
            "data_format": "NHWC",
        }


AROUND = (1, 1, 1, 1)
# Sizes for Winograd convolution: odd and even sizes, tiles partly outside the image, panels of any
# width, and more tiles than are loaded at once.
TILED = [
    Case((4, 13, 11, 48), (80, 48, 3, 3), paddings=AROUND),
    Case((3, 16, 14, 96), (32, 96, 3, 3), paddings=(0, 2, 1, 0)),
    Case((1, 29, 29, 32), (144, 32, 3, 3)),
    Case((1, 40, 37, 64), (64, 64, 3, 3), paddings=AROUND),
    Case((2, 18, 21, 64), (64, 64, 3, 3), paddings=(2, 2, 2, 2)),
]
# Cases with few pixels, for which the weight is divided among threads; they cover panels of any
# width and split sums.
FEW = [
    Case((1, 1, 1, 90), (40, 90, 1, 1)),
    Case((2, 1, 2, 33), (7, 33, 1, 1)),
    Case((1, 7, 7, 1030), (520, 1030, 1, 1)),
    Case((1, 13, 9, 1024), (512, 1024, 1, 1), (2, 2)),
]
CASES = [
    Case((1, 9, 7, 16), (16, 4, 3, 3), paddings=AROUND),
    Case((3, 5, 6, 8), (8, 2, 3, 3), (2, 2), AROUND),
    Case((2, 8, 9, 32), (32, 8, 3, 3), (2, 1), (1, 1, 0, 2)),
    Case((2, 7, 7, 32), (32, 16, 3, 3), paddings=AROUND),
    Case((2, 7, 9, 64), (64, 32, 3, 3), (2, 2), AROUND),
    Case((2, 17, 20, 32), (32, 4, 5, 3), (3, 2), (2, 0, 1, 1)),
    Case((1, 4, 3, 48), (48, 16, 1, 3), paddings=(0, 0, 2, 2)),
    Case((2, 6, 6, 24), (24, 2, 2, 2), (3, 3)),
    Case((5, 3, 3, 40), (40, 8, 3, 3), (2, 2), AROUND),
    Case((2, 1, 1, 64), (64, 4, 3, 3), paddings=AROUND),
    Case((1, 30, 31, 128), (128, 4, 3, 3), paddings=AROUND),
    Case((3, 5, 6, 24), (40, 24, 1, 1)),
    Case((3, 5, 6, 24), (40, 24, 1, 1), (2, 2)),
    Case((2, 7, 5, 20), (8, 20, 1, 1), (3, 1)),
    *TILED,
]


n_threads = thread_counts(1, 2, 3)


def make_inputs(case: Case) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    shapes = {"x": case.images, "weight": case.weight, "bias": case.weight[:1]}
    return {name: rng.standard_normal(shape) for name, shape in shapes.items()}


def compute(case: Case, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Return the convolution, and the gradient of its summed squares for each input."""
    block = ow.Program().global_block()
    variables = {
        name: block.create_var(name, array.shape, array.dtype.name, stop_gradient=False)
        for name, array in inputs.items()
    }
    [out] = block.append_op("conv2d", variables, attrs=case.attributes()).output("out")
    [squares] = block.append_op("square", {"x": out}).output("out")
    pairs = ow.append_backward([block.var(squares)], list(variables.values()))
    run = ow.Network(block).compile(feed=list(inputs), fetch=[out, *(g for _, g in pairs)])
    return [np.asarray(array) for array in run(**inputs)]


@pytest.mark.parametrize(
    "case",
    CASES,
    ids=lambda case: "x".join(map(str, case.images + case.weight)) + f"-{case.strides}",
)
def test_results_and_gradients_match_float64(case: Case, n_threads: int) -> None:
    inputs = make_inputs(case)
    wanted = compute(case, inputs)
    got = compute(case, {name: array.astype("float32") for name, array in inputs.items()})
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6 * float(np.abs(b).max()))


# tanh is excluded because its results are small compared with its arguments and their errors.
@pytest.mark.parametrize("activation", ["", *(name for name in ACTIVATIONS if name != "tanh")])
@pytest.mark.parametrize(
    "case",
    [*CASES[:7], *TILED, *FEW],
    ids=lambda case: "x".join(map(str, case.images + case.weight)) + f"-{case.strides}",
)
def test_batch_norm_and_activation_are_fused(case: Case, activation: str) -> None:
    inputs = {name: array.astype("float32") for name, array in make_inputs(case).items()}
    block, scope = ow.Program().global_block(), ow.Scope()
    rng = np.random.default_rng(8)
    n = case.weight[0]
    shapes = {"weight": case.weight, **dict.fromkeys(("scale", "bias", "mean", "variance"), (n,))}
    for name, shape in shapes.items():
        block.create_var(name, shape, "float32", persistable=True)
        scope.var(name).set(rng.uniform(0.5, 1.5, shape).astype("float32"))
    images = np.moveaxis(inputs["x"], -1, 1)  # transposed by the pass nhwc
    attrs = {**case.attributes(), "data_format": "NCHW"}
    block.create_var("x", images.shape, "float32")
    [h] = block.append_op("conv2d", {"x": "x", "weight": "weight"}, attrs=attrs).output("out")
    norm = {"x": h, "scale": "scale", "bias": "bias", "mean": "mean", "variance": "variance"}
    outputs = {"out": "normal", "mean_out": "mean", "variance_out": "variance"}
    block.append_op("batch_norm", norm, outputs, {"training": False})
    shape = block.var("normal").shape
    block.create_var("residual", shape, "float32")
    [out] = block.append_op("add", {"x": "normal", "y": "residual"}).output("out")
    if activation:
        [out] = block.append_op(activation, {"x": out}).output("out")
    feeds = {
        "x": images,
        "residual": rng.standard_normal(shape).astype("float32"),
    }
    feeds["residual"].flat[0] = np.nan
    results = []
    for passes in ([], None):
        network = ow.Network(block)
        run = network.compile(feed=list(feeds), fetch=[out], scope=scope, passes=passes)
        results.append(run(**feeds)[0])
        assert ("cpu.conv2d_fused" in network.placement().types) == (passes is None)
    plain, fused = results
    if activation == "relu6":
        plain.flat[0] = fused.flat[0] = 0  # NaN may become 0, as documented
    np.testing.assert_allclose(fused, plain, rtol=2e-5, atol=2e-5 * float(np.nanmax(np.abs(plain))))


def test_grouped_convolutions_are_bitwise_identical_for_any_number_of_threads() -> None:
    case = CASES[10]
    inputs = {name: array.astype("float32") for name, array in make_inputs(case).items()}
    before, results = ow.get_num_threads(), []
    for count in (1, 2, 5):
        ow.set_num_threads(count)
        results.append(compute(case, inputs))
    ow.set_num_threads(before)
    for result in results[1:]:
        for a, b in zip(result, results[0], strict=True):
            np.testing.assert_array_equal(a, b)


def run_each(case: Case, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Return the convolution, and the gradients of images and weight for `out_grad`."""
    attributes = case.attributes()
    given = {name: arrays[name] for name in ("x", "weight")}
    out = ow.ops.conv2d(**given, **attributes)
    out_grad = arrays["out_grad"] if "out_grad" in arrays else np.ones_like(out)
    gradients = ow.ops.conv2d_grad(
        **given, out_grad=out_grad, returns=["x_grad", "weight_grad"], **attributes
    )
    return [out, *gradients]


def check_as_in_float64(case: Case, arrays: Mapping[str, np.ndarray]) -> None:
    """Check that infinities and NaN are at the same positions and all other numbers agree."""
    wanted = run_each(case, {name: array.astype("float64") for name, array in arrays.items()})
    for a, b in zip(run_each(case, arrays), wanted, strict=True):
        scale = float(np.abs(b[np.isfinite(b)]).max())
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6 * scale)


def make_tiled(case: Case) -> dict[str, np.ndarray]:
    inputs = make_inputs(case)
    return {name: inputs[name].astype("float32") for name in ("x", "weight")}


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("case", TILED, ids=lambda case: "x".join(map(str, case.images)))
def test_infinities_and_nan_affect_only_windows_that_contain_them(
    case: Case, value: float, n_threads: int
) -> None:
    images = make_tiled(case)
    images["x"][0, 1, 2, 3] = value
    check_as_in_float64(case, images)
    arrays = make_tiled(case)
    ones = np.ones_like(ow.ops.conv2d(**arrays, **case.attributes()))
    ones[-1, ones.shape[1] // 2, ones.shape[2] // 2, 20] = value  # a window without padding
    arrays["out_grad"] = ones
    check_as_in_float64(case, arrays)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_an_infinite_weight_affects_only_its_filter(value: float, n_threads: int) -> None:
    case = TILED[2]
    arrays = make_tiled(case)
    arrays["x"] += 5  # no zeros, so products with infinity are not NaN
    arrays["weight"][17, 5, 1, 2] = value
    check_as_in_float64(case, arrays)


def test_values_whose_winograd_transform_overflows_are_summed_directly(n_threads: int) -> None:
    case = TILED[0]
    arrays = make_tiled(case)
    arrays["weight"] *= 1e-3
    arrays["x"][0, 4:6, 4:6, 7] = np.array([[3e38, -3e38], [-3e38, 3e38]])
    attributes = case.attributes()
    out = ow.ops.conv2d(**arrays, **attributes)
    wide = {name: array.astype("float64") for name, array in arrays.items()}
    wanted = ow.ops.conv2d(**wide, **attributes)
    assert np.isfinite(out).all()
    np.testing.assert_allclose(out, wanted, rtol=2e-5, atol=2e-6 * float(np.abs(wanted).max()))


@pytest.mark.parametrize("case", TILED, ids=lambda case: "x".join(map(str, case.images)))
def test_winograd_convolutions_are_bitwise_identical_for_any_number_of_threads(case: Case) -> None:
    arrays = make_tiled(case)
    before, results = ow.get_num_threads(), []
    for count in (1, 2, 4, 5):
        ow.set_num_threads(count)
        results.append(
            run_each(case, arrays)[:2]
        )  # without weight gradients, which depend on the thread count
    ow.set_num_threads(before)
    for result in results[1:]:
        for a, b in zip(result, results[0], strict=True):
            np.testing.assert_array_equal(a, b)
