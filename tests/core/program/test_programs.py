"""Programs have nested blocks and unique names, and can be cloned, pruned and checked."""

from __future__ import annotations

import threading

import pytest

import opwright
from counted_calls import count_calls
from opwright import (
    Operator,
    Program,
    default_main_program,
    default_scope,
    default_startup_program,
    name_guard,
    program_guard,
    scope_guard,
)
from opwright.errors import (
    AttributeTypeError,
    AttributeValueError,
    FeedError,
    ProgramError,
    SlotError,
    VariableNotFoundError,
)
from opwright_kit import check_reads


def build_branch():
    """Return a program of y = relu(x), z = y**2 if c else y, and unneeded operators."""
    program = Program()
    block = program.global_block()
    block.create_var("x", [None, 4], is_data=True)
    block.create_var("c", [1], "bool", is_data=True)
    block.append_op("relu", {"x": "x"}, {"out": "y"})
    block.append_op("square", {"x": "x"}, {"out": "unused"})
    yes = program.create_block()
    yes.append_op("relu", {"x": "unused"}, {"out": "dead"})
    yes.append_op("square", {"x": "y"}, {"out": "s"})
    program.rollback()
    idle = program.create_block()
    program.rollback()
    no = program.create_block()
    program.rollback()
    block.append_op(
        "cond",
        {"condition": "c"},
        {"out": ["z"]},
        {"true_block": yes, "false_block": no, "true_outputs": ["s"], "false_outputs": ["y"]},
    )
    assert idle.idx == 2
    return program


def test_blocks_can_be_nested_and_rolled_back():
    program = Program()
    outer = program.create_block()
    inner = program.create_block()
    assert (inner.parent_idx, inner.parent) == (outer.idx, outer)
    assert program.rollback() is outer
    assert program.rollback() is program.global_block() is program.current_block()
    with pytest.raises(ProgramError, match="got the global block"):
        program.rollback()
    assert program.create_block(parent_idx=outer.idx).parent is outer
    with pytest.raises(ProgramError, match=r"must be in \[0, 4\), got 9"):
        program.create_block(parent_idx=9)


def test_a_block_reads_variables_of_enclosing_blocks_and_writes_only_its_own():
    program = Program()
    x = program.global_block().create_var("x", [2])
    body = program.create_block()
    assert body.var("x") is x
    body.append_op("relu", {"x": "x"}, {"out": "h"})
    assert program.global_block().find_var("h") is None
    with pytest.raises(ProgramError, match="got 'x' of the enclosing block 0"):
        body.append_op("relu", {"x": "h"}, {"out": "x"})
    with pytest.raises(ProgramError, match="of the enclosing block 0; choose another name"):
        body.create_var("x", [2])


def test_variables_read_by_bodies_are_captured():
    op = build_branch().global_block().ops[-1]
    assert op.input("x") == ("unused", "y")
    assert op.block_attrs() == {"true_block": 1, "false_block": 3}


def test_a_capture_list_that_lacks_a_variable_is_refused():
    program = build_branch()
    block = program.global_block()
    given = block.ops.pop().attrs
    with pytest.raises(SlotError, match=r"x must contain every outer variable .* but lacks 'y'"):
        block.append_op("cond", {"condition": "c", "x": ["unused"]}, {"out": ["q"]}, given)


def test_a_body_must_be_a_block_created_within_the_current_block():
    program = build_branch()
    attrs = dict(program.global_block().ops[-1].attrs)
    body = program.create_block()
    with pytest.raises(ProgramError, match="must be a block made within block 4, got block 1"):
        body.append_op("cond", {"condition": "c"}, {"out": ["q"]}, attrs)
    attrs["true_block"] = Program().global_block()
    with pytest.raises(ProgramError, match="must be a block of this program"):
        program.global_block().append_op("cond", {"condition": "c"}, {"out": ["q"]}, attrs)


def test_a_clone_does_not_share_mutable_state():
    program = build_branch()
    program.seed = 5
    text = str(program)
    twin = program.clone()
    assert (str(twin), twin.seed) == (text, 5)
    twin.global_block().append_op("relu", {"x": "z"}, {"out": "more"})
    twin.block(1).append_op("relu", {"x": "y"})
    twin.global_block().ops[0].attrs["extra"] = 1
    twin.global_block().var("x").shape = [3, 4]
    twin.seed = 6
    assert (str(program), program.seed) == (text, 5)
    assert twin.global_block().var("x").block.program is twin
    assert twin.global_block().ops[0].block is twin.global_block()


def test_a_clone_continues_the_names_and_streams_of_the_original():
    program = Program()
    program.global_block().create_var("x", [2])
    assert program.global_block().append_op("dropout", {"x": "x"}).attr("stream") == 0
    twin = program.clone()
    for each in (program, twin):
        op = each.global_block().append_op("dropout", {"x": "x"})
        assert (op.attr("stream"), op.output("out")) == (1, ("dropout_1",))


