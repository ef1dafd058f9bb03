"""A Python kernel written before an attribute was added supports only the default value."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright.describe.gradient_rules import derive_grad_definition
from opwright.errors import KernelNotFoundError, RegistrationError
from opwright.op import OpDefinition, OpMaker, grad_op, no_gradient, same_shape_as

from .toy_graphs import TOY

X = np.arange(4, dtype=np.float32)
REASON = "refused: it is older than offset=1.0, and does not read offset"

SCALE = (
    OpMaker("toy.scale")
    .add_comment("out = factor * x + offset")
    .add_input("x", "any shape")
    .add_output("out", "like x")
    .same_dtype_as("x")
    .add_attr("factor", float, "the factor")
    .default(2.0)
    .add_attr("offset", float, "what is added")
    .default(0.0)
    .as_added()
    .build(same_shape_as("x"), no_gradient("a test"))
)


def older(x, out, *, factor):
    np.multiply(x, factor, out=out)


def older_with_any(x, out, **attributes):
    np.multiply(x, attributes["factor"], out=out)


def newer(x, out, *, factor, offset):
    np.add(factor * x, offset, out=out)


class Older:
    @staticmethod
    def prepare(ctx):
        factor = dict(ctx.attrs)["factor"]  # does not count as reading each attribute
        return lambda x, out: older(x, out, factor=factor)


class Newer:
    @staticmethod
    def prepare(ctx):
        attrs = {"factor": ctx.attrs["factor"], "offset": ctx.attrs.get("offset")}
        return lambda x, out: newer(x, out, **attrs)


@pytest.fixture
def add(context):
    context.ops.add("toy.scale", SCALE, TOY)

    def add(kernel, **fields):
        context.kernels.add(
            "toy.scale", device="cpu", dtypes=["float32"], kernel=kernel, package=TOY, **fields
        )

    return add


OLD = pytest.mark.parametrize("kernel", [older, older_with_any, Older])


@OLD
def test_an_older_kernel_supports_the_default(add, kernel):
    add(kernel, library="older")
    np.testing.assert_array_equal(ow.ops.toy.scale(X), 2 * X)


@OLD
def test_the_error_for_a_non_default_value_names_the_older_kernel(add, kernel):
    add(kernel, library="older")
    with pytest.raises(KernelNotFoundError, match=f"older of .* {REASON}"):
        ow.ops.toy.scale(X, offset=1.0)


@OLD
def test_the_next_kernel_is_used_if_an_older_kernel_is_refused(add, kernel):
    add(kernel, library="older", priority=60)
    add(newer, library="newer")
    network = ow.Network([ow.Operator("toy.scale", x="x", out="out", offset=1.0)])
    (out,) = network.compile(feed=["x"], fetch=["out"])(x=X)
    np.testing.assert_array_equal(out, 2 * X + 1)
    assert network.placement().refusals == {"toy.scale by cpu/older": REASON}


@pytest.mark.parametrize("kernel", [newer, Newer])
def test_a_kernel_that_reads_the_attribute_supports_every_value(add, kernel):
    add(kernel, library="newer")
    np.testing.assert_array_equal(ow.ops.toy.scale(X, offset=1.0), 2 * X + 1)


def test_an_added_attribute_must_not_be_required():
    maker = OpMaker("toy.scale").add_comment("out = x").add_input("x", "any")
    maker.add_output("out", "like x").add_attr("offset", float, "added").required().as_added()
    with pytest.raises(RegistrationError, match=r"toy.scale: as_added is for .* got 'offset'"):
        maker.build(same_shape_as("x"), no_gradient("a test"))


def test_added_attributes_survive_conversion_to_protobuf_and_back():
    assert type(SCALE.proto).from_proto(SCALE.proto.to_proto()) == SCALE.proto


@pytest.mark.parametrize("unaffected_by", [[], ["offset"]])
def test_a_gradient_operator_inherits_added_attributes_not_listed_in_unaffected_by(unaffected_by):
    rule = grad_op("toy.scale_grad", unaffected_by=unaffected_by)
    proto = derive_grad_definition(OpDefinition(SCALE.proto, same_shape_as("x"), rule)).proto
    assert proto.attr("offset").added is not bool(unaffected_by)


def test_unaffected_by_must_name_existing_attributes():
    with pytest.raises(RegistrationError, match="unaffected_by must name attributes, got 'ofset'"):
        grad_op("toy.scale_grad", unaffected_by=["ofset"]).check(SCALE.proto)
