"""Gradients match central differences in float64."""

from __future__ import annotations

import numpy as np
import pytest

from opwright import Program, append_backward
from opwright.op import Meta, OpMaker, same_shape_as
from opwright_kit import check_reads

RNG = np.random.default_rng(3)


@pytest.fixture
def block():
    made = Program().global_block()
    made.create_var("x", [None, 4], "float64", is_data=True)
    made.create_parameter("w", [4, 4], "float64")
    made.create_parameter("v", [4, 4], "float64")
    return made


@pytest.fixture
def values():
    return {name: RNG.normal(size=(4, 4)) for name in ("x", "w", "v")} | {"@step": np.zeros(1)}


def append_mean(block, name):
    """A loss whose gradient is not constant."""
    block.append_op("square", {"x": name}, {"out": f"{name}_squared"})
    return block.var(
        block.append_op("mean", {"x": f"{name}_squared"}, {"out": "loss"}).output("out")[0]
    )


def test_gradients_of_a_chain_of_operators_are_correct(block, values, check_gradients):
    block.append_op("matmul", {"x": "x", "y": "w"}, {"out": "h"})
    block.append_op("relu", {"x": "h"}, {"out": "a"})
    block.append_op("matmul", {"x": "a", "y": "v"}, {"out": "y"})
    pairs = append_backward(append_mean(block, "y"))
    assert [(var.name, grad.name) for var, grad in pairs] == [("w", "w_grad"), ("v", "v_grad")]
    check_gradients(block, "loss", pairs, values)


def test_gradients_are_named_after_their_variables_and_copied_only_if_shared(block):
    block.append_op("matmul", {"x": "x", "y": "w"}, {"out": "h"})
    block.append_op("square", {"x": "h"}, {"out": "s"})
    block.append_op("add", {"x": "s", "y": "h"}, {"out": "a"})
    block.append_op("add", {"x": "a", "y": "v"}, {"out": "y"})
    append_backward(block.var("y"))
    assert [repr(op) for op in block.ops[4:]] == [
        "y_grad = fill_like(y, value=1.0)",
        "s_grad/scale = scale(h, scale=2.0)",
        "h_grad/1 = multiply(s_grad/scale, y_grad)",
        "h_grad = add_n([y_grad, h_grad/1])",
        "_, w_grad = matmul_grad(x, w, out_grad=h_grad)",
        "v_grad = assign(y_grad)",
    ]


def test_a_gradient_rule_can_read_metas(block, context, toy):
    seen = []

    def rule(g):
        seen.append((g.meta(g.input("x")), g.meta(g.output_grad("out"))))
        g.set_input_grad("x", g.output_grad("out"))

    maker = OpMaker("watched").add_comment("Made for one test.").add_input("x", "any")
    maker.add_output("out", "as x").same_dtype_as("x")
    context.ops.add("watched", maker.build(same_shape_as("x"), rule), toy.PACKAGE)
    block.append_op("watched", {"x": "w"}, {"out": "y"})
    append_backward(block.var("y"))
    assert seen == [(Meta((4, 4), "float64"), Meta((4, 4), "float64"))]


def test_gradients_from_several_readers_are_summed_in_a_fixed_order(block, values, check_gradients):
    block.append_op("matmul", {"x": "x", "y": "w"}, {"out": "h"})
    block.append_op("multiply", {"x": "h", "y": "h"}, {"out": "hh"})
    block.append_op("add_n", {"x": ["h", "hh", "h"]}, {"out": "s"})
    block.append_op("add", {"x": "s", "y": "w"}, {"out": "y"})
    twin = block.program.clone().global_block()
    pairs = append_backward(append_mean(block, "y"))
    check_gradients(block, "loss", pairs, values)
    append_backward(append_mean(twin, "y"))
    assert str(twin.program) == str(block.program)
    sums = [op for op in block.ops if op.type == "add_n" and op.output("out") == ("h_grad",)]
    assert len(sums[0].input("x")) == 4


