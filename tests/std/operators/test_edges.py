"""Edge cases outside the case table: derivatives at kinks and far from 0, and shape errors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from case import Array, Case, Values
from one_operator import Target, build, pinned, run_case
from test_gradients import compute_gradients

import opwright as ow
from opwright.errors import OpwrightError, ShapeError

NUMPY = Target("cpu", "numpy")
FAR = [-1e30, -1e4, -300.0, -30.0, 0.0, 30.0, 300.0, 1e4, 1e30]


def derivative_of(op: str, numbers: Sequence[Any], dtype: str = "float64", **attrs: Any) -> Array:
    """Return the gradient of a function of one input, with the loss weights divided out."""
    case = Case(op, {"x": Values(numbers)}, None, attrs)
    gradient = compute_gradients(case, case.make_inputs(dtype), NUMPY)["x"]
    ones = Case("assign", case.inputs, None)
    return gradient / compute_gradients(ones, ones.make_inputs(dtype), NUMPY)["x"]


@pytest.mark.parametrize(
    ("op", "attrs", "left", "right"),
    [
        ("relu", {}, 0, 1),
        ("sigmoid", {}, 0, 0),
        ("tanh", {}, 0, 0),
        ("softplus", {}, 0, 1),
        ("silu", {}, 0, 1),
        ("gelu", {}, 0, 1),
        ("gelu", {"approximate": "tanh"}, 0, 1),
        ("elu", {}, 0, 1),
        ("leaky_relu", {"alpha": 0.25}, 0.25, 1),
        ("erf", {}, 0, 0),
        ("clip", {"min": -1.0, "max": 1.0}, 0, 0),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_derivatives_far_from_0_are_finite(
    op: str, attrs: dict[str, Any], left: float, right: float, dtype: str
) -> None:
    case = Case(op, {"x": Values(FAR)}, None, attrs)
    derivatives = derivative_of(op, FAR, dtype, **attrs)
    np.testing.assert_allclose(derivatives[:3], left, atol=1e-6)
    np.testing.assert_allclose(derivatives[-3:], right, atol=1e-6)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        run_case(case, case.make_inputs(dtype), NUMPY)


@pytest.mark.parametrize(
    ("op", "attrs", "at_kink"),
    [
        ("abs", {}, 0),
        ("sign", {}, 0),
        ("relu", {}, 0),
        ("elu", {"alpha": 0.5}, 0.5),
        ("leaky_relu", {"alpha": 0.5}, 0.5),
        ("clip", {"min": 0.0}, 1),
        ("clip", {"max": 0.0}, 1),
        ("sqrt", {}, np.inf),
    ],
)
def test_the_derivative_at_a_kink_is_the_documented_value(
    op: str, attrs: dict[str, Any], at_kink: float
) -> None:
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(derivative_of(op, [0.0], **attrs), [at_kink])


@pytest.mark.parametrize("op", ["maximum", "minimum"])
def test_the_first_of_two_equal_numbers_receives_the_gradient(op: str) -> None:
    case = Case(op, {"x": Values([1.0, 2.0]), "y": Values([1.0, 2.0])}, None)
    gradients = compute_gradients(case, case.make_inputs("float64"), NUMPY)
    np.testing.assert_array_equal(gradients["y"], [0, 0])
    assert np.all(gradients["x"] != 0)


@pytest.mark.parametrize("op", ["max", "min"])
def test_equal_extrema_share_the_gradient(op: str) -> None:
    case = Case(op, {"x": Values([[3.0, 3.0], [5.0, 5.0]])}, None, {"axis": [1]})
    gradient = compute_gradients(case, case.make_inputs("float64"), NUMPY)["x"]
    np.testing.assert_array_equal(gradient[:, 0], gradient[:, 1])
    assert np.all(gradient != 0)


def test_the_gradient_of_a_power_of_zero_is_finite() -> None:
    case = Case("power", {"x": Values([0.0, 0.0, 0.0]), "y": Values([0.0, 1.0, 2.0])}, None)
    with np.errstate(all="raise"):
        gradients = compute_gradients(case, case.make_inputs("float64"), NUMPY)
    assert gradients["x"][0] == gradients["x"][2] == 0 != gradients["x"][1]
    np.testing.assert_array_equal(gradients["y"], [0, 0, 0])


def test_the_mean_of_many_float16_numbers_is_finite() -> None:
    case = Case("mean", {"x": Values(np.full(4096, 100.0))}, None)
    with pinned(case, NUMPY):
        outputs = run_case(case, case.make_inputs("float16"), NUMPY)
    np.testing.assert_array_equal(outputs["out"][0], np.float16(100))


BAD: list[tuple[str, Mapping[str, Any], dict[str, Any], str]] = [
    ("add", {"x": (2, 3), "y": (4,)}, {}, "shapes must broadcast, got [2, 3] and [4]"),
    ("where", {"condition": (2,), "x": (3,), "y": ()}, {}, "shapes must broadcast"),
    ("add_n", {"x": [(2, 3), (3,)]}, {}, "all x must have the same shape, got [2, 3] and [3]"),
    ("clip", {"x": (2,)}, {"min": 1.0, "max": 0.0}, "min must not be above max, got min=1.0"),
    ("sum", {"x": (2, 3)}, {"axis": [2]}, "axis must be in [-2, 2) for a 2-d input, got axis=2"),
    ("sum", {"x": (2, 3)}, {"axis": [1, -1]}, "axis must name each axis once, got axis=[1, -1]"),
    ("max", {"x": (2, 0)}, {"axis": [1]}, "an axis to reduce must have elements, got shape [2, 0]"),
    ("argmin", {"x": (0,)}, {}, "an axis to reduce must have elements, got shape [0]"),
    ("median", {"x": (2, 0)}, {}, "an axis to reduce must have elements, got shape [2, 0]"),
    ("quantile", {"x": (2,)}, {"q": 1.5}, "q must be in [0, 1], got q=1.5"),
    ("histogram", {"x": (2,)}, {"min": 1.0, "max": 1.0}, "min must be less than max, and both"),
    ("searchsorted", {"x": (2, 3), "values": (2,)}, {}, "x must be [n], got [2, 3]"),
    ("argmax", {"x": ()}, {"axis": 1}, "axis must be in [-1, 1) for a 0-d input, got axis=1"),
    ("top_k", {"x": ()}, {"k": 2}, "k must be in [1, 1], the length of axis 0, got k=2"),
    ("concat", {"x": [()]}, {}, "axis needs an input of"),
    (
        "reshape",
        {"x": (2, 3)},
        {"shape": [4]},
        "shape must have as many elements as [2, 3], got [4]",
    ),
    ("reshape", {"x": (2, 3)}, {"shape": [-1, 4]}, "shape must have as many elements as [2, 3]"),
    ("reshape", {"x": (2, 3)}, {"shape": [-1, -1]}, "shape must have at most one -1"),
    ("reshape", {"x": (6,)}, {"shape": [1, 0]}, "shape copies axis 1 of a 1-d input, got [1, 0]"),
    ("reshape", {"x": (6,)}, {"shape": [-2]}, "shape must be in [-1, inf)"),
    ("squeeze", {"x": (2, 1)}, {"axis": [0]}, "axis must name axes of length 1, got axis 0"),
    ("unsqueeze", {"x": (2,)}, {"axis": [3]}, "axis must be in [-2, 2) for a 2-d input"),
    ("transpose", {"x": (2, 3)}, {"axes": [0]}, "axes must name all axes of a 2-d input"),
    ("transpose", {"x": (2, 3)}, {"axes": [0, 0]}, "axes must name each axis once"),
    ("concat", {"x": [(2, 3), (2, 4)]}, {}, "all x must have the same shape except for axis 0"),
    (
        "concat",
        {"x": [(2, 3), (2,)]},
        {"axis": 1},
        "all x must have the same shape except for axis 1",
    ),
    ("split", {"x": (5,)}, {"num": 2}, "num must divide the 5 of the axis, got num=2"),
    ("split", {"x": (5,)}, {"sections": [2, 2]}, "sections must add up to the 5 of the axis"),
    ("split", {"x": (5,)}, {"num": 3}, "out must have 3 variables, got 2"),
    (
        "slice",
        {"x": (5,)},
        {"axes": [0], "starts": [0], "ends": [1, 2]},
        "axes, starts, ends and steps must have the same length",
    ),
    (
        "slice",
        {"x": (5,)},
        {"axes": [0], "starts": [0], "ends": [1], "steps": [0]},
        "steps must not be 0",
    ),
    ("pad", {"x": (5,)}, {"paddings": [1]}, "paddings must have a begin and an end for each axis"),
    (
        "pad",
        {"x": (2,)},
        {"paddings": [2, 0], "mode": "reflect"},
        "mode 'reflect' needs 3 elements on axis 0, got 2",
    ),
    (
        "pad",
        {"x": (0,)},
        {"paddings": [2, 0], "mode": "edge"},
        "mode 'edge' needs 1 elements on axis 0, got 0",
    ),
    (
        "pad",
        {"x": (5, 3)},
        {"paddings": [1, 0, -2, -2]},
        "paddings must leave at least 0 elements on axis 1, got [-2, -2], which crop 4 of 3",
    ),
    (
        "pad",
        {"x": (3,)},
        {"paddings": [-4, 2]},
        "paddings must leave at least 0 elements on axis 0, got [-4, 2], which crop 4 of 3",
    ),
    (
        "pad",
        {"x": (5,)},
        {"paddings": [-6, 0], "mode": "edge"},
        "paddings must leave at least 0 elements on axis 0, got [-6, 0], which crop 6 of 5",
    ),
    ("expand", {"x": (2, 3)}, {"shape": [3]}, "shape must have a length for every new axis"),
    ("expand", {"x": (2, 3)}, {"shape": [-1, 2, 3]}, "shape must have a length for every new axis"),
    ("expand", {"x": (2, 3)}, {"shape": [4, 3]}, "x of shape [2, 3] must broadcast"),
    ("sum_like", {"x": (2, 3), "like": (2,)}, {}, "shape must broadcast to [2, 3], got [2]"),
    ("expand_like", {"x": (2, 3), "like": (3,)}, {}, "shape must broadcast to [3], got [2, 3]"),
    ("reshape_like", {"x": (2, 3), "like": (5,)}, {}, "like must have as many elements as x"),
    ("cast", {"x": (2,)}, {"dtype": "float"}, "dtype"),
]


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "message"), BAD, ids=[f"{i}-{bad[0]}" for i, bad in enumerate(BAD)]
)
def test_an_invalid_argument_is_reported(
    op: str, shapes: Mapping[str, Any], attrs: dict[str, Any], message: str
) -> None:
    inputs: dict[str, Any] = {}
    for slot, given in shapes.items():
        dtype = "bool" if slot == "condition" else None
        listed = given if isinstance(given, list) else [given]
        sources = [Values(np.zeros(shape), dtype) for shape in listed]
        inputs[slot] = sources if isinstance(given, list) else sources[0]
    case = Case(op, inputs, None, attrs, outputs={"out": 2} if op == "split" else {})
    with pytest.raises(OpwrightError, match=f"{op}: .*{re.escape(message)}"):
        build(case, case.make_inputs("float32"))


def test_reducing_an_empty_array_to_an_empty_result_is_allowed() -> None:
    case = Case("max", {"x": Values(np.zeros((2, 0)))}, None, {"axis": [0]})
    assert run_case(case, case.make_inputs("float32"), NUMPY)["out"][0].shape == (0,)


def test_negative_powers_of_integers_raise_as_in_numpy() -> None:
    case = Case("power", {"x": Values([2]), "y": Values([-1])}, None)
    with pytest.raises(Exception, match="Integers to negative integer powers are not allowed"):
        run_case(case, case.make_inputs("int64"), NUMPY)


def test_squeeze_requires_axis_if_a_dimension_is_unknown() -> None:
    block = ow.Program().global_block()
    unknown = block.create_var("unknown", [None, 1])
    with pytest.raises(ShapeError, match="squeeze: axis must be given if a dimension is unknown"):
        block.append_op("squeeze", {"x": unknown})


def test_split_of_an_array_requires_num_or_sections() -> None:
    with pytest.raises(OpwrightError, match="num or sections must be given"):
        ow.ops.split(np.zeros(4))
