"""Images are converted to channels last only for kernels that declare this preference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright.plugin import Package
from opwright_nn import layers
from opwright_std.operators.convolution import conv2d

ACME = Package("acme", "opwright-acme", "1.0")


def with_kernel(prefers: Mapping[str, object] | None, kernel: Any = conv2d) -> ow.Context:
    """Return a Context with an additional conv2d kernel that precedes all other kernels."""
    context = ow.Context.discover()
    key = {"device": "cpu", "dtypes": ["float32"], "library": "acme", "package": ACME}
    context.kernels.add("conv2d", kernel=kernel, priority=99, prefers=prefers, **key)
    return context


def run(context: ow.Context, passes: list[str] | None = None) -> tuple[Any, Counter[str], Any]:
    """Return the result of conv - relu - conv, its operators by type and its kernels."""
    with ow.context_guard(context), ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
        x = layers.data("x", shape=[None, 3, 5, 4])
        out = layers.conv2d(layers.relu(layers.conv2d(x, 4, 3)), 2, 2)
        startup.seed, scope = 3, ow.Scope()
        ow.Network(startup.global_block()).run(scope)
        network = ow.Network(main.global_block())
        call = network.compile(["x"], [out], scope=scope, passes=passes)
        image = np.random.default_rng(1).standard_normal((2, 3, 5, 4)).astype("f")
        (result,) = call(x=image)
    placement = network.placement()
    return result, Counter(placement.types), placement.kernels


def test_a_kernel_that_prefers_channels_last_receives_images_in_this_layout() -> None:
    context = with_kernel({"data_format": "NHWC"})
    result, types, kernels = run(context, ["nhwc"])
    assert types == {"conv2d": 2, "relu": 1, "transpose": 2}
    assert kernels["cpu/acme"] == 2
    np.testing.assert_allclose(result, run(context, [])[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("prefers", [None, {"data_format": "NCHW"}, {"groups": 1}])
def test_a_kernel_without_a_preference_is_left_unchanged(
    prefers: Mapping[str, object] | None,
) -> None:
    _, types, _ = run(with_kernel(prefers), ["nhwc"])
    assert types == {"conv2d": 2, "relu": 1}


def test_a_pin_to_kernels_without_a_preference_is_respected() -> None:
    with_pins = ow.Context.discover().with_pins({"conv2d": "numpy"})
    _, types, kernels = run(with_pins)
    assert "transpose" not in types
    assert kernels["cpu/numpy"] == 2


class OnlyFirst:
    """A kernel that accepts only images with three channels in the last axis."""

    @staticmethod
    def prepare(ctx: Any) -> Any:
        if ctx.attrs["data_format"] != "NHWC" or ctx.inputs["x"][0].shape[3] != 3:
            ctx.refuse("takes 3 channels, and these last")
        return lambda x, weight, bias, out: conv2d(x, weight, bias, out, **ctx.attrs)


def test_each_convolution_is_decided_separately() -> None:
    context = with_kernel({"data_format": "NHWC"}, OnlyFirst).with_pins({"*": "acme"})
    result, types, kernels = run(context, ["nhwc"])
    assert types["transpose"] >= 2
    assert kernels["cpu/acme"] == 1
    np.testing.assert_allclose(result, run(ow.Context.discover(), [])[0], rtol=1e-5, atol=1e-6)
