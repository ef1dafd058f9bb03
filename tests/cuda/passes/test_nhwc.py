"""On a GPU, images are converted to channels last only for tensor cores in cuDNN."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
from one_operator import skip_without_cudnn

import opwright as ow
import opwright_nn as nn
from opwright.op import dtype_to_numpy
from opwright_cuda import cudnn
from opwright_cuda.options import ALLOW_TF32
from opwright_nn import layers

pytestmark = pytest.mark.cuda_kernels

EPS = 2.0**-8


@pytest.fixture(autouse=True)
def installed() -> None:
    skip_without_cudnn()


class Ran(NamedTuple):
    """The loss and parameters after two steps, and the operators of a step in order."""

    numbers: list[Any]
    order: list[str]

    @property
    def n_turned(self) -> int:
        return self.order.count("transpose")


def normal(x: Any, activation: str | None = None) -> Any:
    return layers.batch_norm(x, activation=activation, training=True)


def plain(x: Any) -> Any:
    """Return conv - batch_norm - relu - conv - pool."""
    h = normal(layers.conv2d(x, 8, 3, paddings=1, bias=False), "relu")
    return layers.max_pool2d(layers.conv2d(h, 8, 3, paddings=1), 2)


def residual(x: Any) -> Any:
    """Return pool(relu(batch_norm(conv(h)) + h)), where h is a convolution of x."""
    h = layers.relu(layers.conv2d(x, 8, 3, paddings=1))
    inner = normal(layers.conv2d(h, 8, 3, paddings=1, bias=False))
    return layers.adaptive_avg_pool2d(layers.relu(ow.ops.add(inner, h)), output_size=1)


def train(
    build: Any,
    dtype: str,
    passes: list[str] | None = None,
    pins: Mapping[str, str] | None = None,
    allow_tf32: bool = False,
) -> Ran:
    """Train a network on the GPU for two steps."""
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        x = layers.data("x", shape=[None, 3, 8, 6], dtype=dtype)
        loss = layers.mean(ow.ops.square(build(x)))
        nn.optimizer.SGD(0.01).minimize(loss)
    scope, rng = ow.Scope(), np.random.default_rng(5)
    kept = [v for v in main.global_block().vars.values() if v.persistable]
    for variable in kept:
        value = rng.uniform(0.1, 0.5, variable.shape)
        scope.var(variable.name).set(value.astype(dtype_to_numpy(variable.dtype)))
    feeds = {"x": rng.standard_normal((2, 3, 8, 6)).astype(dtype_to_numpy(dtype))}
    context = ow.Context.discover().with_pins(pins or {})
    with ow.context_guard(context.with_options({ALLOW_TF32: allow_tf32})):
        network = ow.Network(main.global_block())
        step = network.compile(["x"], [loss], device="cuda", scope=scope, passes=passes)
        losses = [step(**feeds)[0] for _ in range(2)]
        order = [row.op_type for row in network.profile(feeds, 1).rows]
    return Ran([*losses, *(scope.var(v.name).numpy() for v in kept)], order)


def assert_same(one: Ran, other: Ran) -> None:
    for a, b in zip(one.numbers, other.numbers, strict=True):
        wide = a.astype(np.float64), b.astype(np.float64)
        np.testing.assert_allclose(*wide, rtol=EPS, atol=EPS * float(np.max(np.abs(wide[0]))))


FOR_TENSOR_CORES = pytest.mark.parametrize(
    ("dtype", "tf32"), [("float16", False), ("float32", True)]
)


@FOR_TENSOR_CORES
def test_a_training_step_transposes_images_only_at_the_beginning_and_the_end(
    dtype: str, tf32: bool
) -> None:
    ran = train(plain, dtype, allow_tf32=tf32)
    assert_same(ran, train(plain, dtype, ["-nhwc"], allow_tf32=tf32))
    assert ran.n_turned == 3  # x, the pooled images and their gradient
    forward = ran.order[ran.order.index("conv2d") : ran.order.index("max_pool2d")]
    backward = ran.order[ran.order.index("max_pool2d_grad") :]
    assert "transpose" not in [*forward, *backward]
    assert "std.batch_norm_activation" in forward
    assert "std.batch_norm_activation_grad" in backward


@FOR_TENSOR_CORES
def test_results_match_without_the_fusion_passes(dtype: str, tf32: bool) -> None:
    ran = train(plain, dtype, ["nhwc"], allow_tf32=tf32)
    assert_same(ran, train(plain, dtype, [], allow_tf32=tf32))
    assert ran.n_turned == 3


def test_a_residual_is_transposed_with_its_addend() -> None:
    ran = train(residual, "float16")
    assert_same(ran, train(residual, "float16", ["-nhwc"]))
    # Only x is transposed, since both layouts are identical for an image of one pixel.
    assert ran.n_turned == 1
    assert "std.batch_norm_activation_grad" in ran.order


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_images_keep_their_layout_without_reduced_precision(dtype: str) -> None:
    assert train(plain, dtype).n_turned == 0


def test_images_keep_their_layout_without_cudnn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cudnn, "find_refusal", lambda: "cuDNN cannot be loaded")
    ran = [train(plain, dtype, allow_tf32=True) for dtype in ("float16", "float32")]
    assert [each.n_turned for each in ran] == [0, 0]


@pytest.mark.parametrize(
    ("dtype", "library", "n_turned"),
    [
        ("float16", "cudnn", 3),
        ("float16", "native", 0),
        ("float32", "cudnn_tf32", 3),
        ("float32", "cudnn", 0),
    ],
)
def test_pins_of_convolutions_determine_the_image_layout(
    dtype: str, library: str, n_turned: int
) -> None:
    pins = {"conv2d": library, "conv2d_grad": library}
    assert train(plain, dtype, pins=pins, allow_tf32=True).n_turned == n_turned
