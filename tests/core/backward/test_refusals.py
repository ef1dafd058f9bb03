"""If append_backward raises, the error names the cause, and the program is unchanged."""

from __future__ import annotations

import pytest

from counted_calls import count_calls
from opwright import Program, append_backward
from opwright.errors import GradientError, ProgramError, ShapeError, VariableNotFoundError
from opwright.op import OpMaker, same_shape_as


@pytest.fixture
def block():
    made = Program().global_block()
    made.create_var("x", [None, 4], is_data=True)
    made.create_parameter("w", [4, 4])
    made.append_op("matmul", {"x": "x", "y": "w"}, {"out": "h"})
    return made


def append(block, op_type, source, out, **attrs):
    block.append_op(op_type, {"x": source}, {"out": out}, attrs)
    return block.var(out)


def test_the_error_names_an_operator_without_a_gradient_rule(block):
    loss = append(block, "mystery", "h", "y")
    text = str(block.program)
    with pytest.raises(
        GradientError, match=r"mystery \(operator 1 of block 0\): has no gradient r"
    ):
        append_backward(loss)
    assert str(block.program) == text
    assert list(block.vars) == ["x", "w", "h", "y"]


def test_an_operator_without_a_rule_is_allowed_outside_the_gradient_path(block):
    append(block, "mystery", "h", "aside")
    append(block, "mystery", "x", "before")
    block.append_op("add", {"x": "h", "y": "before"}, {"out": "y"})
    assert len(append_backward(block.var("y"))) == 1


def test_a_gradient_stopped_by_an_operator_raises_instead_of_being_zero(block):
    loss = append(block, "floor", "h", "y")
    message = (
        r"'w' must get a gradient from 'y', got none, since floor \(operator 1 of block 0\): "
        r"it has no gradient: it is flat wherever it is continuous"
    )
    with pytest.raises(GradientError, match=message):
        append_backward(loss)


def test_a_gradient_through_an_integer_variable_raises(block):
    append(block, "cast", "h", "i", dtype="int32")
    loss = append(block, "cast", "i", "y", dtype="float32")
    with pytest.raises(
        GradientError, match=r"cast \(operator 1 of block 0\): Variable\('i', int32"
    ):
        append_backward(loss)


def test_a_gradient_through_the_mask_of_dropout_raises(block):
    block.append_op("dropout", {"x": "h"}, {"out": "d", "mask": "mask"}, {"stream": 1})
    loss = append(block, "cast", "mask", "y", dtype="float32")
    message = r"dropout .*: Variable\('mask', bool.* does not have a float dtype"
    with pytest.raises(GradientError, match=message):
        append_backward(loss)


def test_an_operator_without_a_gradient_stops_only_its_own_path(block):
    append(block, "floor", "h", "f")
    block.append_op("add", {"x": "f", "y": "h"}, {"out": "y"})
    ((_, gradient),) = append_backward(block.var("y"))
    assert gradient.name == "w_grad"
    assert "floor" not in [op.type for op in block.ops[3:]]


def test_stop_gradient_excludes_parameters_unless_they_are_requested(block):
    block.create_parameter("v", [4, 4])
    block.append_op("multiply", {"x": "h", "y": "v"}, {"out": "y"})
    block.var("h").stop_gradient = True
    assert [var.name for var, _ in append_backward(block.var("y"))] == ["v"]
    with pytest.raises(GradientError, match=r"matmul .*: 'h' has stop_gradient=True"):
        append_backward(block.var("y"), parameters=["w"])


def test_no_grad_is_equivalent_to_stop_gradient(block):
    block.create_parameter("v", [4, 4])
    block.append_op("multiply", {"x": "h", "y": "v"}, {"out": "y"})
    pairs = append_backward(block.var("y"), no_grad=[block.var("h")])
    assert [var.name for var, _ in pairs] == ["v"]
    pairs = append_backward(block.var("y"), no_grad=["v"])
    assert [var.name for var, _ in pairs] == ["w"]
    with pytest.raises(GradientError, match="'w' gets no gradient: 'w' is in no_grad"):
        append_backward(block.var("y"), parameters=["w"], no_grad=["w"])
    with pytest.raises(VariableNotFoundError, match="append_backward: no_grad: no such variable"):
        append_backward(block.var("y"), no_grad=["nobody"])


def test_untrained_parameters_get_a_gradient_only_if_requested(block):
    block.var("w").trainable = False
    with pytest.raises(GradientError, match="'h' must depend on a trainable parameter, got none"):
        append_backward(block.var("h"))
    assert len(append_backward(block.var("h"), parameters=["w"])) == 1


