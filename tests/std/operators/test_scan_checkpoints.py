"""checkpoint_every: the gradient of a scan saves few carries, and recomputes iterations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import test_nested_control as nested
import test_scan as scans

import opwright as ow
from opwright.errors import AttributeValueError, ShapeError
from opwright_nn import layers

RNG = np.random.default_rng(8)
WANTED = ["x", "h0", "w", "u"]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("n", "every"), [(12, 4), (13, 4), (3, 4), (5, 1), (5, 5), (1, 2), (0, 3)])
def test_gradients_are_bitwise_identical_with_and_without_checkpoints(
    n: int, every: int, reverse: bool
) -> None:
    values = {**scans.VALUES, "x": RNG.normal(size=(n, 2, 3))}
    results = []
    for attrs in ({}, {"checkpoint_every": every}):
        program = scans.rnn_program(reverse=reverse, **attrs)
        fetch = ["states", "last", "loss", *scans.gradients(program, WANTED)]
        results.append(scans.run(program, fetch, values))
    for plain, checkpointed in zip(*results, strict=True):
        np.testing.assert_array_equal(plain, checkpointed)


def memory_bytes(n: int, every: int | None) -> int:
    """Return the arena size of a plan that trains h = tanh(x[t] * w + h) over n iterations."""
    program = ow.Program()
    with ow.program_guard(program, ow.Program()):
        x = layers.data("x", shape=[n, 64], dtype="float64")
        h0 = layers.data("h0", shape=[64], dtype="float64")
        w = program.global_block().create_parameter("w", [64], "float64")
        last, _ = layers.scan(
            lambda h, x_t: (layers.tanh(x_t * w + h), None), h0, x, checkpoint_every=every
        )
        ((_, gradient),) = ow.append_backward(ow.ops.sum(last), ["w"])
    scope = ow.Scope()
    scope.var("w").set(np.full(64, 0.5))
    feeds = {"x": RNG.normal(size=(n, 64)), "h0": np.zeros(64)}
    network = ow.Network(program.global_block())
    call = network.compile(list(feeds), [gradient], scope=scope)
    call(**feeds)
    return int(network.plan_for(feeds, scope).lowered.plan.arena_bytes)


def test_checkpoints_reduce_memory_from_linear_to_the_square_root_of_the_iterations() -> None:
    carry = 64 * 8
    linear = {n: memory_bytes(n, None) for n in (256, 1024, 4096)}
    assert linear[4096] - linear[1024] >= 3072 * carry
    assert linear[4096] <= 4.2 * linear[1024] <= 4.2 * 4.2 * linear[256]
    root = {n: memory_bytes(n, every) for n, every in ((256, 16), (1024, 32), (4096, 64))}
    assert root[4096] <= 2.2 * root[1024] <= 2.2 * 2.2 * root[256]
    assert root[4096] <= linear[4096] / 8
    uneven = memory_bytes(1021, 32)
    assert uneven <= 2 * root[1024]


@pytest.mark.parametrize("make", [nested.scan_in_scan, nested.cond_in_scan, nested.while_in_scan])
def test_nested_operators_of_an_iteration_are_recomputed_too(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, loss = nested.build(make)
    scan = layers.scan
    monkeypatch.setattr(layers, "scan", lambda *args: scan(*args, checkpoint_every=3))
    checkpointed, again = nested.build(make)
    found = []
    for program, name in ((plain, loss), (checkpointed, again)):
        wanted = [n for n in ("x", "y", "w") if nested.reaches(program, name, n)]
        pairs = ow.append_backward(program.global_block().var(name), wanted)
        twin = ow.Program.from_proto(program.to_proto())
        assert str(twin) == str(program)
        fetch = [name, *(gradient.name for _, gradient in pairs)]
        found.append(nested.run(twin, fetch, nested.VALUES))
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_recomputed_iterations_draw_the_same_random_numbers() -> None:
    def make(body: Any) -> None:
        attrs = {"probability": 0.5, "training": True}
        body.append_op("dropout", {"x": "x_t"}, {"out": "dropped"}, attrs)
        body.append_op("multiply", {"x": "h", "y": "dropped"}, {"out": "next"})

    values = {"x": RNG.normal(size=(7, 3)), "h0": np.ones(3)}
    found = []
    for attrs in ({}, {"checkpoint_every": 3}):
        program = scans.program_with(make, **attrs)
        program.global_block().append_op("sum", {"x": "states"}, {"out": "loss"})
        (gradient,) = scans.gradients(program, ["x"])
        found.append(scans.run(program, ["states", gradient], values))
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_loop_without_sequences_supports_checkpoints() -> None:
    found = []
    for every in (None, 4):
        program = ow.Program()
        with ow.program_guard(program, ow.Program()):
            h = layers.data("h", shape=[3], dtype="float64")
            w = program.global_block().create_parameter("w", [3], "float64")
            last, out = layers.scan(
                lambda h, _, w=w: (layers.tanh(h * w), h * h), h, length=11, checkpoint_every=every
            )
            loss = ow.ops.sum(last) + ow.ops.sum(out)
            pairs = ow.append_backward(loss, ["h", "w"])
        fetch = [loss.name, *(gradient.name for _, gradient in pairs)]
        found.append(scans.run(program, fetch, {"h": np.ones(3), "w": np.full(3, 0.9)}))
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_second_gradient_is_the_same_with_and_without_checkpoints() -> None:
    found = []
    for attrs in ({}, {"checkpoint_every": 2}):
        program = scans.rnn_program(**attrs)
        block = program.global_block()
        (first,) = scans.gradients(program, ["u"])
        block.append_op("multiply", {"x": first, "y": first}, {"out": "norms"})
        block.append_op("sum", {"x": "norms"}, {"out": "norm"})
        pairs = ow.append_backward(block.var("norm"), WANTED)
        found.append(scans.run(program, [gradient.name for _, gradient in pairs]))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_forward_iterations_save_nothing_in_a_pruned_program() -> None:
    program = scans.rnn_program(checkpoint_every=2)
    (wanted,) = scans.run(program, ["states"])
    names = scans.gradients(program, ["u"])
    forward = program.prune(["states"])
    inner = [op for block in forward.blocks for op in block.ops if op.type == "scan"]
    assert [op.attrs.get("segment") for op in inner] == [2, None]
    assert inner[1].attrs["body_kept"] == ()
    np.testing.assert_array_equal(scans.run(forward, ["states"])[0], wanted)
    again = scans.gradients(program, ["u"])
    first, second = scans.run(program, [*names, *again])
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("every", [0, -1])
def test_a_checkpoint_interval_below_one_is_refused(every: int) -> None:
    with pytest.raises(AttributeValueError, match=f"checkpoint_every must be .*={every}"):
        scans.rnn_program(checkpoint_every=every)


def test_checkpoints_without_sequences_are_refused_with_a_remedy() -> None:
    program = ow.Program()
    block = program.global_block()
    block.create_var("h0", [5], "float64", is_data=True)
    body = program.create_block()
    body.create_var("h", [5], "float64")
    program.rollback()
    attrs = {"body": body, "body_init": ["h"], "body_final": ["h"], "length": 3}
    with pytest.raises(ShapeError, match=r"checkpoint_every must be absent .*; pass xs of shape"):
        block.append_op(
            "scan", {"init": "h0"}, {"final": ["last"]}, {**attrs, "checkpoint_every": 2}
        )


@pytest.mark.parametrize(
    ("attrs", "rule"),
    [
        ({"segment": 2}, "body_segments must contain at least one of body_xs"),
        (
            {"segment": 2, "body_segments": ["other"]},
            "body_segments must contain at least one of body_xs",
        ),
        ({"body_segments": ["x_t"]}, "segment must be given with body_segments"),
        ({"segment": 2, "body_segments": ["x_t"]}, "'x_t' must be a segment of"),
        (
            {"segment": 2, "body_segments": ["x_t"], "checkpoint_every": 2},
            "checkpoint_every must be absent if segment is given",
        ),
    ],
)
def test_invalid_segments_are_refused(attrs: dict[str, Any], rule: str) -> None:
    with pytest.raises(ShapeError, match=rule):
        scans.rnn_program(**attrs)


def test_iterations_read_and_append_segments_and_the_last_can_be_shorter() -> None:
    program = ow.Program()
    block = program.global_block()
    block.create_var("x", [-1, 2], "float64", is_data=True)
    body = program.create_block()
    body.create_var("rows", [-1, 2], "float64")
    body.append_op("sum", {"x": "rows"}, {"out": "total"}, {"axis": [0]})
    body.append_op("add", {"x": "rows", "y": "rows"}, {"out": "doubled"})
    program.rollback()
    attrs = {"body": body, "body_xs": ["rows"], "body_out": ["total", "doubled"]}
    segments = {"segment": 3, "body_segments": ["rows", "doubled"]}
    block.append_op("scan", {"xs": "x"}, {"out": ["totals", "twice"]}, {**attrs, **segments})
    for n in (6, 7, 2):
        x = RNG.normal(size=(n, 2))
        totals, twice = scans.run(program, ["totals", "twice"], {"x": x})
        parts = [x[i : i + 3].sum(axis=0) for i in range(0, n, 3)]
        np.testing.assert_allclose(totals, parts)
        np.testing.assert_array_equal(twice, 2 * x)
