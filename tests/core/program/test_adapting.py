"""Within `adapt_inputs`, appended operators read the results of the adapter."""

from __future__ import annotations

import pytest

import opwright as ow
from opwright.plugin import adapt_inputs


@pytest.fixture
def block():
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        yield main.global_block()


def halve(block, definition, inputs):
    """Cast every x to float16."""
    op = block.append_op("cast", {"x": inputs["x"]}, attrs={"dtype": "float16"})
    return {**inputs, "x": op.output("out")}


def types(block):
    return [op.type for op in block.ops]


def test_appended_operators_read_the_results_of_the_adapter(block):
    x = block.create_var("x", [3], is_data=True)
    with adapt_inputs(halve):
        y = ow.ops.relu(x)  # the cast is not adapted, to avoid infinite recursion
    assert (y.dtype, types(block)) == ("float16", ["cast", "relu"])
    assert ow.ops.relu(x).dtype == "float32"


def test_gradients_are_not_adapted(block):
    w = block.create_parameter("w", [3])
    y = ow.ops.relu(w)
    with adapt_inputs(halve):
        ow.append_backward(y)
    assert "cast" not in types(block)


def test_none_disables_the_enclosing_adapter(block):
    x = block.create_var("x", [3], is_data=True)
    with adapt_inputs(halve), adapt_inputs(None):
        assert ow.ops.relu(x).dtype == "float32"


def test_an_adapter_that_raises_leaves_the_program_unchanged(block):
    def fail(block, definition, inputs):
        halve(block, definition, inputs)
        raise ow.errors.ProgramError("adapter: no")

    x = block.create_var("x", [3], is_data=True)
    with adapt_inputs(fail), pytest.raises(ow.errors.ProgramError, match="adapter: no"):
        ow.ops.relu(x)
    assert types(block) == []
    assert list(block.vars) == ["x"]
