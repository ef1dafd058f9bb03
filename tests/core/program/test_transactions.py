"""A transaction is applied completely, or leaves the program unchanged."""

from __future__ import annotations

import pytest

import opwright as ow
from counted_calls import count_calls
from opwright import Program
from opwright.errors import DtypeError, GradientError, ShapeError, SlotError


def append(block, op_type, x, out=None, **attrs):
    outputs = {} if out is None else {"out": out}
    return block.append_op(op_type, {"x": x}, outputs, attrs)


@pytest.fixture
def make():
    """A function that returns a program with data ``x`` and a parameter ``w``."""

    def build():
        program = Program()
        block = program.global_block()
        block.create_var("x", [None, 3], is_data=True)
        block.create_parameter("w", [3, 2])
        return program

    return build


def build_on(program):
    """Append operators that need unique names, a random stream, a block, and gradients."""
    block = program.global_block()
    product = block.append_op("matmul", {"x": "x", "y": "w"}).output("out")[0]
    dropped = append(block, "dropout", product).output("out")[0]
    body = program.create_block()
    append(body, "relu", dropped)
    program.rollback()
    loss = append(block, "mean", append(block, "double_square", dropped).output("out")[0])
    ow.append_backward(block.var(loss.output("out")[0]))
    program.unique_name("fc")


def fail_behind(build):
    """Call `build` in a transaction that then fails."""

    @ow.transaction()
    def build_and_fail():
        build()
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        build_and_fail()


def everything(program):
    """Return the state of a program, including the names and streams that it will assign next."""
    twin = program.clone()
    names = [twin.unique_name(prefix) for prefix in ("matmul", "dropout", "mean", "relu", "fc")]
    free = [
        twin.free_name(name) for name in ("w_grad", "loss_grad", "loss_grad/out", "dropout_0/mask")
    ]
    metas = [
        [(v.name, v.shape, v.dtype, v.persistable) for v in b.vars.values()] for b in twin.blocks
    ]
    return str(twin), metas, names, free, twin.next_stream(), twin.current_block().idx


@pytest.mark.parametrize(
    ("op_type", "inputs", "outputs", "attrs", "error"),
    [
        ("matmul", {"x": "w", "y": "w"}, {}, {}, (ShapeError, "do not fit")),
        ("matmul", {"x": "x"}, {}, {}, (SlotError, "input 'y' is required")),
        ("dropout", {"x": "x", "y": "x"}, {}, {}, (SlotError, "unknown input, got 'y'")),
        ("dropout", {"x": "x"}, {"mask": "x"}, {}, (DtypeError, "mask is bool")),
    ],
)
def test_a_refused_operator_does_not_consume_names_streams_or_steps(
    make, op_type, inputs, outputs, attrs, error
):
    program = make()
    before = everything(program)
    for add in (program.global_block().append_op, program.global_block().prepend_op):
        with pytest.raises(error[0], match=error[1]):
            add(op_type, inputs, outputs, attrs)
        assert everything(program) == before


def test_an_error_rolls_back_a_transaction(make):
    program, other = make(), make()
    before, generation = everything(program), program.generation

    def build():
        build_on(program)
        program.global_block().var("x").shape = [7, 3]
        program.global_block().var("x").persistable = True
        program.create_block()
        build_on(other)

    fail_behind(build)
    assert everything(program) == everything(other) == before
    assert program.generation > generation


def test_failed_calls_leave_the_program_unchanged(make):
    plain, tried = make(), make()
    for _ in range(2):
        fail_behind(lambda: build_on(tried))
    build_on(plain)
    build_on(tried)
    assert everything(tried) == everything(plain)


def test_an_error_caught_in_an_outer_transaction_undoes_only_the_inner_transaction(make):
    plain, tried = make(), make()
    append(plain.global_block(), "relu", "x")
    append(plain.global_block(), "relu", "x")
    with ow.transaction():
        append(tried.global_block(), "relu", "x")
        fail_behind(lambda: build_on(tried))
        append(tried.global_block(), "relu", "x")
    assert everything(tried) == everything(plain)


def test_a_transaction_as_a_decorator_makes_a_function_atomic(make):
    @ow.transaction()
    def layer(program, fails):
        build_on(program)
        if fails:
            raise ValueError("refused")

    program = make()
    before = everything(program)
    with pytest.raises(ValueError, match="refused"):
        layer(program, True)
    assert everything(program) == before
    layer(program, False)
    assert everything(program) != before


def test_refused_gradients_do_not_consume_names(make):
    program = make()
    block = program.global_block()
    append(block, "double_square", "w", "h")
    append(block, "forgetful", "h", "y")
    append(block, "mean", "y", "loss")
    before = everything(program)
    with pytest.raises(GradientError, match="forgetful"):
        ow.append_backward(block.var("loss"))
    assert everything(program) == before


def test_refused_gradients_of_a_branch_do_not_leave_blocks(make):
    program = make()
    block = program.global_block()
    block.create_var("yes", [1], "bool", is_data=True)
    append(block, "forgetful", "w", "h")
    bodies = {}
    for side in ("true", "false"):
        body = program.create_block()
        squared = append(body, "square", "h").output("out")
        body.append_op("add", {"x": squared, "y": "h"}, {"out": side})
        bodies |= {f"{side}_block": body, f"{side}_outputs": [side]}
        program.rollback()
    block.append_op("cond", {"condition": "yes"}, {"out": "y"}, bodies)
    append(block, "mean", "y", "loss")
    before = everything(program)
    with pytest.raises(GradientError, match="forgetful"):
        ow.append_backward(block.var("loss"))
    assert everything(program) == before


def test_appending_an_operator_costs_the_same_in_a_large_program(make):
    def work_of(program):
        def add():
            with ow.transaction():
                append(program.global_block(), "relu", "x")

        return count_calls(add)

    small, large = make(), make()
    for _ in range(2000):
        append(large.global_block(), "scale", "x")
    work_of(make())  # includes the one-time work of the process
    assert work_of(large) == work_of(small)
