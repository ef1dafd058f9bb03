"""Bodies of composites, gradient rules and blocks treat omitted slots and mistakes equally."""

from __future__ import annotations

import re

import numpy as np
import pytest
from composite import X, composite, differentiate, program_of, runs

import opwright as ow
from opwright.errors import OpwrightError, ProgramError, SlotError
from opwright.op import OpMaker, same_shape_as

# -- Optional and required parts of a body -----------------------------------------------


def unnamed_alias(b):
    # sgd writes its parameter in place: param_out is the variable of param.
    param = b.emit("assign", {"x": b.input("x")})
    rate = b.emit("fill", {}, attrs={"shape": [1], "value": 0.5, "dtype": "float32"})
    grad = b.emit("assign", {"x": param})
    b.emit("sgd", {"param": param, "grad": grad, "learning_rate": rate})
    b.emit("add", {"x": b.input("x"), "y": param}, {"out": b.output("out")})


def counted_list(b):
    parts = b.emit_multi("split", {"x": b.input("x")}, attrs={"axis": 1, "num": 2})["out"]
    b.emit("concat", {"x": parts}, {"out": b.output("out")}, {"axis": 1})


def undeclared_draw(b):
    b.emit("dropout", {"x": b.input("x")}, {"out": b.output("out")}, {"training": True})


def absent_step(b):
    b.set_output("out", b.emit("scale", {"x": b.input("x"), "step": None}))


def output_read_again(b):
    b.emit("scale", {"x": b.input("x")}, {"out": b.output("out")}, {"scale": 2.0})
    b.emit("scale", {"x": b.output("out")}, {"out": b.output("out")}, {"scale": 3.0})


def overwritten_input(b):
    name = b.emit("assign", {"x": b.input("x")}, {"out": b.input("x")})
    b.set_output("out", name)


def foreign_read(b):
    b.set_output("out", b.emit("scale", {"x": "w"}))


def unwritten_output(b):
    b.set_output("out", b.emit("scale", {"x": b.output("out")}))


def foreign_meta(b):
    b.meta("w")


def other_shape(b):
    b.set_output("out", b.emit("reshape", {"x": b.input("x")}, attrs={"shape": [200]}))


def other_dtype(b):
    b.set_output("out", b.emit("cast", {"x": b.input("x")}, attrs={"dtype": "float64"}))


def dynamic(b):
    b.emit("nonzero", {"x": b.input("x")})


def with_blocks(b):
    b.emit("cond", {"condition": b.input("x")}, {"out": 1}, {"true_block": 1, "false_block": 1})


@pytest.mark.parametrize(
    ("body", "result"),
    [
        (unnamed_alias, X + X / 2),
        (counted_list, X),
        (absent_step, X),
        (output_read_again, 6 * X),
        (undeclared_draw, "a composite whose body draws .* random=True, got 'dropout'"),
        (
            overwritten_input,
            "body must only write outputs and fresh variables, got 'x' .* of assign",
        ),
        (
            foreign_read,
            "must only read its inputs and variables that it has written, got 'w' for x of scale",
        ),
        (
            unwritten_output,
            "must only read its inputs and variables that it has written, got 'y' for x of scale",
        ),
        (foreign_meta, "must only ask for metas of its inputs, outputs and .*, got 'w'"),
        (other_shape, r"must write 'y' as float32\[4, 50\], got float32\[200\]; fix the body or"),
        (other_dtype, r"must write 'y' as float32\[4, 50\], got float64\[4, 50\]; fix the body or"),
        (lambda b: None, r"must write 'y' as float32\[4, 50\], got nothing; fix the body or"),
        (dynamic, "cannot have an operator whose output shape depends on values, got nonzero"),
        (with_blocks, "cannot have an operator with blocks, got cond; write the composite as"),
        (lambda b: b.block, "must not use block or program, got a use of one; a plan has neither"),
        (lambda b: b.program, "must not use block or program, got a use of one"),
    ],
)
def test_a_body_gives_the_same_results_in_a_plan_and_in_a_program(add, body, result):
    add(part=composite(body, random=False))
    errors = []
    for is_differentiated in (False, True):
        program = ow.Program()
        block = program.global_block()
        block.create_var("x", [4, 50], is_data=True)
        block.create_parameter("w", [4, 50])
        block.append_op("test.part", {"x": "x"}, {"out": "y"})

        def write(program=program, is_differentiated=is_differentiated):
            if is_differentiated:
                differentiate(program, "y")
            return runs(program, ["y"])[0][0]

        if not isinstance(result, str):
            np.testing.assert_array_equal(write(), result)
            continue
        with pytest.raises(ProgramError, match=f"^test.part: .*{result}") as caught:
            write()
        errors.append(str(caught.value))
    assert len(set(errors)) <= 1


def test_a_plan_rejects_a_body_that_reads_an_input_after_overwriting_it(add):
    def body(b):
        b.emit("scale", {"x": b.input("x")}, {"out": b.output("out")})
        b.emit("add", {"x": b.input("x"), "y": b.output("out")}, {"out": b.output("out")})

    add(part=composite(body, random=False))
    program, _ = program_of()
    block = program.global_block()
    block.append_op("assign", {"x": "x"}, {"out": "h"})
    block.append_op("test.part", {"x": "h"}, {"out": "h"})
    with pytest.raises(ProgramError, match="test.part: its body overwrites 'h' before add reads i"):
        runs(program, ["h"])


