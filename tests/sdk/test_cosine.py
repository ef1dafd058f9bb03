"""The C++ example plugin: its table, shape rule, results and gradient.

Its wheel is built with only find_package(opwright), and with warnings as errors.
"""

from __future__ import annotations

import numpy as np
import pytest
from plugin_host import FailedError, Library, Step

from opwright.framework_pb2 import OpProto as Message
from opwright.op import OpProto

pytestmark = pytest.mark.slow

SCALE = 2.5


@pytest.fixture(scope="module")
def library(cosine_site):
    return Library(cosine_site / "opwright_cosine" / "cosine.so")


def draw(dtype, shape=(4, 7)):
    random = np.random.default_rng(1)
    return [random.normal(size=shape).astype(dtype) for _ in range(2)]


def formula(a, b):
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return (SCALE * (a * b).sum(1) / norms)[:, None]


def run(library, type, inputs, outputs):
    row = library.kernel(type, str(inputs[0].dtype))
    step = Step(library, row, inputs, outputs, {"scale": SCALE})
    step.run()
    step.close()


def test_the_library_version_matches_the_package_version(library):
    assert (library.code, library.plugin.version) == (0, b"1.0")


def test_the_table_has_one_operator_and_kernels_for_it_and_its_gradient(library):
    assert library.plugin.name == b"cosine"
    assert list(library.ops) == ["cosine.similarity"]
    types = sorted(row.op_type for row in library.kernels)
    assert types == 2 * [b"cosine.similarity"] + 2 * [b"cosine.similarity_grad"]
    row = library.ops["cosine.similarity"]
    assert row.gradient_type == b"cosine.similarity_grad"
    assert row.gradient_needs[: row.n_gradient_needs] == [b"a", b"b"]


def test_the_default_of_a_float_equals_the_number_in_the_source(library):
    proto = OpProto.from_proto(Message.FromString(library.proto_bytes("cosine.similarity")))
    assert (proto.attr("scale").default, proto.attr("scale").describe_range()) == (1.0, "(0, inf)")


@pytest.mark.parametrize(
    ("a", "b", "out"),
    [((3, 4), (3, 4), (3, 1)), ((-1, 4), (3, 4), (-1, 1)), ((0, 4), (-1, -1), (0, 1))],
)
def test_the_shape_rule_accepts_unknown_dimensions(library, a, b, out):
    got = library.infer("cosine.similarity", [(a, "float32"), (b, "float32")], {"scale": 1.0})
    assert got == {(0, 0): (out, 0)}


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ((3,), (3,), "a must have 2 dimensions, got 1"),
        ((3, 4), (3, 5), "a and b must have one shape, got [3, 4] and [3, 5]"),
        ((-1, 4), (3, 5), "a and b must have one shape, got [-1, 4] and [3, 5]"),
        ((3, 4), (3,), "a and b must have one shape, got [3, 4] and [3]"),
    ],
)
def test_the_shape_rule_refuses_contradictory_inputs(library, a, b, message):
    with pytest.raises(FailedError) as caught:
        library.infer("cosine.similarity", [(a, "float32"), (b, "float32")], {"scale": 1.0})
    assert caught.value.message == message


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(4, 7), (1, 1), (0, 3)])
def test_the_result_is_the_cosine_of_the_angle_times_the_scale(library, dtype, shape):
    a, b = draw(dtype, shape)
    out = np.full((shape[0], 1), np.nan, dtype)
    run(library, "cosine.similarity", [a, b], [out])
    expected = formula(a.astype("float64"), b.astype("float64"))
    np.testing.assert_allclose(out, expected, rtol=8 * np.finfo(dtype).eps)


def test_a_row_of_zeros_has_similarity_and_gradient_zero(library):
    a, b = draw("float64", (2, 3))
    a[0] = 0
    out, grads = np.full((2, 1), np.nan), [np.full((2, 3), np.nan) for _ in range(2)]
    run(library, "cosine.similarity", [a, b], [out])
    run(library, "cosine.similarity_grad", [a, b, np.ones((2, 1))], grads)
    assert out[0] == 0
    assert not grads[0][0].any()
    assert not grads[1][0].any()


def test_nan_propagates(library):
    a, b = draw("float64", (2, 3))
    a[0, 1] = np.nan
    out, grads = np.zeros((2, 1)), [np.zeros((2, 3)) for _ in range(2)]
    run(library, "cosine.similarity", [a, b], [out])
    run(library, "cosine.similarity_grad", [a, b, np.ones((2, 1))], grads)
    for array in (out, *grads):
        assert np.isnan(array[0]).all()
        assert np.isfinite(array[1]).all()


def test_the_gradient_matches_central_differences(library):
    a, b = draw("float64")
    weights = np.random.default_rng(2).normal(size=(4, 1))
    a_grad, b_grad = np.empty_like(a), np.empty_like(b)
    run(library, "cosine.similarity_grad", [a, b, weights], [a_grad, b_grad])
    step = 1e-6
    for grad, moved in ((a_grad, a), (b_grad, b)):
        for index in np.ndindex(moved.shape):
            kept = moved[index]
            moved[index] = kept + step
            above = (weights * formula(a, b)).sum()
            moved[index] = kept - step
            below = (weights * formula(a, b)).sum()
            moved[index] = kept
            np.testing.assert_allclose(grad[index], (above - below) / (2 * step), atol=1e-8)


def test_an_unrequested_gradient_is_not_computed(library):
    a, b = draw("float32")
    out_grad = np.ones(len(a), np.float32)
    a_grad, b_grad, alone = (np.full_like(like, np.nan) for like in (a, b, b))
    run(library, "cosine.similarity_grad", [a, b, out_grad], [a_grad, b_grad])
    run(library, "cosine.similarity_grad", [a, b, out_grad], [None, alone])
    np.testing.assert_array_equal(alone, b_grad)
