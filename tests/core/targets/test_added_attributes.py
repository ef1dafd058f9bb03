"""A compiled kernel written before an attribute was added supports only the default value."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright.errors import KernelNotFoundError

X = np.array([1.0, 2.5, -3.0])

OPERATOR = """
import numpy as np
from opwright.op import OpMaker, no_gradient, same_shape_as

SCALE = (
    OpMaker("acme.scale")
    .add_comment("A multiple and more, out = factor * x + offset.")
    .add_input("x", "any shape")
    .add_output("out", "like x")
    .same_dtype_as("x")
    .add_attr("factor", float, "the factor")
    .default(2.0)
    .add_attr("offset", float, "the added number")
    .default(0.0)
    .as_added()
    .build(same_shape_as("x"), no_gradient("a test"))
)


def scale(x, out, *, factor, offset):
    np.add(factor * x, offset, out=out)
"""
TABLE = """
import opwright.plugin as plugin

@plugin.hookimpl
def opwright_ops(registry):
    registry.add("acme.scale", "opwright_acme.newer:SCALE")

@plugin.hookimpl
def opwright_kernels(registry):
    registry.add("acme.scale", device="cpu", dtypes=["float64"], kernel="opwright_acme/libacme.so")
"""
NUMPY = """
    registry.add("acme.scale", device="cpu", dtypes=["float64"], kernel="opwright_acme.newer:scale",
                 library="numpy", priority=10)
"""
REASON = "refused: it is older than offset=1.0, and does not read offset"


@pytest.fixture
def use(acme, compiler):
    """Discover the operator with the kernel that `flags` select."""

    def use(table, *flags):
        acme.site.mkdir()
        acme.use(compiler.build("older.cc", "-std=c++17", *flags), table)
        acme.add_module("newer", OPERATOR)

    return use


def test_an_older_kernel_supports_the_default(use):
    use(TABLE)
    np.testing.assert_array_equal(ow.ops.acme.scale(X), 2 * X)


def test_the_error_for_a_non_default_value_names_the_older_kernel(use):
    use(TABLE)
    with pytest.raises(KernelNotFoundError, match=f"acme of opwright-acme 1.0 {REASON}"):
        ow.ops.acme.scale(X, offset=1.0)


def test_the_next_kernel_is_used_if_an_older_kernel_is_refused(use):
    use(TABLE + NUMPY)
    np.testing.assert_array_equal(ow.ops.acme.scale(X, offset=1.0), 2 * X + 1)


def test_a_kernel_that_reads_the_attribute_supports_every_value(use):
    use(TABLE, "-DOFFSET")
    np.testing.assert_array_equal(ow.ops.acme.scale(X, offset=1.0), 2 * X + 1)