def test_one_temporary_can_be_the_gradient_of_two_variables(block, values, check_gradients):
    block.append_op("add", {"x": "w", "y": "v"}, {"out": "y"})
    pairs = append_backward(append_mean(block, "y"))
    assert [grad.name for _, grad in pairs] == ["w_grad", "v_grad"]
    check_gradients(block, "loss", pairs, values)


def test_unread_outputs_of_a_split_have_a_zero_gradient(block, values, check_gradients):
    block.append_op("split", {"x": "w"}, {"out": ["a", "b"]})
    block.append_op("square", {"x": "b"}, {"out": "y"})
    check_gradients(block, "loss", append_backward(append_mean(block, "y")), values)


def test_gradients_of_any_variable_can_be_requested(block, values, check_gradients, interpret):
    block.append_op("matmul", {"x": "x", "y": "w"}, {"out": "h"})
    block.append_op("square", {"x": "h"}, {"out": "y"})
    pairs = append_backward(append_mean(block, "y"), parameters=["x", block.var("h")])
    assert [(var.name, grad.name) for var, grad in pairs] == [("x", "x_grad"), ("h", "h_grad")]
    check_gradients(block, "loss", pairs[:1], values)
    h = values["x"] @ values["w"]
    found = interpret(block, values)["h_grad"]
    np.testing.assert_allclose(found, 4 * h**3 / h.size)


def test_gradients_of_several_targets_are_summed(block, values, interpret):
    block.append_op("square", {"x": "w"}, {"out": "y"})
    block.append_op("square", {"x": "y"}, {"out": "z"})
    ((_, gradient),) = append_backward([block.var("y"), block.var("z"), block.var("y")])
    w = values["w"]
    np.testing.assert_allclose(interpret(block, values)[gradient.name], 2 * w + 4 * w**3)


def test_the_gradient_of_a_target_with_respect_to_itself_is_one(block, values, interpret):
    ((_, gradient),) = append_backward(block.var("w"), parameters=["w"])
    assert gradient.name == "w_grad"
    np.testing.assert_array_equal(interpret(block, values)["w_grad"], np.ones((4, 4)))


def test_composites_without_a_rule_are_expanded(block, values, check_gradients):
    block.append_op("double_square", {"x": "w"}, {"out": "y"})
    block.append_op("double_square", {"x": "x"}, {"out": "aside"})
    pairs = append_backward(append_mean(block, "y"))
    types = [op.type for op in block.ops]
    assert types[:2] == ["square", "scale"]
    assert types.count("double_square") == 1
    assert block.ops[0].output("out") == ("y/square",)
    block.ops.pop(types.index("double_square"))
    check_gradients(block, "loss", pairs, values)


def test_a_name_that_is_written_twice_refers_to_two_values(block, values, check_gradients):
    block.append_op("matmul", {"x": "x", "y": "w"}, {"out": "h"})
    block.append_op("scale", {"x": "h"}, {"out": "h"}, {"scale": 3.0})
    block.append_op("relu", {"x": "h"}, {"out": "h"})
    pairs = append_backward(append_mean(block, "h"), parameters=["w", "h"])
    check_gradients(block, "loss", pairs[:1], values)
    assert pairs[1][1].name == "h_grad"


def test_gradients_use_the_random_masks_of_the_forward_pass(block, values, check_gradients):
    block.append_op("dropout", {"x": "w"}, {"out": "y"})
    check_gradients(block, "loss", append_backward(append_mean(block, "y")), values)


def test_calls_for_different_targets_do_not_affect_each_other(block, values, interpret):
    block.append_op("square", {"x": "w"}, {"out": "y"})
    block.append_op("scale", {"x": "w"}, {"out": "z"}, {"scale": 5.0})
    ((_, first),) = append_backward(block.var("y"))
    ((_, second),) = append_backward(block.var("z"))
    assert (first.name, second.name) == ("w_grad", "w_grad_0")
    env = interpret(block, values)
    np.testing.assert_allclose(env[first.name], 2 * values["w"])
    np.testing.assert_allclose(env[second.name], np.full((4, 4), 5.0))


