"""Errors of convolution, pooling and flatten for wrong shapes and attributes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from direct import call

import opwright as ow
from opwright.errors import OpwrightError, ShapeError
from opwright_std.operators import convolution

CONV = {"x": (2, 3, 6, 7), "weight": (4, 3, 3, 3)}
IMAGES = {"x": (2, 3, 6, 7)}
NHWC = {"data_format": "NHWC"}

BAD: list[tuple[str, Mapping[str, Any], dict[str, Any], str]] = [
    ("conv2d", CONV | {"x": (3, 6, 7)}, {}, "x must be [n, channels, height, width] for NCHW"),
    ("conv2d", CONV | {"x": (6, 7)}, NHWC, "x must be [n, height, width, channels] for NHWC"),
    ("conv2d", CONV | {"weight": (4, 27)}, {}, "weight must be [out_channels, in_channels / gr"),
    ("conv2d", CONV | {"weight": (4, 3, 0, 3)}, {}, "a kernel of at least 1 x 1, got [4, 3, 0, 3]"),
    ("conv2d", CONV | {"weight": (4, 2, 3, 3)}, {}, "x must have 2 channels, groups=1 times the 2"),
    ("conv2d", CONV, {"groups": 2}, "x must have 6 channels, groups=2 times the 3 of weight"),
    (
        "conv2d",
        CONV | {"x": (2, 6, 7, 3)},
        {},
        "got 6 in x [2, 6, 7, 3]; for images in the order NHWC set data_format='NHWC'",
    ),
    ("conv2d", CONV, NHWC, "got 7 in x [2, 3, 6, 7]; for images in the order NCHW set data_fo"),
    (
        "conv2d",
        {"x": (1, 4, 6, 6), "weight": (3, 2, 3, 3)},
        {"groups": 2},
        "groups must divide the 3 out_channels of weight, got groups=2",
    ),
    ("conv2d", CONV, {"groups": 0}, "groups must be in [1, inf)"),
    ("conv2d", CONV | {"bias": (3,)}, {}, "bias must have the shape [4], got [3]"),
    ("conv2d", CONV, {"strides": [2]}, "strides must hold a number for the height and one for"),
    ("conv2d", CONV, {"strides": [0, 1]}, "strides must be in [1, inf)"),
    ("conv2d", CONV, {"dilations": [1, 1, 1]}, "dilations must hold a number for the height"),
    ("conv2d", CONV, {"dilations": [1, 0]}, "dilations must be in [1, inf)"),
    ("conv2d", CONV, {"paddings": [1, 1]}, "paddings must hold top, bottom, left, right, got [1"),
    ("conv2d", CONV, {"paddings": [0, -1, 0, 0]}, "paddings must be in [0, inf)"),
    ("conv2d", CONV, {"data_format": "CHWN"}, "data_format must be one of 'NCHW', 'NHWC'"),
    (
        "conv2d",
        CONV,
        {"dilations": [3, 1]},
        "the kernel must fit into the padded height, got a kernel that covers 7 of 0 + 6 + 0; ta",
    ),
    (
        "conv2d",
        CONV | {"weight": (4, 3, 3, 9)},
        {"paddings": [0, 0, 1, 0]},
        "the kernel must fit into the padded width, got a kernel that covers 9 of 1 + 7 + 0",
    ),
    *(
        (op, shapes, {"kernel": [2, 2], **attrs}, message)
        for op in ("max_pool2d", "avg_pool2d")
        for shapes, attrs, message in (
            ({"x": (3, 6, 7)}, {}, "x must be [n, channels, height, width] for NCHW, got [3, 6"),
            ({"x": (6, 7)}, NHWC, "x must be [n, height, width, channels] for NHWC, got [6, 7]"),
            (IMAGES, {"kernel": [2]}, "kernel must hold a number for the height and one for"),
            (IMAGES, {"kernel": [0, 2]}, "kernel must be in [1, inf)"),
            (IMAGES, {"strides": [1]}, "strides must hold a number for the height and one for"),
            (IMAGES, {"paddings": [0]}, "paddings must hold top, bottom, left, right, got [0]"),
            (IMAGES, {"paddings": [0, 2, 0, 0]}, "paddings must be smaller than the kernel, got b"),
            (IMAGES, {"paddings": [0, 0, 3, 0]}, "got left 3 for kernel=[2, 2]; pad the input fi"),
            (IMAGES, {"kernel": [7, 2]}, "the kernel must fit into the padded height, got a ker"),
            (IMAGES, {"kernel": [2, 8], "ceil_mode": True}, "covers 8 of 0 + 7 + 0; take a sm"),
            ({"x": (2, 3, 0, 7)}, {"paddings": [1, 1, 0, 0]}, "x must be at least 1, got [2, 3,"),
            (IMAGES, {"data_format": "NCWH"}, "data_format must be one of 'NCHW', 'NHWC'"),
            (IMAGES, {"dilations": [1]}, "dilations must hold a number for the height and one for"),
            (
                IMAGES,
                {"dilations": [6, 1]},
                "the kernel must fit into the padded height, got a ker",
            ),
            (
                IMAGES,
                {"paddings": [0, 0, 4, 0], "dilations": [1, 3]},
                "got left 4 for kernel=[2, 2] and dilations=[1, 3]; pad the input first",
            ),
            (
                {"x": (2, 3, 6, 2)},
                {"paddings": [0, 0, 3, 3], "dilations": [1, 3]},
                "dilations must be at most the sizes of x without padding, got 3 for 2 elements",
            ),
        )
    ),
    ("adaptive_avg_pool2d", {"x": (6, 7)}, {"output_size": [1, 1]}, "x must be [n, channels, he"),
    ("adaptive_avg_pool2d", IMAGES, {"output_size": [1]}, "output_size must hold a "),
    ("adaptive_avg_pool2d", IMAGES, {"output_size": [0, 1]}, "output_size must be in [1, 65536]"),
    ("adaptive_avg_pool2d", {"x": (2, 3, 6, 0)}, {"output_size": [1, 1]}, "must be at least 1"),
    ("flatten", IMAGES, {"start_axis": 5}, "be in [-4, 4) for x [2, 3, 6, 7], got start_axis=5"),
    ("flatten", IMAGES, {"stop_axis": 4}, "be in [-4, 4) for x [2, 3, 6, 7], got start_axis=1"),
    ("flatten", IMAGES, {"start_axis": -5}, "be in [-4, 4) for x [2, 3, 6, 7]"),
    ("flatten", IMAGES, {"start_axis": 2, "stop_axis": 1}, "start_axis must not be after stop_ax"),
    ("flatten", IMAGES, {"start_axis": 4, "stop_axis": 1}, "start_axis must not be after stop_ax"),
    ("flatten", {"x": ()}, {"start_axis": 2}, "be in [-1, 1) for x [], got start_axis=2"),
]


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "message"), BAD, ids=[f"{i}-{bad[0]}" for i, bad in enumerate(BAD)]
)
def test_an_invalid_argument_is_reported(
    op: str, shapes: Mapping[str, Any], attrs: dict[str, Any], message: str
) -> None:
    arrays = {slot: np.zeros(shape, "float32") for slot, shape in shapes.items()}
    with pytest.raises(OpwrightError, match=rf"{op}: .*{re.escape(message)}"):
        getattr(ow.ops, op)(**arrays, **attrs)


def test_mismatches_are_reported_when_the_program_is_built() -> None:
    block = ow.Program().global_block()
    x = block.create_var("x", [None, None, 4, None])
    weight = block.create_var("weight", [8, None, 5, 5])
    with pytest.raises(ShapeError, match="conv2d: the kernel must fit into the padded height"):
        block.append_op("conv2d", {"x": x, "weight": weight})


def test_max_pooling_refuses_images_with_too_many_elements_for_int32_indices() -> None:
    block = ow.Program().global_block()
    x = block.create_var("x", [None, 1, 2**16, 2**15])
    with pytest.raises(ShapeError, match="max_pool2d: x must have at most 2147483647 elements in"):
        block.append_op("max_pool2d", {"x": x}, attrs={"kernel": [2, 2]})


def test_gradients_read_only_the_values_that_they_need() -> None:
    ops = ow.current_context().ops
    read = {
        op: [slot.name for slot in ops.get(f"{op}_grad").proto.inputs if not slot.shape_only]
        for op in ("conv2d", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d")
    }
    assert read == {
        "conv2d": ["x", "weight", "out_grad"],
        "max_pool2d": ["index", "out_grad"],
        "avg_pool2d": ["out_grad"],
        "adaptive_avg_pool2d": ["out_grad"],
    }


def test_a_large_batch_is_convolved_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    shapes = {"x": (5, 3, 4, 6), "weight": (2, 3, 3, 3), "bias": (2,), "out_grad": (5, 2, 2, 4)}
    arrays = {slot: [rng.standard_normal(shape)] for slot, shape in shapes.items()}

    def compute() -> dict[str, list[Any]]:
        ops = ow.current_context().ops
        inputs = {slot: arrays[slot] for slot in ("x", "weight", "bias")}
        forward = call(convolution.conv2d, ops.get("conv2d"), inputs)
        return forward | call(convolution.conv2d_grad, ops.get("conv2d_grad"), arrays)

    whole = compute()
    monkeypatch.setattr(convolution, "_MAX_COLUMNS", 2 * 27 * 8)
    for slot, (part,) in compute().items():
        np.testing.assert_allclose(part, whole[slot][0], rtol=1e-13, err_msg=slot)
