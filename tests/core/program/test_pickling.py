"""Pickling and copying serialize a program; blocks and variables are looked up in the copy."""

from __future__ import annotations

import copy
import pickle

import pytest

import opwright as ow
from opwright import Operator, Program
from opwright.errors import ProgramError


def by_pickle(value):
    return pickle.loads(pickle.dumps(value))


@pytest.fixture(params=[by_pickle, copy.deepcopy])
def duplicate(request):
    """A function that copies an object, by pickling or by deepcopy."""
    return request.param


@pytest.fixture
def program():
    """A program with an unfinished inner block, a random operator, and gradients."""
    program = Program(seed=5)
    block = program.global_block()
    block.create_var("x", [None, 3], is_data=True)
    w = block.create_parameter("w", [3, 2], trainable=False, initializer=[1, 2], regularizer="l2")
    block.append_op("matmul", {"x": "x", "y": "w"}, {"out": "h"})
    block.append_op("dropout", {"x": "h"}, {"out": "d"})
    block.append_op("mean", {"x": "d"}, {"out": "loss"})
    ow.append_backward(block.var("loss"), [w])
    program.unique_name("fc")
    program.create_block().append_op("relu", {"x": "x"})
    return program


def test_a_duplicate_is_equal_and_independent(program, duplicate):
    twin = duplicate(program)
    assert str(twin) == str(program)
    assert pickle.dumps(twin) == pickle.dumps(program)
    assert (twin.seed, twin.peek_stream()) == (5, program.peek_stream())
    twin.global_block().append_op("relu", {"x": "h"})
    twin.global_block().var("w").trainable = True
    assert str(twin) != str(program)


def test_a_duplicate_continues_the_names_streams_and_blocks_of_the_original(program, duplicate):
    twin = duplicate(program)
    for each in (program, twin):
        each.unique_name("fc")
        each.current_block().append_op("dropout", {"x": "h"})
        each.rollback()
        each.global_block().append_op("mean", {"x": "d"})
    assert str(twin) == str(program)
    assert twin.unique_name("fc") == program.unique_name("fc") == "fc_2"


def test_layer_attributes_of_a_parameter_are_copied(program, duplicate):
    w = duplicate(program).global_block().var("w")
    assert (w.initializer, w.optimize, w.regularizer) == ([1, 2], None, "l2")
    assert not w.trainable


def test_unpickled_parts_belong_to_the_unpickled_program(program, duplicate):
    block = program.global_block()
    twin, twin_block, w, op = duplicate((program, block, block.var("w"), block.ops[1]))
    assert twin is not program
    assert twin_block is twin.global_block()
    assert w is twin_block.vars["w"]
    assert op is twin_block.ops[1]


def test_pickling_a_part_includes_its_program(program, duplicate):
    assert str(duplicate(program.global_block().ops[0]).block.program) == str(program)


def test_an_operator_without_a_block_is_recreated(duplicate):
    op = Operator("scale", x="a", out="b", scale=3.0)
    twin = duplicate(op)
    assert (repr(twin), twin.block) == ("b = scale(a, scale=3.0)", None)
    assert twin is not op


def test_a_part_that_was_removed_from_its_program_is_refused(program, duplicate):
    block = program.global_block()
    op, variable = block.ops.pop(), block.vars.pop("loss")
    with pytest.raises(ProgramError, match=f"{op.type}: an operator that is pickled or copied"):
        duplicate(op)
    with pytest.raises(ProgramError, match="loss: a variable that is pickled or copied must be in"):
        duplicate(variable)