def test_a_requested_variable_must_affect_the_target(block):
    block.create_parameter("v", [4, 4])
    with pytest.raises(GradientError, match="'h' must depend on 'v', got no operator"):
        append_backward(block.var("h"), parameters=["v"])
    with pytest.raises(VariableNotFoundError, match="parameters: no such variable, got 'ww'"):
        append_backward(block.var("h"), parameters=["ww"])


def test_unused_variables_are_skipped_if_allowed(block):
    block.create_parameter("v", [4, 4])
    append(block, "cast", "h", "i", dtype="int32")
    loss = append(block, "cast", "i", "y", dtype="float32")
    assert append_backward(loss, ["w", "v"], allow_unused=True) == []
    wanted = [block.var("w"), block.var("v")]
    pairs = append_backward([loss, block.var("h")], wanted, allow_unused=True)
    assert [(variable.name, gradient.name) for variable, gradient in pairs] == [("w", "w_grad")]


def test_allow_unused_does_not_permit_an_operator_without_a_gradient(block):
    loss = append(block, "floor", "h", "y")
    with pytest.raises(GradientError, match="since floor .* it has no gradient"):
        append_backward(loss, ["w"], allow_unused=True)


def test_overwriting_a_value_before_a_gradient_operator_reads_it_raises(block):
    append(block, "square", "h", "y")
    append(block, "relu", "x", "h")
    with pytest.raises(GradientError) as caught:
        append_backward(block.var("y"))
    assert str(caught.value) == (
        "square (operator 1 of block 0): its gradient (scale) reads 'h', which "
        "relu (operator 2 of block 0) overwrites before; make that write to another name"
    )


def test_a_value_read_only_for_its_shape_can_be_overwritten(block):
    append(block, "relu", "h", "y")  # its gradient reads the output and only the shape of h
    append(block, "relu", "x", "h")
    assert len(append_backward(block.var("y"))) == 1


def test_an_in_place_operator_is_refused_if_its_gradient_reads_the_input(block):
    append(block, "square", "h", "h")
    with pytest.raises(
        GradientError, match=r"reads 'h', which square \(operator 1 .*\) overwrites"
    ):
        append_backward(block.var("h"))


def test_a_parameter_updated_before_its_gradient_is_refused(block):
    block.create_parameter("lr", [1], trainable=False)
    inputs = {"param": "w", "grad": "w", "learning_rate": "lr"}
    block.append_op("sgd", inputs)
    with pytest.raises(GradientError, match=r"reads 'w', which sgd \(operator 1 of block 0\)"):
        append_backward(block.var("h"), parameters=["x"])


def test_the_error_names_a_stopped_gradient_within_a_branch(block):
    program = block.program
    block.create_var("c", [1], "bool", is_data=True)
    yes, no = program.create_block(0), program.create_block(0)
    yes.append_op("floor", {"x": "h"}, {"out": "a"})
    no.append_op("floor", {"x": "h"}, {"out": "b"})
    attrs = {"true_outputs": ["a"], "false_outputs": ["b"], "true_block": yes, "false_block": no}
    block.append_op("cond", {"condition": "c"}, {"out": ["y"]}, attrs)
    message = r"'h' in cond \(operator 1 of block 0\): floor \(operator 0 of block 3\): it has no"
    with pytest.raises(GradientError, match=message):
        append_backward(block.var("y"))
    assert len(program.blocks) == 3


def test_the_error_names_a_loop_without_a_gradient_rule(block):
    program = block.program
    block.create_var("go", [1], "bool", is_data=True)
    body = program.create_block()
    body.create_var("turn", [None, 4])
    body.append_op("relu", {"x": "turn"}, {"out": "next"})
    program.rollback()
    names = {"body_inputs": ["turn"], "body_outputs": ["next"], "body_condition": "go"}
    inputs = {"condition": "go", "state": ["h"]}
    block.append_op("repeat", inputs, {"out": ["y"]}, {"body": body, **names})
    with pytest.raises(GradientError, match=r"repeat \(operator 1 of block 0\): has no gradient"):
        append_backward(block.var("y"))


def register(context, toy, op_type, rule):
    maker = OpMaker(op_type).add_comment("Made for one test.").add_input("x", "any")
    maker.add_output("out", "as x").same_dtype_as("x")
    context.ops.add(op_type, maker.build(same_shape_as("x"), rule), toy.PACKAGE)


def test_the_error_names_a_rule_that_omits_a_gradient(block):
    loss = append(block, "forgetful", "h", "y")
    with pytest.raises(GradientError, match="forgetful: its gradient rule must use") as caught:
        append_backward(loss)
    assert "in the gradient rule of forgetful (operator 1 of block 0)" in caught.value.__notes__


