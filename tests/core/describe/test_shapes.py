"""Shape arithmetic matches NumPy, and is consistent for known and unknown dimensions."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opwright.describe.meta import InferContext
from opwright.errors import ShapeError
from opwright.op import (
    Meta,
    OpDefinition,
    OpProto,
    VarProto,
    advise_shape,
    broadcast_shapes,
    dims_match,
    format_shape,
    merge_dims,
    normalize_axes,
    normalize_axis,
    numel,
    reduced_shape,
    shapes_match,
)

DEFINITION = OpDefinition(OpProto("op", "c", (VarProto("x", "c"),)), lambda ctx: None)
CTX = InferContext(DEFINITION, (), {}, (), None)

shapes = st.lists(st.sampled_from([0, 1, 2, 3]), max_size=4).map(tuple)


@st.composite
def shape_and_mask(draw):
    """Draw a known shape, and the same shape with some dimensions unknown."""
    shape = draw(shapes)
    hidden = draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    return shape, tuple(-1 if hide else dim for dim, hide in zip(shape, hidden))


def numpy_broadcast(a, b):
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        return None


@given(shapes, shapes)
def test_known_shapes_broadcast_as_in_numpy(a, b):
    expected = numpy_broadcast(a, b)
    if expected is None:
        with pytest.raises(ShapeError, match=r"op: shapes must broadcast, got"):
            broadcast_shapes(a, b, CTX)
    else:
        assert broadcast_shapes(a, b, CTX) == expected


@given(shape_and_mask(), shape_and_mask())
def test_broadcasting_unknown_dimensions_agrees_with_every_known_size(a, b):
    expected = numpy_broadcast(a[0], b[0])
    if expected is not None:
        assert shapes_match(broadcast_shapes(a[1], b[1], CTX), expected)


@pytest.mark.parametrize(
    ("a", "b", "out"),
    [
        ((-1, 3), (3,), (-1, 3)),
        ((-1,), (1,), (-1,)),
        ((-1,), (-1,), (-1,)),
        ((-1,), (5,), (5,)),
        ((5,), (-1,), (5,)),
        ((1,), (-1,), (-1,)),
        ((), (-1, 2), (-1, 2)),
        ((-1,), (0,), (0,)),
    ],
)
def test_broadcasting_an_unknown_and_a_known_dimension_gives_the_known_dimension_unless_it_is_1(
    a, b, out
):
    assert broadcast_shapes(a, b, CTX) == out


def test_the_error_for_shapes_that_do_not_broadcast_names_the_axis():
    message = (
        "op: shapes must broadcast, got [?, 3] and [2]; 3 and 2 differ on axis -1, "
        "make one of them 1"
    )
    with pytest.raises(ShapeError, match=re.escape(message)):
        broadcast_shapes((-1, 3), (2,), CTX)


@given(st.integers(1, 5), st.data())
def test_axes_are_normalized_as_in_numpy(rank, data):
    axis = data.draw(st.integers(-rank, rank - 1))
    assert normalize_axis(CTX, axis, rank) == range(rank)[axis]


def test_the_error_for_an_axis_out_of_range_states_the_range():
    message = "op: axis must be in [-2, 2) for a 2-d input, got axis=2"
    with pytest.raises(ShapeError, match=re.escape(message)):
        normalize_axis(CTX, 2, 2)
    with pytest.raises(
        ShapeError, match=r"op: begin must be in \[-1, 1\) for a 1-d input, got begin"
    ):
        normalize_axis(CTX, -2, 1, "begin")
    with pytest.raises(
        ShapeError, match=r"op: axis needs an input of 1 or more dimensions, got axis=0"
    ):
        normalize_axis(CTX, 0, 0)


def test_a_scalar_can_be_treated_as_one_dimensional():
    assert [normalize_axis(CTX, axis, 0, scalar=True) for axis in (0, -1)] == [0, 0]
    with pytest.raises(ShapeError, match=r"op: axis must be in \[-1, 1\) for a 0-d input, got"):
        normalize_axis(CTX, 1, 0, scalar=True)


def test_empty_axes_mean_all_axes():
    assert normalize_axes(CTX, (), 3) == (0, 1, 2)
    assert normalize_axes(CTX, (-1, 0), 3) == (2, 0)
    with pytest.raises(ShapeError, match=r"op: axis must name each axis once, got axis=\[0, -2\]"):
        normalize_axes(CTX, (0, -2), 2)


@given(shapes, st.data())
def test_reduced_shapes_match_numpy(shape, data):
    axes = tuple(data.draw(st.sets(st.sampled_from(range(len(shape)))))) if shape else ()
    for keepdims in (False, True):
        expected = np.add.reduce(np.zeros(shape), axis=axes, keepdims=keepdims).shape
        assert reduced_shape(shape, axes, keepdims) == expected


@given(shape_and_mask())
def test_the_number_of_elements_is_minus_one_if_unknown(pair):
    shape, masked = pair
    assert numel(shape) == int(np.prod(shape))
    assert numel(masked) in (-1, numel(shape))


def test_a_tensor_with_a_zero_dimension_has_no_elements():
    assert numel((0, -1)) == 0


def test_an_unknown_dimension_matches_any_dimension():
    assert dims_match(3, 3)
    assert dims_match(-1, 3)
    assert dims_match(3, -1)
    assert not dims_match(2, 3)
    assert (merge_dims(-1, 3), merge_dims(3, -1), merge_dims(-1, -1)) == (3, 3, -1)
    assert shapes_match((-1, 2), (3, 2))
    assert not shapes_match((1,), (1, 1))


def test_the_str_of_a_meta_is_readable():
    assert str(Meta((-1, 784), "float32")) == "float32[?, 784]"
    assert format_shape(()) == "[]"
    assert format_shape((0, 1)) == "[0, 1]"


def test_every_given_input_must_have_the_required_shape():
    proto = OpProto("op", "c", tuple(VarProto(name, "c") for name in ("x", "y", "z")))
    metas = ((Meta((2, -1), "float32"),), (Meta((2, 3), "float32"), Meta((2,), "float32")), ())
    ctx = InferContext(OpDefinition(proto, lambda ctx: None), metas, {}, (), None)
    ctx.require_shape("x", (-1, 3))
    ctx.require_shape("z", (7,))  # absent
    with pytest.raises(ShapeError, match=r"^op: y must have the shape \[2, 3\], got \[2\]$"):
        ctx.require_shape("y", (2, 3))


@pytest.mark.parametrize(
    ("wanted", "got", "advice"),
    [
        ((-1, 1), (6,), "pass y.reshape(-1, 1)"),
        ((-1, 7, 1), (6, 7), "pass y.reshape(-1, 7, 1)"),
        ((-1,), (6, 1), "pass y[..., 0]"),
        ((-1, 3, 8, 8), (3, 8, 8), "pass y[None], a batch of one"),
        (
            (-1, 3, 9, 8),
            (6, 9, 8, 3),
            "pass y.transpose(0, 3, 1, 2), or set data_format='NHWC' to layers of images",
        ),
        ((4, 3), (3,), "pass arrays of the declared shape, or declare a different shape"),
        ((-1, 3), (6, 4), "pass arrays of the declared shape, or declare a different shape"),
    ],
)
def test_the_error_for_a_wrong_shape_shows_how_to_reshape_it(wanted, got, advice):
    assert advise_shape("y", wanted, got) == advice
    if advice[5] == "y":
        code = re.split(", (?:a|or) ", advice.removeprefix("pass "))[0]
        assert shapes_match(eval(code, {"y": np.zeros(got)}).shape, wanted)
