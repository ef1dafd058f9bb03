"""``Network.compile`` returns a function of feeds; persistables are read from the scope."""

from __future__ import annotations

import re
import sys
import threading

import numpy as np
import pytest

import opwright as ow
from opwright import _runtime
from opwright.errors import FeedError, PluginError, ProgramError, ShapeError


def _linear():
    """Return a program of ``out = x @ w + b`` and its scope, with persistable w and b."""
    program = ow.Program()
    block = program.global_block()
    block.create_var("x", [-1, 3])
    block.create_var("w", [3, 2], persistable=True)
    block.create_var("b", [2], persistable=True)
    block.append_op("matmul", {"x": "x", "y": "w"}, {"out": "xw"})
    block.append_op("add", {"x": "xw", "y": "b"}, {"out": "out"})
    scope = ow.Scope()
    scope.var("w").set(np.arange(6, dtype=np.float32).reshape(3, 2))
    scope.var("b").set(np.array([1, -1], np.float32))
    return program, scope


def _compiled(**options):
    program, scope = _linear()
    network = ow.Network(program.global_block())
    return network.compile(feed=["x"], fetch=["out"], scope=scope, **options), scope


def _expected(x, scope):
    return x @ scope.find_var("w").numpy() + scope.find_var("b").numpy()


def test_fetches_are_new_arrays_owned_by_the_caller():
    call, scope = _compiled()
    x = np.ones((4, 3), np.float32)
    (first,) = call(x=x)
    kept = first.copy()
    call(x=2 * x)
    np.testing.assert_array_equal(first, kept)
    assert first.flags.writeable
    assert first.flags.owndata or first.base is not None
    np.testing.assert_allclose(first, _expected(x, scope))


def test_new_shapes_are_lowered_and_plans_for_old_shapes_are_kept():
    call, scope = _compiled()
    for n in (4, 1, 9, 4, 0, 1):
        x = np.random.default_rng(n).random((n, 3), np.float32)
        np.testing.assert_allclose(call(x=x)[0], _expected(x, scope), rtol=1e-6)
    assert len(call.plans) == 4


def test_a_composite_can_write_the_variable_that_it_reads():
    op = ow.Operator("fc", x="x", weight="w", bias="b", out="x")
    x, w, b = np.ones((2, 3), np.float32), np.eye(3, dtype=np.float32) * 2, np.ones(3, np.float32)
    call = ow.Network([op]).compile(feed=["x", "w", "b"], fetch=["x"], scope=ow.Scope())
    np.testing.assert_array_equal(call(x=x, w=w, b=b)[0], x @ w + b)


def test_intermediate_variables_are_not_written_to_the_scope():
    call, scope = _compiled()
    call(x=np.ones((1, 3), np.float32))
    assert scope.names() == ["b", "w"]


def test_the_next_call_reads_a_persistable_that_was_set():
    call, scope = _compiled()
    x = np.ones((2, 3), np.float32)
    call(x=x)
    scope.var("b").set(np.array([100, 200], np.float32))
    np.testing.assert_allclose(call(x=x)[0], _expected(x, scope))


def test_a_persistable_with_a_different_shape_causes_a_new_lowering():
    call, scope = _compiled()
    x = np.ones((2, 3), np.float32)
    call(x=x)
    scope.var("w").set(np.ones((3, 5), np.float32))
    scope.var("b").set(np.ones(1, np.float32))
    np.testing.assert_allclose(call(x=x)[0], np.full((2, 5), 4.0))


@pytest.mark.parametrize(
    "x",
    [
        np.asfortranarray(np.arange(12, dtype=np.float32).reshape(4, 3)),
        np.arange(24, dtype=np.float32).reshape(4, 6)[:, ::2],
        np.arange(12, dtype=">f4").reshape(4, 3),
        np.frombuffer(b"\0" + np.arange(12, dtype=np.float32).tobytes(), np.uint8)[1:]
        .view(np.float32)
        .reshape(4, 3),
    ],
    ids=["fortran", "strided", "big-endian", "unaligned"],
)
def test_arrays_with_another_layout_alignment_or_byte_order_are_accepted(x):
    call, scope = _compiled()
    np.testing.assert_allclose(call(x=x)[0], _expected(x.astype(np.float32), scope))


def test_python_numbers_adopt_the_dtype_of_the_variable():
    call, scope = _compiled()
    np.testing.assert_allclose(call(x=[[1, 2, 3]])[0], _expected(np.array([[1, 2, 3]]), scope))


