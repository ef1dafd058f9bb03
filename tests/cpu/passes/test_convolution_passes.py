"""Convolutional networks give the same results with and without the convolution passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_nets import Net, conv, norm, parameter
from thread_counts import thread_counts

import opwright as ow
import opwright_nn as nn
from opwright.targets.native_kernel import NativeKernel
from opwright_cpu.plan_ops.convolution import ACTIVATIONS
from opwright_nn import layers

ops = ow.ops

FLAGS = Path("/proc/cpuinfo").read_text().split()
needs_bfloat16 = pytest.mark.skipif(
    "avx512bw" not in FLAGS, reason="oneDNN computes bfloat16 with AVX-512"
)


def residual_net(x: Any) -> Any:
    h = layers.max_pool2d(norm(conv(x, 8, bias=False), activation="relu"), 3, strides=2, paddings=1)
    short = norm(conv(h, 8, 1, bias=False))
    inner = norm(conv(norm(conv(h, 8, bias=False), activation="relu"), 8, bias=False))
    h = layers.relu(ops.add(inner, short))
    return layers.fc(layers.flatten(layers.adaptive_avg_pool2d(h, output_size=1)), size=5)


def test_a_residual_network_becomes_fused_convolutions_between_two_transpositions():
    types = Net(residual_net).check()
    assert types["cpu.conv2d_fused"] == 4
    assert types["cpu.fold_batch_norm"] == 4
    assert types["transpose"] <= 2
    assert not types.keys() & {"conv2d", "batch_norm", "add", "relu"}


def test_kernels_of_fused_convolutions_are_prepared_only_for_channels_last(monkeypatch):
    orders: list[str] = []

    def note(kernel, proto, metas, attrs, **given):
        if kernel.op_type == "cpu.conv2d_fused":
            orders.append(attrs["data_format"])
        return prepare(kernel, proto, metas, attrs, **given)

    prepare = NativeKernel.prepare
    monkeypatch.setattr(NativeKernel, "prepare", note)
    Net(residual_net, shape=(2, 3, 13, 11)).run(None)
    assert set(orders) == {"NHWC"}
    Net(residual_net, shape=(2, 3, 13, 11)).run(["fuse_conv"])
    assert set(orders) == {"NCHW", "NHWC"}


@needs_bfloat16
def test_a_residual_network_in_bfloat16_is_fused_as_in_float32_without_additional_rounding():
    net, wide = Net(residual_net, dtype="bfloat16"), Net(residual_net)
    wide.x = net.x.astype("float32")
    for variable in wide.main.global_block().vars.values():
        if variable.persistable:
            values = net.scope.find_var(variable.name).numpy()
            wide.scope.find_var(variable.name).set(values.astype("float32"))
    (exact,), types_of_float32 = wide.run(None)
    (plain,), _ = net.run([])
    (fused,), types = net.run(None)
    assert types == types_of_float32 - Counter(multiply=4)  # weights are scaled only in float32
    far, near = (np.abs(out.astype("float32") - exact).max() for out in (plain, fused))
    assert near <= max(far, 2.0**-8 * np.abs(exact).max())


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("bias", [False, True])
def test_bias_and_activation_are_fused(activation, bias):
    types = Net(lambda x: conv(x, bias=bias, activation=activation)).check()
    assert types["cpu.conv2d_fused"] == 1
    assert activation not in types


@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=needs_bfloat16)])
@pytest.mark.parametrize(
    ("activation", "hides"),
    [("relu", False), ("silu", False), ("hard_swish", False), ("relu6", True)],
)
@pytest.mark.parametrize("filters", [3, 64])
def test_fused_and_separate_activations_differ_at_nan_and_negative_infinity(
    filters, activation, hides, dtype
):
    sums: list[Any] = []

    def write(x):
        sums.append(conv(x, filters))
        return getattr(ops, activation)(sums[0])

    net = Net(write, dtype=dtype)
    net.x[0, 0, 1, 1] = np.nan
    (bias,) = [v for v in net.main.parameters() if v.shape == (filters,)]
    net.scope.find_var(bias.name).set(np.full(filters, -np.inf).astype(net.x.dtype))
    (plain, before), _ = net.run([], sums)
    (fused,), types = net.run(None)
    assert types["cpu.conv2d_fused"] == 1
    plain, before, fused = (array.astype(np.float64) for array in (plain, before, fused))
    assert np.isnan(before).any()
    assert np.isneginf(before).any()
    np.testing.assert_array_equal(plain, np.where(np.isnan(before), np.nan, 0))
    if (activation, dtype) == ("silu", "float32"):
        np.testing.assert_array_equal(fused, plain)
    else:
        np.testing.assert_array_equal(fused, np.zeros_like(before) + (0 if hides else np.nan))


n_threads = thread_counts(1, 2, 3)


@pytest.mark.parametrize("images", [1, 2, 5])
@pytest.mark.parametrize("side", [9, 40])  # threads do not divide small outputs
@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("passes", [["fuse_conv"], ["fuse_conv", "nhwc"]])
def test_silu_is_applied_after_all_additions_for_any_division_of_the_work(
    images, side, kernel, passes, n_threads
):
    def write(x):
        h = conv(x, 48, bias=True)
        return ops.silu(ops.add(norm(conv(h, 48, kernel, bias=True)), h))

    net = Net(write, shape=(images, 3, side, side))
    rng = np.random.default_rng(6)
    for v in net.main.parameters():  # with small sums, silu is neither 0 nor x
        values = rng.standard_normal(v.shape) / np.sqrt(np.prod(v.shape[1:]))
        net.scope.find_var(v.name).set(values.astype("float32"))
    net.x[0, 0, 0, 0], net.x[-1, 1, -1, -1] = np.nan, -np.inf
    (plain,), _ = net.run([])
    (fused,), types = net.run(passes)
    assert types["cpu.conv2d_fused"] == 1
    assert "silu" not in types
    assert np.isnan(plain).any()
    np.testing.assert_allclose(fused, plain, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("size", [(1, 1), (1, 15), (3, 7), (40, 41)])  # full and partial vectors
def test_the_error_of_silu_after_a_convolution_is_a_few_ulps(size):
    net = Net(lambda x: ops.silu(conv(x, 3, 1, bias=False)), shape=(1, 3, *size))
    (weight,) = net.main.parameters()
    net.scope.find_var(weight.name).set(np.eye(3, dtype="float32").reshape(3, 3, 1, 1))
    net.x = np.linspace(-100, 100, net.x.size, dtype="float32").reshape(net.x.shape)
    (got,), types = net.run(None)
    assert types["cpu.conv2d_fused"] == 1
    x, ulp = net.x.astype("float64"), np.finfo("float32").eps
    wanted = x / (1 + np.exp(-x))
    allowed = (4 + abs(x) / 2) * ulp * abs(wanted) + 1e-36  # allows for half an ulp in x
    assert (abs(got - wanted) <= allowed).all()


def test_a_bias_is_added_before_the_normalization():
    assert Net(lambda x: norm(conv(x, bias=True))).check()["cpu.conv2d_fused"] == 1


def test_a_fetched_intermediate_prevents_folding():
    def write(x):
        h = conv(x)
        return [layers.relu(norm(h)), h]

    types = Net(write).check()
    assert types["conv2d"] == 1
    assert types["cpu.fold_batch_norm"] == 0


def test_a_convolution_with_two_readers_is_kept():
    def write(x):
        h = conv(x)
        return ops.add(layers.relu(h), ops.tanh(h))

    assert Net(write).check()["conv2d"] == 1


def test_the_sum_of_a_convolution_with_itself_is_correct():
    def write(x):
        h = conv(x)
        return ops.add(h, h)

    Net(write).check()


@pytest.mark.parametrize("shape", [(1, 4, 1, 1), (4, 1, 1), (2, 1, 9, 8), (1,), (8,)])
def test_a_residual_that_broadcasts_is_added_separately(shape):
    def write(x):
        other = parameter("other", shape)
        return layers.relu(ops.add(conv(x), other))

    types = Net(write).check()
    assert types["cpu.conv2d_fused"] == 0


@pytest.mark.parametrize("turned", [False, True])
def test_the_later_of_two_convolutions_computes_their_sum(turned):
    def write(x):
        a, b = conv(x), conv(x, kernel=1)
        return layers.relu(ops.add(b, a) if turned else ops.add(a, b))

    types = Net(write).check()
    assert types["cpu.conv2d_fused"] == 1
    assert types["conv2d"] == 1


def test_groups_strides_and_uneven_paddings_are_kept():
    def write(x):
        weight = parameter("weight", (6, 1, 3, 2))
        h = ops.conv2d(x, weight, strides=[2, 1], paddings=[0, 2, 1, 0], dilations=[1, 2], groups=3)
        return layers.relu(h)

    assert Net(write).check()["cpu.conv2d_fused"] == 1


def test_channels_last_images_are_not_transposed():
    def write(x):
        weight = parameter("weight", (4, 8, 3, 3))
        return layers.relu(ops.conv2d(x, weight, data_format="NHWC"))

    types = Net(write).check()
    assert types["cpu.conv2d_fused"] == 1
    assert types["transpose"] == 0


def test_transposed_convolutions_run_in_nhwc():
    def write(x):
        h = layers.relu(layers.conv2d_transpose(conv(x), 6, 2, strides=2))
        return layers.max_pool2d(layers.conv2d_transpose(h, 4, 3, paddings=1), 2)

    assert Net(write).check()["transpose"] == 2


def test_batch_norm_in_training_runs_channels_last():
    def write(x):
        h = norm(conv(x, bias=False), training=True)
        return layers.avg_pool2d(layers.relu(h), 2)

    types = Net(write).check()
    assert types["std.batch_norm_activation"] == 1
    assert types["transpose"] == 2


def test_element_wise_operators_between_convolutions_run_in_nhwc():
    def write(x):
        h = ops.elu(conv(x), alpha=0.5)
        return conv(ops.multiply(h, ops.silu(conv(h))))

    types = Net(write).check()
    assert types["transpose"] == 2


@pytest.mark.parametrize("pool", [layers.max_pool2d, layers.avg_pool2d])
@pytest.mark.parametrize("training", [False, True])
def test_gradients_are_the_same_with_and_without_the_passes(pool, training):
    def write(x):
        h = pool(norm(conv(x), training=training, activation="relu"), 2)
        h = layers.adaptive_avg_pool2d(conv(h, 6, activation="tanh"), output_size=[3, 2])
        return layers.fc(layers.flatten(h), size=3)

    types = Net(write, training=True).check()
    assert types["conv2d_grad"] == 2
    assert types["transpose"] <= 6


def pooled(
    shape: Sequence[int] = (5, 3, 3, 3), pool: Any = 2, apart: int | None = None, **kwargs: Any
) -> Callable[[Any], Any]:
    """Return a function that appends a convolution with a weight of `shape`, then max pooling."""

    def write(x: Any) -> Any:
        weight = parameter("weight", shape)
        if shape[1] != 3 and kwargs.get("groups", 1) == 1:
            x = conv(x, shape[1], 1)
        return layers.max_pool2d(ops.conv2d(x, weight, **kwargs), pool, strides=apart)

    return write


AT_MAXIMA = {
    "three channels": pooled(),
    "a bias": lambda x: layers.max_pool2d(conv(x, 6), 2),
    "an activation": lambda x: layers.max_pool2d(layers.tanh(conv(x, 6)), 2),
    "paddings on each side": pooled((4, 3, 3, 2), paddings=[1, 0, 2, 1]),
    "strides": pooled((4, 3, 3, 2), strides=[1, 2]),
    "rows apart": pooled((4, 3, 3, 2), (2, 3), dilations=[2, 1]),
    "windows that overlap": pooled((20, 3, 3, 3), 3, 2, paddings=[1, 1, 1, 1]),
    "whole vectors and a part": pooled((18, 20, 5, 5), paddings=[2, 2, 2, 2]),
    "two whole vectors": pooled((7, 32, 2, 1)),
}


@pytest.mark.parametrize("write", AT_MAXIMA.values(), ids=AT_MAXIMA.keys())
@pytest.mark.parametrize("n_threads", [1, 2])
def test_the_gradient_of_a_convolution_before_max_pooling_uses_only_the_maxima(write, n_threads):
    ow.set_num_threads(n_threads)
    types = Net(write, training=True).check()
    assert types["std.conv2d_pool_grad"] == 1
    assert "max_pool2d_grad" not in types


IN_ALL_PIXELS = {
    "groups": pooled((6, 1, 3, 3), groups=3),
    "columns apart": pooled(dilations=[1, 2]),
    "as many maxima as pixels": pooled(apart=1),
    "windows of one pixel": lambda x: layers.max_pool2d(conv(x, 6, 1), 2),
    "an operator between": lambda x: layers.max_pool2d(layers.silu(conv(x, 6)), 2),
    "two readers": lambda x: ops.multiply(
        layers.max_pool2d(h := conv(x, 6), 2), layers.avg_pool2d(h, 2)
    ),
}


@pytest.mark.parametrize("write", IN_ALL_PIXELS.values(), ids=IN_ALL_PIXELS.keys())
def test_the_gradient_of_a_convolution_uses_all_pixels_in_unsupported_cases(write):
    types = Net(write, training=True).check()
    assert types["conv2d_grad"] == 1
    assert types["max_pool2d_grad"] == 1


def test_a_training_step_gives_the_same_results_with_and_without_the_passes():
    def run(passes):
        with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
            x = layers.data("x", shape=[None, 1, 12, 12], dtype="float32")
            label = layers.data("label", shape=[None, 1], dtype="int64")
            h = layers.max_pool2d(layers.conv2d(x, 5, 5), 2)
            h = layers.fc(layers.flatten(h), size=9, activation="relu")
            rows = layers.softmax_with_cross_entropy(layers.fc(h, size=4), label)
            loss = layers.mean(rows)
            nn.optimizer.SGD(0.1).minimize(loss)
        scope = ow.Scope()
        ow.Network(startup.global_block()).run(scope)
        step = ow.Network(main.global_block()).compile(
            feed=["x", "label"], fetch=[loss], scope=scope, passes=passes
        )
        rng = np.random.default_rng(1)
        feeds = {
            "x": rng.standard_normal((6, 1, 12, 12)).astype("float32"),
            "label": rng.integers(0, 4, (6, 1)),
        }
        return [float(step(**feeds)[0]) for _ in range(4)]

    np.testing.assert_allclose(run(None), run([]), rtol=2e-5)
