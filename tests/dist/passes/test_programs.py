"""Comparing descriptions of programs detects every difference except the rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import opwright as ow
from opwright_dist.passes.program_entries import list_entries
from opwright_nn import layers


def make_program(
    change: Callable[[ow.Block], None] = lambda block: None,
    *,
    seed: int = 1,
    activation: str = "relu",
    probability: float = 0.5,
    dtype: str = "float32",
    width: int = 8,
    frozen: bool = False,
) -> ow.Program:
    program = ow.Program(seed=seed)
    block = program.global_block()
    x = block.create_var("x", shape=[-1, 4], dtype=dtype, is_data=True)
    weight = block.create_parameter("weight", shape=[4, width], dtype=dtype)
    weight.trainable = not frozen
    block.append_op("matmul", inputs={"x": x, "y": weight}, outputs={"out": "product"})
    block.append_op(activation, inputs={"x": "product"}, outputs={"out": "active"})
    block.append_op(
        "dropout",
        inputs={"x": "active"},
        outputs={"out": "dropped"},
        attrs={"probability": probability},
    )
    change(block)
    return program


def append_relu(block: ow.Block) -> None:
    block.append_op("relu", inputs={"x": "dropped"}, outputs={"out": "last"})


def swap_operators(block: ow.Block) -> None:
    block.ops[0], block.ops[1] = block.ops[1], block.ops[0]


def add_parameter(block: ow.Block) -> None:
    block.create_parameter("another", shape=[2], dtype="float32")


def test_equal_programs_have_equal_entries_each_on_one_line() -> None:
    entries = list_entries(make_program(append_relu))
    assert entries == list_entries(make_program(append_relu))
    assert not any("\n" in entry for entry in entries)
    assert entries[0] == "the seed 1"
    assert entries[2] == ("operator 2 of block 0: relu(x=product) -> out=active float32[?, 8]")


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({"seed": 2}, "the seed 2"),
        ({"activation": "tanh"}, "operator 2 of block 0: tanh(x=product)"),
        ({"probability": 0.25}, "operator 3 of block 0: dropout(x=active, step=@step, probabi"),
        ({"dtype": "float64"}, "operator 1 of block 0: matmul(x=x, y=weight"),
        ({"width": 9}, "operator 1 of block 0: matmul(x=x, y=weight"),
        ({"change": append_relu}, "operator 4 of block 0: relu(x=dropped)"),
        ({"change": swap_operators}, "operator 1 of block 0: relu(x=product)"),
        ({"frozen": True}, "parameter weight of block 0: float32[4, 8], frozen"),
        ({"change": add_parameter}, "parameter another of block 0: float32[2]"),
    ],
)
def test_the_first_differing_entry_describes_the_difference(
    changes: dict[str, Any], first: str
) -> None:
    pairs = zip(list_entries(make_program(**changes)), list_entries(make_program()), strict=False)
    assert next(theirs for theirs, ours in pairs if theirs != ours).startswith(first)


def test_branch_bodies_are_compared() -> None:
    def build(scale: float) -> ow.Program:
        program = ow.Program()
        with ow.program_guard(program, ow.Program()):
            block = program.global_block()
            x = block.create_var("x", shape=[8], dtype="float32", is_data=True)
            flag = block.create_var("flag", shape=[1], dtype="bool", is_data=True)
            layers.cond(flag, lambda: x * scale, lambda: x * 1.0)
        return program

    first, other = list_entries(build(2.0)), list_entries(build(3.0))
    different = [entry for entry, own in zip(other, first, strict=True) if entry != own]
    assert len(different) == 1
    assert "of block 1: " in different[0]


def test_the_rank_of_the_process_is_omitted() -> None:
    program = ow.Program()
    block = program.global_block()
    block.create_var("x", shape=[8], dtype="float32", is_data=True)
    attrs = {"group": "world", "rank": 0}
    block.append_op("dist.shard", inputs={"x": "x"}, outputs={"out": "part"}, attrs=attrs)
    (entry,) = [entry for entry in list_entries(program) if "dist.shard" in entry]
    assert "group='world'" in entry
    assert "rank" not in entry


def test_long_constants_are_shortened_and_still_differ() -> None:
    def build(last: float) -> list[str]:
        program = ow.Program()
        attrs = {"shape": [4096], "dtype": "float32", "values": [0.0] * 4095 + [last]}
        program.global_block().append_op("constant", outputs={"out": "out"}, attrs=attrs)
        return list_entries(program)

    assert build(1.0) != build(2.0)
    assert max(map(len, build(1.0))) < 500


def test_names_with_line_breaks_stay_on_one_line() -> None:
    program = ow.Program()
    program.global_block().create_var("a\nb", shape=[8], dtype="float32", persistable=True)
    assert "variable 'a\\nb' of block 0: float32[8]" in list_entries(program)