@pytest.mark.parametrize(
    ("feeds", "text"),
    [
        ({}, "'x' is missing, got nothing; pass x=array"),
        ({"y": 1}, "unknown feed, got 'y'"),
        ({"x": np.ones((2, 4), np.float32)}, r"shape must be \(\?, 3\), got \(2, 4\)"),
        ({"x": np.ones(3, np.float32)}, r"shape must be \(\?, 3\), got \(3,\)"),
        ({"x": np.ones((2, 3))}, "dtype must be float32, got float64"),
        ({"x": "abc"}, "must be an array of numbers, got 'abc'"),
        (
            {"x": np.array([object()])},
            "must be an array of bools, ints or floats, got dtype object",
        ),
    ],
    ids=["missing", "unknown", "columns", "rank", "dtype", "text", "object"],
)
def test_the_error_names_a_wrong_feed(feeds, text):
    call, _ = _compiled()
    with pytest.raises((FeedError, TypeError), match=text):
        call(**feeds)


def test_the_error_for_a_network_without_feeds_shows_how_to_compile_it():
    program, scope = _linear()
    call = ow.Network(program.global_block()).compile(fetch=["w"], scope=scope)
    text = "this network has no feeds, got 'x'; name its feeds when it is compiled: "
    with pytest.raises(FeedError, match=re.escape(text + "compile(feed=['x'], ...)")):
        call(x=1.0)


def test_feeds_can_be_given_by_position():
    call, _ = _compiled()
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(call(x)[0], call(x=x)[0])
    with pytest.raises(FeedError, match="this network takes 'x', got 2 values by position; pass"):
        call(x, x)
    with pytest.raises(FeedError, match="feed: 'x' must be given once, got it by position and"):
        call(x, x=x)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"feed": ["X"]}, "the block has no variable 'X'; did you mean 'x'"),
        ({"fetch": ["oot"]}, "the network has no variable 'oot'; did you mean 'out'"),
        ({"feed": "x"}, "feed must be a list, got 'x'"),
        ({"fetch": [3]}, "fetch must list variables or names, got 3"),
    ],
)
def test_compile_checks_its_arguments(options, text):
    program, scope = _linear()
    network = ow.Network(program.global_block())
    with pytest.raises(FeedError, match=text):
        network.compile(**{"feed": ["x"], "fetch": ["out"], "scope": scope, **options})


def test_the_cost_of_compile_does_not_depend_on_the_number_of_fetches(monkeypatch):
    program, scope = _linear()
    listed = ow.Network.ops
    walks: list[int] = []

    def count(network):
        walks[-1] += 1
        return listed.fget(network)

    monkeypatch.setattr(ow.Network, "ops", property(count))
    for n in (1, 50):
        walks.append(0)
        ow.Network(program.global_block()).compile(["x"], ["out"] * n, scope=scope)
    assert walks[0] == walks[1]


def test_an_unknown_pass_or_device_is_refused():
    call, _ = _compiled(passes=["fuse_everything"])
    with pytest.raises(PluginError, match="unknown pass, got 'fuse_everything'"):
        call(x=np.ones((1, 3), np.float32))
    with pytest.raises(LookupError, match="gpu: no device of this name .*; GPUs are 'cuda'"):
        _compiled(device="gpu")


def test_an_input_that_is_neither_fed_nor_persistable_raises():
    program, scope = _linear()
    call = ow.Network(program.global_block()).compile(fetch=["out"], scope=scope)
    with pytest.raises(ProgramError, match="matmul: x must be written before it is read"):
        call()


def test_mismatched_shapes_are_detected_before_a_run():
    call, scope = _compiled()
    scope.var("w").set(np.ones((4, 2), np.float32))
    with pytest.raises(ShapeError, match="matmul"):
        call(x=np.ones((2, 3), np.float32))


def test_variables_feeds_and_persistables_can_be_fetched_even_twice():
    program, scope = _linear()
    names = ["x", "out", "w", "out", "xw"]
    call = ow.Network(program.global_block()).compile(feed=["x"], fetch=names, scope=scope)
    x = np.ones((2, 3), np.float32)
    fed, out, w, again, xw = call(x=x)
    np.testing.assert_array_equal(fed, x)
    assert fed is not x
    np.testing.assert_array_equal(w, scope.find_var("w").numpy())
    np.testing.assert_array_equal(out, again)
    assert not np.shares_memory(out, again)
    np.testing.assert_allclose(np.add(xw, [1, -1]), out)


