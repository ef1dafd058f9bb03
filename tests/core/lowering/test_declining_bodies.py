"""The body of an operator can decline attribute values that only kernels support."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright.errors import KernelNotFoundError
from opwright.op import BodyContext, OpMaker, no_gradient, same_shape_as

from .toy_graphs import TOY

X = np.arange(4, dtype=np.float32)


def halves(b: BodyContext) -> bool:
    """Emit two ``toy.halve`` operators, with `times` - 1 and 1; decline if `times` is 1."""
    if b.attr("times") == 1:
        return False
    attrs = {"times": b.attr("times") - 1}
    rest = b.emit("toy.halve", {"x": b.input("x")}, attrs=attrs)
    b.emit("toy.halve", {"x": rest}, {"out": b.output("out")})
    return True


def halve(x, out):
    np.multiply(x, 0.5, out=out)


HALVE = (
    OpMaker("toy.halve")
    .add_comment("out = x / 2**times")
    .add_input("x", "any shape")
    .add_output("out", "like x")
    .same_dtype_as("x")
    .add_attr("times", int, "how often")
    .default(1)
    .as_added()
    .build(same_shape_as("x"), no_gradient("a test"), body=halves)
)


@pytest.fixture
def halving(context):
    context.ops.add("toy.halve", HALVE, TOY)
    return context


def test_a_body_is_used_for_attribute_values_that_no_kernel_supports(halving):
    halving.kernels.add(
        "toy.halve", device="cpu", dtypes=["float32"], kernel=halve, package=TOY, library="toy"
    )
    np.testing.assert_array_equal(ow.ops.toy.halve(X), X / 2)
    np.testing.assert_array_equal(ow.ops.toy.halve(X, times=3), X / 8)


def test_an_operator_without_a_kernel_raises_if_its_body_declines(halving):
    with pytest.raises(KernelNotFoundError, match=r"toy.halve\[cpu, float32\]: no kernel"):
        ow.ops.toy.halve(X, times=3)
