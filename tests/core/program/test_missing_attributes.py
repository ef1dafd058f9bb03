"""The error for a missing attribute of a Variable states the remedy."""

from __future__ import annotations

import copy
import pickle

import pytest

import opwright as ow
from opwright.program.arithmetic import _ANSWERS


@pytest.fixture
def x():
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        yield main.global_block().create_var("x", [-1, 3], is_data=True)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("T", r"^Variable: .* got 'T'; write opwright.ops.transpose\(x, axes=\[1, 0\]\)$"),
        ("astype", r"write opwright.ops.cast\(x, dtype='float32'\)$"),
        ("numpy", r"fetch it: opwright.Network\(block\).compile\(feed, fetch=\[x\]\)$"),
        ("nothing_like_it", "got 'nothing_like_it'$"),
        ("_private", "got '_private'$"),
    ],
)
def test_the_error_for_an_array_attribute_names_the_function(x, name, text):
    with pytest.raises(AttributeError, match=text):
        getattr(x, name)


def test_no_replacement_is_suggested_for_attributes_that_exist():
    assert not [name for name in _ANSWERS if hasattr(ow.Variable, name)]


def test_hasattr_copying_and_incomplete_variables_work(x):
    assert not hasattr(x, "sum")
    assert getattr(x, "trainable", True) is True
    program = x.block.program
    assert copy.deepcopy(program).global_block().var("x").shape == (-1, 3)
    assert pickle.loads(pickle.dumps(program)).global_block().var("x").shape == (-1, 3)
    with pytest.raises(AttributeError, match="got 'name'$"):
        _ = object.__new__(ow.Variable).name
    with pytest.raises(AttributeError):
        x.nothing = 3
