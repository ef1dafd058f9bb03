"""Values computed only from parameters are recomputed only when a parameter has changed."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright.op import OpMaker, no_gradient
from opwright_nn import layers

from .toy_graphs import TOY, make_toy

ops = ow.ops


@pytest.fixture
def runs(context) -> list[float]:
    """A list to which each run of ``toy.double`` appends the first element of its input."""
    done: list[float] = []

    def double(x, out, *, factor):
        done.append(float(x.flat[0]))
        np.multiply(x, 2, out=out)

    def keep(x, mean, out, mean_out, *, training):
        np.multiply(x, mean, out=out)
        np.copyto(mean_out, mean + 1 if training else mean)

    maker = OpMaker("toy.keep").add_comment("out = x * mean; in training mean moves.")
    maker.add_input("x", "any").add_input("mean", "any")
    maker.add_output("out", "like x").same_dtype_as("x")
    maker.add_output("mean_out", "the new mean").same_dtype_as("x").aliases("mean")
    maker.add_attr("training", bool, "whether mean moves").default(False)

    def infer(ctx):
        ctx.set_output("out", ctx.input("x").shape)
        ctx.set_output("mean_out", ctx.input("mean").shape)

    kept = maker.build(infer, no_gradient("a test"), unchanged=lambda attrs: not attrs["training"])
    context.ops.add("toy.keep", kept, TOY)
    context.ops.add("toy.double", make_toy("toy.double", ["x"]), TOY)
    for name, kernel in [("toy.double", double), ("toy.keep", keep)]:
        context.kernels.add(
            name, device="cpu", dtypes=["float32"], kernel=kernel, library="toy", package=TOY
        )
    return done


class Net:
    """A program that computes out = x + 2 w with a parameter w; tests append operators to it."""

    def __init__(self) -> None:
        self.block = ow.Program().global_block()
        self.block.create_var("x", [2])
        self.block.create_var("w", [2], persistable=True)
        self.block.append_op("toy.double", {"x": "w"}, {"out": "doubled"})
        self.block.append_op("add", {"x": "x", "y": "doubled"}, {"out": "out"})
        self.scope = ow.Scope()
        self.set(1)

    def set(self, number: float, scope: ow.Scope | None = None) -> None:
        (scope or self.scope).var("w").set(np.full(2, number, np.float32))

    def compile(self, *fetch: str, scope: ow.Scope | None = None) -> Any:
        network = ow.Network(self.block)
        call = network.compile(["x"], list(fetch or ["out"]), scope=scope or self.scope)
        return lambda x=0.0: [float(a[0]) for a in call(x=np.full(2, x, np.float32))]


def test_a_constant_is_computed_once_and_recomputed_when_its_parameter_is_set(runs) -> None:
    net = Net()
    call = net.compile()
    assert [call(x) for x in (0, 1, 2)] == [[2], [3], [4]]
    assert runs == [1]
    net.set(5)
    assert [call(0), call(1)] == [[10], [11]]
    assert runs == [1, 5]


def test_a_constant_is_recomputed_if_its_variable_is_replaced(runs) -> None:
    net = Net()
    call = net.compile()
    call()
    net.scope.erase("w")
    net.set(3)
    assert call() == [6]


def test_each_scope_has_its_own_constants(runs) -> None:
    net, other = Net(), ow.Scope()
    net.set(7, other)
    one, two = net.compile(), net.compile(scope=other)
    assert [one(), two(), one(), two()] == [[2], [14], [2], [14]]


def test_every_thread_uses_the_new_value_of_a_parameter(runs) -> None:
    net = Net()
    call = net.compile()
    results: list[float] = []

    def work() -> None:
        for _ in range(50):
            results.extend(call())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    net.set(4)
    for thread in threads:
        thread.join()
    assert set(results) <= {2.0, 8.0}
    assert call() == [8]


def test_modifying_a_fetched_constant_does_not_affect_later_runs(runs) -> None:
    net = Net()
    network = ow.Network(net.block)
    call = network.compile(["x"], ["doubled", "out"], scope=net.scope)
    x = np.zeros(2, np.float32)
    first = call(x=x)[0]
    first[:] = 99
    second, out = call(x=x)
    np.testing.assert_array_equal(second, [2, 2])
    np.testing.assert_array_equal(out, [2, 2])
    assert runs == [1]


def test_values_written_by_the_plan_are_not_constants(runs) -> None:
    net = Net()
    net.block.append_op("add", {"x": "w", "y": "x"}, {"out": "w"})
    call = net.compile()
    assert [call(1), call(1), call(1)] == [[3], [5], [7]]
    assert runs == [1, 2, 3]


def test_operators_that_depend_on_a_feed_run_each_time(runs) -> None:
    net = Net()
    net.block.append_op("add", {"x": "x", "y": "w"}, {"out": "both"})
    net.block.append_op("toy.double", {"x": "both"}, {"out": "fed"})
    call = net.compile("fed", "out")
    assert [call(0), call(1)] == [[2, 2], [4, 3]]
    assert sorted(runs) == [1, 1, 2]


def test_a_chain_of_constants_runs_in_order(runs) -> None:
    net = Net()
    net.block.append_op("toy.double", {"x": "doubled"}, {"out": "fourfold"})
    net.block.append_op("add", {"x": "out", "y": "fourfold"}, {"out": "sum"})
    call = net.compile("sum")
    assert [call(0), call(1)] == [[6], [7]]
    assert runs == [1, 2]
    net.set(2)
    assert call() == [12]
    assert runs == [1, 2, 2, 4]


@pytest.mark.parametrize("training", [False, True])
def test_an_input_that_an_operator_declares_unchanged_stays_constant(runs, training) -> None:
    net = Net()
    net.block.append_op(
        "toy.keep",
        {"x": "x", "mean": "w"},
        {"out": "kept", "mean_out": "w"},
        {"training": training},
    )
    call = net.compile("kept", "out")
    assert [call(1), call(1)] == [[1, 3], [2, 5] if training else [1, 3]]
    assert runs == ([1, 2] if training else [1])


def test_network_run_recomputes_constants(runs) -> None:
    net = Net()
    net.scope.var("x").set(np.zeros(2, np.float32))
    network = ow.Network(net.block)
    for number in (1, 6):
        net.set(number)
        network.run(net.scope)
        assert net.scope.find_var("doubled").numpy()[0] == 2 * number
    assert runs == [1, 6]


def test_a_failure_is_not_cached_as_a_constant(runs, context) -> None:
    def fail(x, out, *, factor):
        raise ValueError("not today")

    context.ops.add("toy.fail", make_toy("toy.fail", ["x"]), TOY)
    context.kernels.add(
        "toy.fail", device="cpu", dtypes=["float32"], kernel=fail, library="toy", package=TOY
    )
    net = Net()
    net.block.append_op("toy.fail", {"x": "w"}, {"out": "never"})
    call = net.compile("never")
    for _ in range(2):
        with pytest.raises(ow.errors.KernelError, match="not today"):
            call()


def test_a_loop_body_receives_the_parameter_in_each_iteration(runs) -> None:
    net = Net()
    with ow.program_guard(net.block.program):
        w, x = net.block.var("w"), net.block.var("x")
        steps = net.block.create_var("steps", [3, 2])
        last, _ = layers.scan(lambda h, e: (ops.add(h, ops.toy.double(w)), e), x, steps)
    call = ow.Network(net.block).compile(["x", "steps"], [last], scope=net.scope)
    feeds = {"x": np.zeros(2, np.float32), "steps": np.zeros((3, 2), np.float32)}
    np.testing.assert_array_equal(call(**feeds)[0], [6, 6])
    net.set(2)
    np.testing.assert_array_equal(call(**feeds)[0], [12, 12])
    assert runs == [1, 1, 1, 2, 2, 2]


def test_an_in_place_write_to_a_constant_writes_a_copy(runs) -> None:
    net = Net()
    keep = {"x": "x", "mean": "doubled"}, {"out": "kept", "mean_out": "doubled"}
    net.block.append_op("toy.keep", *keep, {"training": True})
    call = net.compile("kept", "doubled")
    assert [call(1), call(1)] == [[2, 3], [2, 3]]
    assert runs == [1]


def test_fetched_values_that_a_pass_makes_constant_are_correct(runs, context) -> None:
    """The pass replaces an addition that reads a feed by a copy of a constant."""

    def drop_zeros(graph):
        edit = graph.edit()
        for add in graph.of_type("add"):
            slots = {"x": add.inputs[1][0]}
            made = graph.make("assign", slots, {"out": add.outputs[0][0]}, like=add)
            edit.fuse([add], [made])
        edit.apply()

    context.passes.add("drop_zeros", phase="fuse", function=drop_zeros, package=TOY)
    net = Net()
    assert net.compile("out")() == [2]
    net.set(4)
    assert net.compile("out", "doubled")() == [8, 8]
