"""A kernel is told which intermediate outputs are unread, so it can skip writing them."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright.discovery.discover import Settings
from opwright.errors import PluginError
from opwright.op import OpMaker, no_gradient, same_shape_as

from .toy_graphs import TOY

X = np.arange(4, dtype=np.float32)


class Halver:
    """A kernel that halves x, and also writes the intermediate output `half` if it is read."""

    def __init__(self):
        self.told = []

    def prepare(self, ctx):
        self.told.append(set(ctx.unread))

        def run(x, out, half, also):
            np.divide(x, 2, out=out)
            half[...] = np.nan if "half" in ctx.unread else x / 2
            also[...] = x

        return run


def make_halve():
    maker = OpMaker("toy.halve").add_comment("out = x / 2.").add_input("x", "any shape")
    maker.add_output("out", "x / 2").same_dtype_as("x")
    maker.add_output("half", "x / 2 again").same_dtype_as("x").as_intermediate()
    maker.add_output("also", "x").same_dtype_as("x")
    return maker.build(same_shape_as("x"), no_gradient("a toy"))


@pytest.fixture
def halver(context):
    made = Halver()
    context.ops.add("toy.halve", make_halve(), TOY)
    context.kernels.add(
        "toy.halve", device="cpu", dtypes=["float32"], kernel=made, library="toy", package=TOY
    )
    ow.set_num_threads(1)  # with more threads, short plans are also prepared for one thread
    return made


def halve(x="x", out="out", half="half", also="also"):
    return ow.Operator("toy.halve", x=x, out=out, half=half, also=also)


def run(ops, fetch, **options):
    return ow.Network(ops).compile(feed=["x"], fetch=fetch, **options)(x=X)


def test_a_kernel_is_told_that_an_intermediate_output_is_unread(halver):
    (out,) = run([halve()], ["out"])
    assert halver.told == [{"half"}]  # not "also", which is not declared as intermediate
    np.testing.assert_array_equal(out, X / 2)


def test_a_fetched_value_is_written(halver):
    _, half = run([halve()], ["out", "half"])
    assert halver.told == [set()]
    np.testing.assert_array_equal(half, X / 2)


def test_a_value_read_by_an_operator_is_written(halver):
    ops = [halve(), ow.Operator("tanh", x="half", out="y")]
    (y,) = run(ops, ["y"])
    assert halver.told == [set()]
    np.testing.assert_allclose(y, np.tanh(X / 2), rtol=1e-6)


def test_equal_operators_have_separate_kernels_if_only_one_intermediate_output_is_read(halver):
    ops = [halve(), halve("x", "out2", "half2", "also2"), ow.Operator("tanh", x="half2", out="y")]
    run(ops, ["out", "out2", "y"])
    assert sorted(halver.told, key=len) == [set(), {"half"}]


def test_a_value_that_stays_in_the_scope_is_written(halver):
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        block = main.global_block()
        for name in ("x", "out", "half", "also"):
            block.create_var(name, [4], persistable=name == "half")
        block.append_op("toy.halve", {"x": "x"}, {name: name for name in ("out", "half", "also")})
    scope = ow.Scope()
    ow.Network(block).compile(feed=["x"], fetch=["out"], scope=scope)(x=X)
    assert halver.told == [set()]
    np.testing.assert_array_equal(scope.find_var("half").numpy(), X / 2)


def test_a_memory_phase_pass_must_not_read_unwritten_values(context, halver, monkeypatch):
    def read_half(graph):
        for op in graph.of_type("tanh"):
            (halved,) = graph.of_type("toy.halve")
            op.inputs = (halved.output("half"),)

    monkeypatch.setattr(context, "settings", Settings(strict=True))
    context.passes.add("toy_pass", phase="memory", function=read_half, package=TOY)
    ops = [halve(), ow.Operator("tanh", x="out", out="y")]
    with pytest.raises(PluginError, match="toy_pass.* tanh reads half"):
        run(ops, ["y"])