def test_gradients_of_gradients_are_correct(block, values, interpret):
    block.append_op("square", {"x": "w"}, {"out": "y"})
    block.append_op("multiply", {"x": "y", "y": "w"}, {"out": "cube"})
    ((_, first),) = append_backward(block.var("cube"))
    ((_, second),) = append_backward(first, parameters=["w"])
    np.testing.assert_allclose(interpret(block, values)[second.name], 6 * values["w"])


def build_branch(block, *, nested=False):
    """Append y = double_square(h) or 3 h with h = w v, in a nested branch if `nested`."""
    program = block.program
    block.create_var("c", [1], "bool", is_data=True)
    block.append_op("multiply", {"x": "w", "y": "v"}, {"out": "h"})
    outer = program.create_block() if nested else block
    yes = program.create_block()
    yes.append_op("double_square", {"x": "h"}, {"out": "s"})
    yes.append_op("dropout", {"x": "s"}, {"out": "d"})
    yes.append_op("multiply", {"x": "d", "y": "v"}, {"out": "p"})
    program.rollback()
    no = program.create_block()
    no.append_op("scale", {"x": "h"}, {"out": "t"}, {"scale": 3.0})
    program.rollback()
    blocks = {"true_block": yes, "false_block": no}
    names = {"true_outputs": ["p", "h"], "false_outputs": ["t", "h"]}
    outer.append_op("cond", {"condition": "c"}, {"out": ["y", "same"]}, {**blocks, **names})
    outer.append_op("add", {"x": "y", "y": "same"}, {"out": "r"})
    if nested:
        program.rollback()
        idle = program.create_block()
        idle.append_op("square", {"x": "v"}, {"out": "q"})
        program.rollback()
        blocks = {"true_block": outer, "false_block": idle}
        names = {"true_outputs": ["r"], "false_outputs": ["q"]}
        block.append_op("cond", {"condition": "c"}, {"out": ["r"]}, {**blocks, **names})


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("condition", [False, True])
def test_gradients_of_branches_are_correct(block, values, check_gradients, nested, condition):
    build_branch(block, nested=nested)
    forward = str(block.program.block(1))
    pairs = append_backward(append_mean(block, "r"))
    assert [var.name for var, _ in pairs] == ["w", "v"]
    check_gradients(block, "loss", pairs, values | {"c": np.array([condition])})
    assert str(block.program.block(1)) == forward
    check_reads(block)


def test_a_branch_that_ignores_a_variable_gives_it_a_zero_gradient(block, values, interpret):
    program = block.program
    block.create_var("c", [1], "bool", is_data=True)
    yes = program.create_block(0)
    yes.append_op("scale", {"x": "w"}, {"out": "a"}, {"scale": 2.0})
    no = program.create_block(0)
    no.append_op("scale", {"x": "v"}, {"out": "b"}, {"scale": 7.0})
    attrs = {"true_outputs": ["a"], "false_outputs": ["b"], "true_block": yes, "false_block": no}
    block.append_op("cond", {"condition": "c"}, {"out": ["y"]}, attrs)
    append_backward(block.var("y"))
    for condition, w_grad, v_grad in ((True, 2.0, 0.0), (False, 0.0, 7.0)):
        env = interpret(block, values | {"c": np.array([condition])})
        np.testing.assert_array_equal(env["w_grad"], np.full((4, 4), w_grad))
        np.testing.assert_array_equal(env["v_grad"], np.full((4, 4), v_grad))


def test_the_gradient_of_a_target_in_an_inner_block_is_computed_in_that_block(block, values):
    body = block.program.create_block()
    body.append_op("square", {"x": "w"}, {"out": "y"})
    ((_, gradient),) = append_backward(body.var("y"))
    assert gradient.block is body
    assert block.ops == []
