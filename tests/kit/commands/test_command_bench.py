"""``opwright bench`` times kernels in turn and compares them, or reports why they do not run."""

from __future__ import annotations

import json

import numpy as np
import pytest

from opwright import Context, context_guard
from opwright.cli import main
from opwright.errors import OpwrightError
from opwright.op import OpMaker, elementwise_shape, same_shape_as
from opwright.plugin import Package
from opwright_kit.commands.arguments import (
    describe_sample,
    make_sample,
    read_attributes,
    read_shapes,
)
from opwright_kit.commands.timing import KernelTimer, measure_in_turn
from opwright_kit.testing import Sample
from sites import KERNEL_HOOK

ACME = Package("acme", "opwright-acme", "1.0")

RIVALS = """
import numpy as np

def exact(x, out, *, beta):
    np.divide(x, 1 + np.exp(-beta * x), out=out)

def wrong(x, out, *, beta):
    np.copyto(out, x)

def broken(x, out, *, beta):
    raise RuntimeError("no idea")

class Picky:
    @classmethod
    def prepare(cls, ctx):
        ctx.refuse("takes vectors only")
"""


def rivals(*names):
    """Return a hook module with kernels for acme.swish; the first has the highest priority."""
    line = (
        "registry.add('acme.swish', device='cpu', dtypes=['float32'], "
        "kernel='opwright_rival.kernels:{0}', library='{1}', priority={2})\n"
    )
    lines = [line.format(name, name.lower(), 90 - i) for i, name in enumerate(names)]
    return KERNEL_HOOK + "    ".join(lines)


@pytest.fixture
def bench(site):
    """Return a function that runs the command with additional kernels for acme.swish."""

    def run(*names, words=("--feed", "20x30")):
        site.add("acme")
        if names:
            site.add("rival", rivals(*names), modules={"kernels": RIVALS})
        return site.command("bench", "acme.swish", "--rounds", "3", *words)

    return run


def test_every_kernel_is_timed_and_compared_with_the_reference_kernel(bench):
    done = bench("exact")
    assert done.returncode == 0, done.stderr
    title, head, *rows, last = done.stdout.splitlines()
    assert title == "acme.swish[float32] of x float32[20, 30]"
    assert head.split() == [
        *("library", "device", "package", "median", "spread", "of", "fastest", "traffic", "result")
    ]
    assert sorted((row.split()[0], row.split()[-1]) for row in rows) == [
        ("acme", "reference"),
        ("exact", "agrees"),
    ]
    assert last.startswith("3 rounds, the kernels in turn, ")


def test_the_fastest_kernel_comes_first_and_other_kernels_show_their_speed_relative_to_it(bench):
    done = bench("exact", words=("--feed", "x=20x30", "--json"))
    data = json.loads(done.stdout)
    assert (data["op_type"], data["dtype"], data["rounds"]) == ("acme.swish", "float32", 3)
    first, second = data["kernels"]
    assert first["of_fastest"] == 1.0
    assert first["median_s"] <= second["median_s"]
    assert second["of_fastest"] == pytest.approx(first["median_s"] / second["median_s"])
    for kernel in (first, second):
        assert len(kernel["times_s"]) == 3
        assert kernel["repeat"] >= 2
        assert kernel["bytes_per_s"] == pytest.approx(2 * 20 * 30 * 4 / kernel["median_s"])
        assert sorted(kernel["times_s"])[1] == kernel["median_s"]


def test_a_kernel_with_different_results_is_reported(bench):
    done = bench("exact", "wrong")
    assert done.returncode == 1
    assert "wrong[cpu] of opwright-rival 1.0 differs: out[0, 0] is " in done.stdout
    assert " by acme\n" in done.stdout
    assert "exact[cpu]" not in done.stdout


def test_a_kernel_that_refuses_is_reported_with_its_reason(bench):
    done = bench("Picky")
    assert done.returncode == 0
    assert "  picky[cpu] of opwright-rival 1.0 refuses: takes vectors only\n" in done.stdout
    assert done.stdout.splitlines()[2].endswith("alone")