def test_an_optimizer_updates_the_scope_and_leaves_feeds_unchanged():
    program = ow.Program()
    block = program.global_block()
    block.create_var("w", [4], persistable=True)
    block.create_var("g", [4])
    block.create_var("lr", [1], persistable=True)
    sgd = {"param": "w", "grad": "g", "learning_rate": "lr"}
    block.append_op("sgd", sgd, {"param_out": "w"})
    scope = ow.Scope()
    scope.var("w").set(np.ones(4, np.float32))
    scope.var("lr").set(np.array([0.5], np.float32))
    step = ow.Network(block).compile(feed=["g"], fetch=["w"], scope=scope)
    g = np.array([0, 1, 2, 3], np.float32)
    np.testing.assert_allclose(step(g=g)[0], [1, 0.5, 0, -0.5])
    np.testing.assert_allclose(scope.find_var("w").numpy(), [1, 0.5, 0, -0.5])
    fed = np.full(4, 10, np.float32)
    loose = ow.Network([ow.Operator("sgd", param="w", grad="g", learning_rate="lr", param_out="w")])
    (out,) = loose.compile(feed=["w", "g"], fetch=["w"], scope=scope)(w=fed, g=g)
    np.testing.assert_allclose(out, [10, 9.5, 9, 8.5])
    np.testing.assert_allclose(fed, 10)


def test_operators_that_differ_in_the_sign_of_zero_are_distinguished():
    fills = [
        ow.Operator("fill_like", x="x", out=name, value=value)
        for name, value in (("plus", 0.0), ("minus", -0.0))
    ]
    plus, minus = ow.Network(fills).compile(["x"], ["plus", "minus"])(x=np.ones(2, np.float32))
    assert not np.signbit(plus).any()
    assert np.signbit(minus).all()


def test_dead_operators_are_not_in_the_placement(reference_kernels):
    program, scope = _linear()
    program.global_block().append_op("relu", {"x": "out"}, {"out": "unused"})
    network = ow.Network(program.global_block())
    with pytest.raises(ProgramError, match="a plan must have been lowered"):
        network.placement()
    network.compile(feed=["x"], fetch=["out"], scope=scope)(x=np.ones((2, 3), np.float32))
    placement = network.placement()
    assert (placement.operators, placement.python_steps, placement.copies) == (2, 2, 0)
    assert "cpu/numpy" in str(placement)


def test_later_changes_of_a_program_do_not_affect_a_compiled_network():
    program, scope = _linear()
    block = program.global_block()
    call = ow.Network(block).compile(feed=["x"], fetch=["out"], scope=scope)
    block.append_op("negative", {"x": "out"}, {"out": "out"})
    x = np.ones((1, 3), np.float32)
    np.testing.assert_allclose(call(x=x)[0], _expected(x, scope))
    negated = ow.Network(block).compile(feed=["x"], fetch=["out"], scope=scope)
    np.testing.assert_allclose(negated(x=x)[0], -_expected(x, scope))


def test_two_threads_that_train_separate_scopes_with_one_network_match_sequential_training():
    program = ow.Program()
    block = program.global_block()
    block.create_var("w", [64], persistable=True)
    block.create_var("lr", [1], persistable=True)
    block.create_var("x", [64])
    block.append_op("multiply", {"x": "w", "y": "x"}, {"out": "g"})
    sgd = {"param": "w", "grad": "g", "learning_rate": "lr"}
    block.append_op("sgd", sgd, {"param_out": "w"})
    network = ow.Network(block)

    def train(seed, results):
        rng = np.random.default_rng(seed)
        scope = ow.Scope()
        scope.var("w").set(rng.random(64, np.float32))
        scope.var("lr").set(np.array([0.1], np.float32))
        step = network.compile(feed=["x"], fetch=["w"], scope=scope)
        for _ in range(300):
            step(x=rng.random(64, np.float32))
        results[seed] = scope.find_var("w").numpy()

    alone, together = {}, {}
    for seed in range(4):
        train(seed, alone)
    threads = [threading.Thread(target=train, args=(s, together)) for s in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in range(4):
        np.testing.assert_array_equal(alone[seed], together[seed])


def test_several_threads_can_use_one_callable():
    call, scope = _compiled()
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(200):
            x = rng.random((int(rng.integers(1, 12)), 3), np.float32)
            if not np.allclose(call(x=x)[0], _expected(x, scope), rtol=1e-5):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_shapes_are_lowered_again_after_their_plans_are_released():
    call, scope = _compiled()
    for n in list(range(1, 100)) * 2:
        x = np.full((n, 3), n, np.float32)
        np.testing.assert_allclose(call(x=x)[0], _expected(x, scope))
    assert len(call.plans) == 99
    _runtime.release_plans(all=True)
    np.testing.assert_allclose(call(x=x)[0], _expected(x, scope))
    assert len(call.plans) == 1


def test_a_dropped_callable_releases_its_arrays():
    program, scope = _linear()
    network = ow.Network(program.global_block())
    x = np.ones((2, 3), np.float32)
    before = sys.getrefcount(x)
    for _ in range(20):
        network.compile(feed=["x"], fetch=["out"], scope=scope)(x=x)
    assert sys.getrefcount(x) == before