def test_pruning_keeps_the_dependencies_of_targets():
    pruned = build_branch().prune("y")
    assert [op.type for op in pruned.global_block().ops] == ["relu"]
    assert list(pruned.global_block().vars) == ["x", "y"]
    assert len(pruned.blocks) == 1


def test_pruning_also_prunes_bodies_and_renumbers_blocks():
    program = build_branch()
    text = str(program)
    pruned = program.prune([program.global_block().var("z")])
    block = pruned.global_block()
    assert [op.type for op in block.ops] == ["relu", "cond"]
    assert block.ops[1].input("x") == ("y",)
    assert block.ops[1].block_attrs() == {"true_block": 1, "false_block": 2}
    assert [block.idx for block in pruned.blocks] == [0, 1, 2]
    assert list(pruned.block(1).vars) == ["s"]
    assert str(program) == text


def test_pruning_keeps_only_the_writes_that_a_target_depends_on():
    program = Program()
    block = program.global_block()
    block.create_var("x", [2], is_data=True)
    for op_type, source in (("relu", "x"), ("square", "h"), ("floor", "x")):
        block.append_op(op_type, {"x": source}, {"out": "h"})
    assert [op.type for op in program.prune("h").global_block().ops] == ["floor"]
    block.ops.pop()
    assert [op.type for op in program.prune("h").global_block().ops] == ["relu", "square"]


def test_the_error_for_pruning_to_an_unknown_target_names_it():
    with pytest.raises(VariableNotFoundError, match="no such variable, got 'nothing'"):
        build_branch().prune("nothing")


def test_the_error_for_a_variable_read_before_it_is_written_names_its_reader():
    program = Program()
    block = program.global_block()
    block.create_var("x", [2], is_data=True)
    block.create_var("h", [2])
    block.append_op("add", {"x": "x", "y": "h"}, {"out": "s"})
    with pytest.raises(ProgramError, match=r"add \(operator 0 of block 0\): y reads 'h' before"):
        check_reads(block)
    block.append_op("relu", {"x": "x"}, {"out": "h"})
    with pytest.raises(ProgramError, match=r"got its first write by relu \(operator 1\)"):
        check_reads(block)
    check_reads(block, feeds=["x", "h"])
    check_reads(block, operators=block.ops[1:])
    block.var("h").persistable = True
    check_reads(block)


def test_the_error_names_a_data_variable_that_is_not_fed():
    program = build_branch()
    check_reads(program.global_block())
    check_reads(program.global_block(), ["x", "c"])
    with pytest.raises(FeedError, match=r"cond \(operator 2 of block 0\): condition .* 'c'"):
        check_reads(program.global_block(), ["x"])


def test_reads_within_bodies_are_checked():
    program = build_branch()
    body = program.block(1)
    program.global_block().create_var("late", [2])
    body.append_op("relu", {"x": "late"})
    with pytest.raises(ProgramError, match=r"relu \(operator 2 of block 1\): x reads 'late'"):
        check_reads(program.global_block())


def build_loop():
    """Return a loop that doubles h; the body captures its condition `again`."""
    program = Program()
    block = program.global_block()
    block.create_var("h", [2], is_data=True)
    for name in ("go", "again"):
        block.create_var(name, [1], "bool", is_data=True)
    body = program.create_block()
    body.create_var("turn", [2])
    body.append_op("add", {"x": "turn", "y": "turn"}, {"out": "next"})
    body.append_op("relu", {"x": "h"}, {"out": "dead"})
    program.rollback()
    names = {"body_inputs": ["turn"], "body_outputs": ["next"], "body_condition": "again"}
    inputs = {"condition": "go", "state": ["h"]}
    block.append_op("repeat", inputs, {"out": ["y"]}, {"body": body, **names})
    return program


def test_pruning_a_loop_keeps_captured_and_carried_variables():
    program = build_loop()
    (op,) = program.global_block().ops
    assert op.input("x") == ("h", "again")
    check_reads(program.global_block(), ["h", "go", "again"])
    pruned = program.prune("y")
    assert [op.type for op in pruned.block(1).ops] == ["add"]
    assert pruned.global_block().ops[0].input("x") == ("again",)
    assert list(pruned.block(1).vars) == ["turn", "next"]


def test_pruning_keeps_a_carried_variable_that_no_operator_reads():
    program = build_loop()
    program.block(1).ops[0].inputs["x"], program.block(1).ops[0].inputs["y"] = ("h",), ("h",)
    assert list(program.prune("y").block(1).vars) == ["turn", "next"]


def test_pruning_drops_an_unused_variable_whose_name_equals_an_attribute_value():
    program = build_loop()
    block = program.global_block()
    block.append_op("cast", {"x": "y"}, {"out": "whole"}, {"dtype": "int32"})
    block.create_var("int32", [2])
    assert list(program.prune("whole").global_block().vars) == ["h", "go", "again", "y", "whole"]


