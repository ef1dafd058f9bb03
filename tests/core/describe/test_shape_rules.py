"""Tests the predefined shape rules."""

from __future__ import annotations

import pytest

from opwright.errors import ShapeError
from opwright.op import DTYPES, Meta, OpMaker, elementwise_shape, same_shape_as

F32, I64 = Meta((2, 3), "float32"), Meta((2,), "int64")


def test_elementwise_rules_skip_absent_inputs_and_can_set_a_dtype():
    chain = OpMaker("where").add_comment("c").add_input("x", "c").add_input("y", "c").as_optional()
    chain.add_output("out", "c").dtypes(*DTYPES)
    definition = chain.build(elementwise_shape("x", "y", dtype="bool"))
    assert definition.infer(((F32,), ()), {}, (1,)) == ((Meta((2, 3), "bool"),),)
    assert definition.infer(((I64,), (Meta((5, 1), "int8"),)), {}, (1,))[0][0].shape == (5, 2)
    chain.add_input("third", "c")
    three = chain.build(elementwise_shape("third", "x", "y", dtype="bool"))
    assert three.infer(((I64,), (), (Meta((7, 1), "int8"),)), {}, (1,))[0][0].shape == (7, 2)
    assert chain.build(elementwise_shape(dtype="int8")).infer(((I64,), (), (F32,)), {}, (1,)) == (
        (Meta((2,), "int8"),),
    )


def test_same_shape_as_sets_all_outputs_or_the_named_outputs():
    chain = OpMaker("op").add_comment("c").add_input("x", "c")
    chain.add_output("a", "c").same_dtype_as("x").add_output("b", "c").same_dtype_as("x")
    both = chain.build(same_shape_as("x"))
    assert both.infer(((F32,),), {}, (1, 1)) == ((F32,), (F32,))
    one = chain.build(same_shape_as("x", "a"))
    with pytest.raises(ShapeError, match=r"op: infer_shape must set output 'b'"):
        one.infer(((F32,),), {}, (1, 1))