def test_the_error_names_a_rule_that_raises(block, context, toy):
    register(context, toy, "broken", lambda g: {}["nothing"])
    with pytest.raises(GradientError, match=r"broken \(operator 1 .*must not raise, got KeyError"):
        append_backward(append(block, "broken", "h", "y"))


def test_a_gradient_with_a_wrong_shape_or_dtype_is_refused(block, context, toy):
    def wrong_shape(g):
        g.set_input_grad("x", g.emit("mean", {"x": g.output_grad("out")}))

    def wrong_dtype(g):
        grad = g.output_grad("out")
        g.set_input_grad("x", g.emit("cast", {"x": grad}, attrs={"dtype": "float64"}))

    for op_type, rule in (("flattened", wrong_shape), ("widened", wrong_dtype)):
        register(context, toy, op_type, rule)
        with pytest.raises(GradientError, match=rf"{op_type} .*gradient of x must fit Variable"):
            append_backward(append(block, op_type, "h", f"y_{op_type}"))


def test_a_gradient_set_to_none_is_zero(block, context, toy):
    def rule(g):
        g.output_grad("out")
        g.set_input_grad("x", None)

    register(context, toy, "constant", rule)
    ((_, gradient),) = append_backward(append(block, "constant", "h", "y"))
    assert gradient.name == "w_grad"
    assert repr(block.ops[-1]) == "w_grad = fill_like(w)"


def test_a_body_that_reads_an_overwritten_value_is_refused(block, context, toy):
    def body(b):
        b.emit("square", {"x": b.input("x")}, {"out": b.output("out")})
        b.emit("add", {"x": b.input("x"), "y": b.output("out")}, {"out": b.output("out")})

    maker = OpMaker("in_place").add_comment("Made for one test.").add_input("x", "any")
    maker.add_output("out", "as x").same_dtype_as("x")
    definition = maker.build(same_shape_as("x"), body=body)
    context.ops.add("in_place", definition, toy.PACKAGE)
    with pytest.raises(ProgramError, match="its body overwrites 'h' before add reads it"):
        append_backward(append(block, "in_place", "h", "h"))


def test_a_body_must_write_every_output(block, context, toy):
    maker = OpMaker("lazy").add_comment("Made for one test.").add_input("x", "any")
    maker.add_output("out", "as x").same_dtype_as("x")
    context.ops.add("lazy", maker.build(same_shape_as("x"), body=lambda b: None), toy.PACKAGE)
    message = r"lazy: its body must write 'y' as float32\[\?, 4\], got nothing; fix the body or"
    with pytest.raises(ProgramError, match=message) as caught:
        append_backward(append(block, "lazy", "h", "y"))
    assert caught.value.__notes__ == ["in the body of lazy (operator 1 of block 0)"]


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ([], "targets must name a variable, got none"),
        (["h"], "must be a Variable of a program, got 'h'"),
    ],
)
def test_targets_must_be_variables(targets, message):
    with pytest.raises(GradientError, match=message):
        append_backward(targets)


def test_targets_must_be_float_variables_in_one_block(block):
    body = block.program.create_block()
    body.append_op("relu", {"x": "h"}, {"out": "y"})
    with pytest.raises(GradientError, match="must be in one block"):
        append_backward([block.var("h"), body.var("y")])
    append(block, "argmax", "h", "index")
    message = r"must have a float dtype, got Variable\('index', int64"
    with pytest.raises(GradientError, match=message):
        append_backward(block.var("index"))


def test_the_cost_of_append_backward_is_linear_in_the_number_of_operators():
    def work(n_operators):
        block = Program().global_block()
        block.create_parameter("h0", [4])
        for i in range(n_operators):
            append(block, "scale", f"h{i}", f"h{i + 1}")
        return count_calls(lambda: append_backward(block.var(f"h{n_operators}")))

    assert work(4000) < 16 * work(250) * 1.1


def test_the_error_names_the_operator_whose_shape_rule_refuses_its_inputs(block, context, toy):
    def infer_shape(ctx):
        ctx.require(len(ctx.input("x").shape) == 2, "x must have two axes")
        ctx.set_output("out", ctx.input("x").shape)

    maker = OpMaker("table").add_comment("A table.").add_input("x", "[rows, columns]")
    maker.add_output("out", "as x").same_dtype_as("x")
    rule = {}.__getitem__
    context.ops.add("table", maker.build(infer_shape, gradient=rule), toy.PACKAGE)
    loss = append(block, "table", "h", "y")
    block.var("h").shape = (4,)
    with pytest.raises(ShapeError, match="table: x must have two axes"):
        append_backward(loss)