def test_the_error_names_a_variable_that_a_loop_body_reads_before_it_is_written():
    program = build_loop()
    program.block(1).create_var("forgotten", [2])
    program.block(1).append_op("relu", {"x": "forgotten"})
    with pytest.raises(ProgramError, match=r"relu \(operator 2 of block 1\): x reads 'forgotten'"):
        check_reads(program.global_block())


def test_unique_names_count_per_program_and_skip_taken_names():
    program = Program()
    program.global_block().create_var("fc_1", [1])
    assert [program.unique_name("fc") for _ in range(2)] == ["fc_0", "fc_2"]
    assert Program().unique_name("fc") == "fc_0"
    assert program.free_name("h") == "h"
    assert program.free_name("fc_1") == "fc_1_0"


def test_name_guards_can_be_nested():
    program = Program()
    with name_guard("encoder") as outer, name_guard("layer"):
        assert program.unique_name("fc") == "encoder/layer/fc_0"
        assert outer == "encoder/"
    assert program.unique_name("fc") == "fc_0"


def test_nested_guards_replace_the_default_programs_temporarily():
    before = default_main_program(), default_startup_program()
    assert before == (default_main_program(), default_startup_program())
    main, startup, inner = Program(), Program(), Program()
    with program_guard(main, startup) as both:
        assert both == (main, startup)
        with program_guard(inner):
            assert (default_main_program(), default_startup_program()) == (inner, startup)
        with pytest.raises(RuntimeError, match="on purpose"), program_guard(inner):
            raise RuntimeError("on purpose")
        assert default_main_program() is main
    assert (default_main_program(), default_startup_program()) == before


def test_guards_affect_only_their_own_thread():
    seen = []
    with program_guard(Program()) as (main, _):
        thread = threading.Thread(target=lambda: seen.append(default_main_program()))
        thread.start()
        thread.join()
        assert default_main_program() is main
    assert seen == [default_main_program()]


@pytest.mark.parametrize(
    ("seed", "error"),
    [(-1, AttributeValueError), (2**63, AttributeValueError), (1.5, AttributeTypeError)],
)
def test_a_seed_must_be_an_int_that_fits_in_63_bits(seed, error):
    with pytest.raises(error, match="seed must be"):
        Program(seed)


def test_a_single_operator_distinguishes_slots_and_attributes():
    op = Operator("dropout", x="h", out="d", probability=0.1)
    assert (op.inputs, op.outputs) == ({"x": ("h",)}, {"out": ("d",), "mask": ("d/mask",)})
    assert op.attrs == {"probability": 0.1, "seed": 0}
    assert op.block is None
    assert repr(op) == "d, d/mask = dropout(h, probability=0.1)"
    sgd = Operator("sgd", param="w", grad="g", learning_rate="lr")
    assert sgd.output("param_out") == ("w",)
    with pytest.raises(SlotError, match="unknown slot or attribute, got 'ouput'; did you mean"):
        Operator("relu", x="h", ouput="d")
    with pytest.raises(SlotError, match="output 'out' is required"):
        Operator("relu", x="h")


def test_the_cost_of_building_is_linear_in_the_number_of_operators():
    def work(n_operators):
        block = Program().global_block()
        block.create_var("x0", [None, 64])

        def build():
            for i in range(n_operators):
                block.append_op("scale", {"x": f"x{i}"}, {"out": f"x{i + 1}"}, {"scale": 2.0})

        return count_calls(build)

    assert work(4000) < 16 * work(250) * 1.1


def test_a_guard_replaces_the_default_scope():
    from opwright import Scope

    outer = default_scope()
    assert default_scope() is outer
    mine = Scope()
    with scope_guard(mine) as guarded:
        assert guarded is mine
        assert default_scope() is mine
    assert default_scope() is outer


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda p: Program(sed=1), "^Program: unknown argument, got 'sed'; did you mean 'seed'"),
        (lambda p: p.clone(for_inferance=True), "^Program.clone: .* did you mean 'for_inference'"),
        (lambda p: p.prune(target="x"), "^Program.prune: .* did you mean 'targets'"),
        (lambda p: program_guard(), "^program_guard: missing .*arguments are main, startup"),
        (lambda p: opwright.append_backward(None, params=[]), "did you mean 'parameters'"),
        (lambda p: opwright.grad(abs, argnum=1), "^grad: .* did you mean 'argnums'"),
        (lambda p: opwright.explain("relu", dev="cpu"), "^explain: .* did you mean 'device'"),
        (
            lambda p: p.global_block().create_parameter("w", shpe=[2]),
            "^Block.create_parameter: .* did you mean 'shape'",
        ),
    ],
)
def test_the_error_for_an_unknown_argument_suggests_the_nearest(call, text):
    with pytest.raises(AttributeTypeError, match=text):
        call(Program())