def test_a_failing_kernel_is_reported_and_the_other_kernels_are_timed(bench):
    done = bench("broken")
    assert done.returncode == 1
    assert "  broken[cpu] of opwright-rival 1.0 fails: acme.swish[cpu]: " in done.stdout
    assert "RuntimeError: no idea" in done.stdout
    assert "alone" in done.stdout


def test_a_gradient_operator_is_timed_too(site):
    site.add("acme")
    shapes = ("--feed", "x=4x5", "--feed", "out_grad=4x5")
    done = site.command("bench", "acme.swish_grad", *shapes, "--rounds", "1", "--dtype", "float64")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        "acme.swish_grad[float64] of x float64[4, 5], out_grad float64[4, 5]\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "acme.swish: required inputs need a shape, got none for 'x'; give --feed x=64x10\n"),
        ((), "\n  x: any shape, float\n"),
        (("--feed", "2y3"), "--feed must be NAME=SHAPE, got '2y3'; write x=32x784, 'x=()'"),
        (("--feed", "x=2x3:flot32"), "unknown dtype, got 'flot32'; did you mean 'float32'?"),
        (("--feed", "nx3"), "a shape must be lengths joined by x, got 'nx3'; write 64x10"),
        (("--feed", "z=2"), "acme.swish: unknown input, got 'z'; inputs are 'x'"),
        (("--feed", "2", "--feed", "x=3"), "input 'x' takes one array, got 'x=3' as well"),
        (("--feed", "99999x99999"), "an input must be smaller than 1 GiB, got '99999x99999'"),
        (("--feed", "2", "--attr", "bta=1"), "unknown attribute, got 'bta'; did you mean 'beta'"),
        (("--feed", "2", "--attr", "beta"), "must be given as NAME=VALUE, got 'beta'"),
        (("--feed", "2", "--attr", "beta=two"), "acme.swish: beta must be a float, got 'two'"),
        (("--feed", "2", "--attr", "beta=-1"), "beta must be in (0, inf), got beta=-1.0"),
        (("--feed", "2", "--dtype", "flot32"), "unknown dtype, got 'flot32'; did you mean"),
        (("--feed", "2", "--dtype", "int8"), "acme.swish[cpu, int8]: no kernel registered"),
        (("--feed", "2", "--device", "cuda"), 'to get it: pip install "opwright[cuda]"'),
        (("--feed", "2", "--device", "cpu:1"), "cpu:1: the only host has number 0, got number 1"),
        (("--feed", "2", "--rounds", "0"), "bench: --rounds must be in [1, 1000], got 0"),
        (("--feed", "2", "--threads", "0"), "bench: --threads must be in [1, 1024], got 0"),
        (("--fed", "2"), "bench: unknown argument, got '--fed'; did you mean '--feed'?"),
    ],
)
def test_errors_are_reported_with_a_remedy(acme, capsys, words, message):
    with context_guard(acme):
        assert main(["bench", "acme.swish", *words]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert message in told.err


def test_the_error_for_an_unknown_operator_suggests_the_nearest_name(acme, capsys):
    with context_guard(acme):
        assert main(["bench", "acme.swsh"]) == 2
    assert "did you mean 'acme.swish'?" in capsys.readouterr().err


def make(kernel):
    """Return a context with a one-input operator, and the registry entry of the kernel."""
    context = Context()
    maker = OpMaker("acme.f").add_comment("A function.").add_input("x", "any shape")
    maker.add_output("out", "shape of x").same_dtype_as("x")
    definition = maker.build(infer_shape=same_shape_as("x"))
    context.ops.add("acme.f", definition, ACME)
    context.kernels.add(
        "acme.f", device="cpu", dtypes="*", kernel=kernel, library="acme", package=ACME
    )
    return context, context.kernels.entries("acme.f")[0]


def test_a_measurement_subtracts_the_time_of_a_shorter_plan():
    calls = []

    def kernel(x, out):
        calls.append(x.tolist())
        np.copyto(out, x)

    context, entry = make(kernel)
    sample = Sample("acme.f", {"x": (np.arange(3.0),)}, {}, {"out": 1}, "", "float64")
    timer = KernelTimer(entry, sample, "cpu", 1, context)
    assert timer.repeat >= 2
    calls.clear()
    assert timer.measure() >= 0
    assert calls == [[0.0, 1.0, 2.0]] * (1 + timer.repeat)
    np.testing.assert_array_equal(timer.run.outputs["out"][0], np.arange(3.0))


def test_kernels_alternate_and_each_round_begins_with_a_different_kernel():
    order = []

    class Fake:
        def __init__(self, name):
            self.name = name

        def measure(self):
            order.append(self.name)
            return 1.0

    times = measure_in_turn([Fake("a"), Fake("b"), Fake("c")], 3)
    assert "".join(order) == "abcbcacab"
    assert times == [[1.0] * 3] * 3


def blend():
    return (
        OpMaker("acme.blend")
        .add_comment("All kinds of arguments.")
        .add_input("x", "float arrays")
        .as_duplicable()
        .dtypes("float32", "float64")
        .add_input("label", "class ids")
        .dtypes("float32", "int64", "int32")
        .add_input("mask", "shape of x")
        .dtypes("bool")
        .as_optional()
        .add_input("like", "shape of x")
        .same_dtype_as("label")
        .as_optional()
        .add_output("out", "the broadcast shape")
        .same_dtype_as("x")
        .add_attr("sizes", list[int], "numbers")
        .default([1])
        .add_attr("mode", str, "how")
        .one_of("soft", "hard")
        .default("soft")
        .add_attr("exact", bool, "or not")
        .default(False)
        .build(infer_shape=elementwise_shape("label"))
    )


def test_shapes_dtypes_and_attributes_are_parsed_from_command_line_words():
    definition = blend()
    shapes = read_shapes(
        ["x=2x3", "x=2,3", "label=4x2:int32", "mask=()", "like=7"], definition.proto
    )
    attrs = read_attributes(["sizes=[3, 4]", "mode=hard", "exact=True"], definition.proto)
    assert attrs == {"sizes": (3, 4), "mode": "hard", "exact": True}
    sample = make_sample(definition, shapes, attrs, "float64")
    described = describe_sample(sample, definition.proto)
    assert described == (
        "x float64[2, 3], x float64[2, 3], label int32[4, 2], mask bool[], like float32[7], "
        "sizes=[3, 4], mode='hard', exact=True"
    )


def test_random_integers_are_below_the_length_of_the_shortest_axis():
    definition = blend()
    shapes = read_shapes(["x=20x3", "label=50:int64"], definition.proto)
    sample = make_sample(definition, shapes, read_attributes([], definition.proto), "float32")
    (label,) = sample.inputs["label"]
    assert set(label.tolist()) == {0, 1, 2}
    assert all(0.1 <= value < 1 for value in sample.inputs["x"][0].ravel())


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("sizes=1,b", "acme.blend: sizes must be a list of ints, got '1,b'; write 1,2"),
        ("exact=yes", "acme.blend: exact must be a bool, got 'yes'; write true or false"),
        ("mode=sof", "mode must be one of 'soft', 'hard', got mode='sof'; did you mean 'soft'?"),
    ],
)
def test_a_value_of_a_wrong_type_is_refused(word, message):
    with pytest.raises(OpwrightError) as caught:
        read_attributes([word], blend().proto)
    assert message in str(caught.value)


def test_an_unnamed_shape_is_refused_if_several_inputs_need_a_shape():
    with pytest.raises(OpwrightError, match="must name its input, got '3'; write --feed"):
        read_shapes(["3"], blend().proto)
