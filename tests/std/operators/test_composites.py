"""Random composites: programs and plans draw the same random numbers."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from composite import X, composite, differentiate, program_of, runs

import opwright as ow
from opwright.errors import KernelError
from opwright.program.completion import inner_stream


def scaled_dropout(b):
    dropped = b.emit("dropout", {"x": b.input("x")}, attrs={"training": True})
    b.emit("scale", {"x": dropped}, {"out": b.output("out")}, {"scale": 3.0})


def dropped_twice(b):
    once = b.emit("dropout", {"x": b.input("x")}, attrs={"training": True})
    again = b.emit("dropout", {"x": b.input("x")}, attrs={"training": True})
    b.emit("subtract", {"x": once, "y": again}, {"out": b.output("out")})


def test_layers_and_runs_draw_different_random_numbers(add):
    add(part=composite(scaled_dropout))
    program, outs = program_of("test.part", "test.part")
    (first, other), (next_first, _) = runs(program, outs, 2)
    assert set(np.unique(first)) == {0.0, 6.0}
    assert not np.array_equal(first, other)
    assert not np.array_equal(first, next_first)
    assert not np.array_equal(runs(program_of("test.part", seed=8)[0], outs[:1])[0][0], first)


def test_the_same_seed_draws_the_same_numbers(add):
    add(part=composite(scaled_dropout))
    program, outs = program_of("test.part")
    np.testing.assert_array_equal(runs(program, outs, 3), runs(program, outs, 3))


def stream_of_none(b):
    attrs = {"training": True, "stream": None, "seed": None}
    b.set_output("out", b.emit("dropout", {"x": b.input("x")}, attrs=attrs))


@pytest.mark.parametrize("body", [scaled_dropout, dropped_twice, stream_of_none])
def test_a_body_draws_the_same_numbers_in_program_and_plan(add, body):
    add(part=composite(body))
    program, outs = program_of("test.part", "test.part")
    plain = runs(program, outs, 2)
    for out in outs:
        differentiate(program, out)
    assert "test.part" not in [op.type for op in program.global_block().ops]
    np.testing.assert_array_equal(runs(program, outs, 2), plain)


def test_a_composite_without_a_stream_draws_from_stream_0_everywhere(add):
    add(part=composite(dropped_twice))
    results = []
    for is_differentiated in (False, True):
        program, (out,) = program_of("test.part")
        del program.global_block().ops[0].attrs["stream"]
        if is_differentiated:
            differentiate(program, out)
        results.append(runs(program, [out])[0][0])
    np.testing.assert_array_equal(*results)


def test_the_gradient_uses_the_mask_of_the_forward_pass(add):
    add(part=composite(scaled_dropout))
    program, outs = program_of("test.part", "test.part")
    grads = [differentiate(program, out) for out in outs]
    for values in runs(program, [*outs, *grads], 2):
        np.testing.assert_array_equal(values[:2], values[2:])


def test_the_gradient_of_a_branch_uses_the_mask_of_the_branch(add):
    # The gradient expands the body in its copy of the branch; the branch itself is lowered.
    add(part=composite(scaled_dropout))
    program = ow.Program(3)
    block = program.global_block()
    block.create_var("x", [4, 50], is_data=True)
    block.create_var("yes", [1], "bool", is_data=True)
    bodies = []
    for _ in range(2):
        body = program.create_block()
        bodies.append((body, body.append_op("test.part", {"x": "x"}).output("out")))
        program.rollback()
    (yes, yes_outs), (no, no_outs) = bodies
    attrs = {
        "true_block": yes,
        "true_outputs": yes_outs,
        "false_block": no,
        "false_outputs": no_outs,
    }
    block.append_op("cond", {"condition": "yes"}, {"out": "out"}, attrs)
    grad = differentiate(program, "out")
    step = ow.Network(block).compile(["x", "yes"], ["out", grad], scope=ow.Scope())
    values = [step(x=X, yes=np.array([choice])) for choice in (True, False, True)]
    for out, gradient in values:
        np.testing.assert_array_equal(gradient, out)
    assert not np.array_equal(values[0][0], values[2][0])
    assert not np.array_equal(values[0][0], values[1][0])


def test_several_draws_of_one_body_differ(add):
    add(part=composite(dropped_twice))
    program, outs = program_of("test.part")
    assert set(np.unique(runs(program, outs)[0][0])) == {-2.0, 0.0, 2.0}


def test_a_composite_in_a_body_draws_the_same_numbers_in_a_plan_and_a_program(add):
    def outer(b):
        once = b.emit("test.inner", {"x": b.input("x")})
        again = b.emit("test.inner", {"x": b.input("x")})
        b.emit("subtract", {"x": once, "y": again}, {"out": b.output("out")})

    add(part=composite(outer), inner=composite(scaled_dropout, name="inner"))
    program, outs = program_of("test.part", "test.part")
    plain = runs(program, outs, 2)
    assert set(np.unique(plain)) == {-6.0, 0.0, 6.0}
    assert not np.array_equal(plain[0][0], plain[0][1])
    differentiate(program, outs[0])
    np.testing.assert_array_equal(runs(program, outs, 2), plain)


def test_a_loaded_program_continues_the_random_sequence(add, tmp_path):
    add(part=composite(scaled_dropout))
    program, outs = program_of("test.part", "test.part")
    scope = ow.Scope()
    call = ow.Network(program.global_block()).compile(["x"], outs, scope=scope)
    call(x=X)
    ow.save(tmp_path / "saved", program, scope, fetch=outs)
    fresh = ow.Scope()
    loaded = ow.load(tmp_path / "saved", fresh)
    network = ow.Network(loaded.program.global_block())
    again = network.compile(["x"], [fetch.name for fetch in loaded.fetches], scope=fresh)
    for _ in range(2):
        np.testing.assert_array_equal(again(x=X), call(x=X))


def test_a_body_draws_the_same_numbers_in_every_run_if_step_is_none(add):
    add(part=composite(scaled_dropout))
    program = ow.Program(1)
    block = program.global_block()
    block.create_var("x", [4, 50], is_data=True)
    block.append_op("test.part", {"x": "x", "step": None}, {"out": "out"})
    first, second = runs(program, ["out"], 2)
    np.testing.assert_array_equal(first, second)
    grad = differentiate(program, "out")
    np.testing.assert_array_equal(runs(program, [grad], 2), [first, second])


def test_random_numbers_drawn_by_calls_on_arrays_depend_only_on_the_seed(add):
    add(part=composite(scaled_dropout))
    part = ow.ops.test.part
    np.testing.assert_array_equal(part(X, seed=1), part(X, seed=1))
    np.testing.assert_array_equal(part(X, seed=1) > 0, ow.ops.dropout(X, training=True, seed=1) > 0)
    assert not np.array_equal(part(X, seed=1), part(X, seed=2))


def test_random_streams_in_a_body_have_higher_numbers_than_streams_in_programs():
    streams = {inner_stream(stream, n) for stream in range(500) for n in range(1, 5)}
    assert inner_stream(9, 0) == 9
    assert inner_stream(9, 2) == 2**31 | zlib.crc32(b"9/2") == 0x8E306EE0
    assert len(streams) == 2000
    assert all(2**31 <= stream < 2**32 for stream in streams)


def test_an_error_in_a_composite_names_the_composite_and_the_failing_part(add):
    def checked(b):
        x = b.input("x")
        condition = b.emit("greater", {"x": x, "y": b.emit("fill_like", {"x": x})})
        b.emit_multi("assert_true", {"condition": condition}, attrs={"message": "x must be > 0"})
        b.emit("assign", {"x": x}, {"out": b.output("out")})

    add(part=composite(checked))
    program, outs = program_of("scale", "test.part")
    with pytest.raises(KernelError, match=r"^test.part\[cpu\]: .* its part assert_true, .* > 0"):
        ow.Network(program.global_block()).compile(["x"], outs[1:])(x=-X)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan])
def test_a_quantization_scale_that_is_not_positive_is_refused(scale):
    with pytest.raises(KernelError, match=r"^quantize\[cpu\]: .* scale must be greater than 0"):
        ow.ops.quantize(np.ones(3, np.float32), np.float32(scale), dtype="int8")