def test_names_in_a_body_do_not_clash_with_names_in_the_program(add):
    add(part=composite(lambda b: b.set_output("out", b.emit("relu", {"x": b.input("x")}))))
    program, _ = program_of()
    block = program.global_block()
    names = ["y/relu", "y/relu_0", "y/relu_1"]
    for factor, name in enumerate(names, 2):
        block.append_op("scale", {"x": "x"}, {"out": name}, {"scale": float(factor)})
    block.append_op("test.part", {"x": "x"}, {"out": "y"})
    block.append_op("add_n", {"x": names}, {"out": "sum"})
    np.testing.assert_array_equal(runs(program, ["sum"])[0][0], 9 * X)


# -- Mistakes are reported identically in blocks, rules and bodies ---------------


def write_by_append(program, add, write):
    write(program.global_block().append_op, "x")


def write_by_rule(program, add, write):
    def rule(g):
        write(g.emit, g.output_grad("out"))

    add(ruled=composite(None, random=False, name="ruled", gradient=rule))
    op = program.global_block().append_op("test.ruled", {"x": "x"}, {"out": "y"})
    ow.append_backward(program.global_block().var(op.output("out")[0]), ["x"])


def write_by_body(program, add, write):
    add(part=composite(lambda b: write(b.emit, b.input("x")), random=False))
    program.global_block().append_op("test.part", {"x": "x"}, {"out": "y"})


def write_by_body_in_program(program, add, write):
    write_by_body(program, add, write)
    differentiate(program, "y")


def write_by_body_in_plan(program, add, write):
    write_by_body(program, add, write)
    runs(program, ["y"])


MISTAKES = {
    "scale: unknown input, got 'xx'; did you mean 'x'?": ("scale", {"xx": ...}, {}, {}),
    "scale: unknown output, got 'outt'; did you mean 'out'?": (
        "scale", {"x": ...}, {"outt": "z"}, {}
    ),
    "scale: unknown attribute, got 'scal'; did you mean 'scale'?": (
        "scale", {"x": ...}, {}, {"scal": 2.0}
    ),
    "scale: scale must be a float, got scale='2'": ("scale", {"x": ...}, {}, {"scale": "2"}),
    "add: input 'y' is required, got none; give y=": ("add", {"x": ...}, {}, {}),
    "scale: input 'x' takes one variable, got 2; give only one": (
        "scale", {"x": [..., ...]}, {}, {}
    ),
    "scale: output 'out' takes one variable, got 2; give only one": (
        "scale", {"x": ...}, {"out": ["y", "y"]}, {}
    ),
    "split: axis must be in [-2, 2) for a 2-d input, got axis=7": (
        "split", {"x": ...}, {}, {"axis": 7, "num": 2}
    ),
    "scalee: no operator of this type is registered; did you mean 'scale'?": (
        "scalee", {"x": ...}, {}, {}
    ),
    "test.many: the number of 'out' must be given, got no names; append the operator with a list "
    "of output variables": ("test.many", {"x": ...}, {}, {}),
    "test.hidden: an operator of a program must not be plan-only, got one that passes of "
    "opwright-test 1 put into plans; append the operators that it replaces": (
        "test.hidden", {"x": ...}, {}, {}
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "place", [write_by_append, write_by_rule, write_by_body_in_program, write_by_body_in_plan]
)
@pytest.mark.parametrize("message", MISTAKES)
def test_a_mistake_is_reported_identically_wherever_an_operator_is_written(add, place, message):
    many = OpMaker("test.many").add_comment("Made for one test.").add_input("x", "any shape")
    many.add_output("out", "as x").same_dtype_as("x").as_duplicable()
    add(
        many=many.build(same_shape_as("x")),
        hidden=composite(None, random=False, name="hidden", plan_only=True),
    )
    op_type, inputs, outputs, attrs = MISTAKES[message]

    def write(emit, name):
        given = {
            slot: [name] * len(names) if isinstance(names, list) else name
            for slot, names in inputs.items()
        }
        emit(op_type, given, outputs, attrs)

    program, _ = program_of()
    with pytest.raises(OpwrightError, match=re.escape(message)) as caught:
        place(program, add, write)
    assert str(caught.value) == message


@pytest.mark.parametrize("place", [write_by_rule, write_by_body_in_program, write_by_body_in_plan])
@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        ({"x": 5}, {}, "scale: x must be a name, or a list of names, got 5 from"),
        ({"x": [5]}, {}, "scale: x must be a name, or a list of names, got 5 from"),
        ({"x": ...}, {"out": [""]}, "scale: out must be a name, or a list of names, got '' from"),
        ({"x": ...}, {"out": 0}, "scale: output 'out' is required, got none; give out="),
        ({"x": ...}, {"out": -1}, "scale: output 'out' is required, got none; give out="),
    ],
)
def test_rules_and_bodies_reject_invalid_names_and_counts(add, place, inputs, outputs, message):
    def write(emit, name):
        given = {slot: name if names is ... else names for slot, names in inputs.items()}
        emit("scale", given, outputs)

    program, _ = program_of()
    with pytest.raises(SlotError, match=f"^{message}"):
        place(program, add, write)


def test_a_block_infers_the_length_of_an_unnamed_output_list():
    program, _ = program_of()
    block = program.global_block()
    op = block.append_op("split", {"x": "x"}, attrs={"axis": 1, "num": 2})
    assert op.output("out") == ("split_0", "split_1")
    assert [block.var(name).shape for name in op.output("out")] == [(4, 25), (4, 25)]
    block.create_var("unranked")
    message = "split: the number of 'out' must be given if the rank of an input is unknown"
    with pytest.raises(SlotError, match=message):
        block.append_op("split", {"x": "unranked"}, attrs={"axis": 1, "num": 2})
