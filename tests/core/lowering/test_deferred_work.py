"""Work deferred in ``prepare`` is done in one call for all kernels of a plan."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright.errors import KernelError
from opwright.kernel import PrepareContext

from .toy_graphs import TOY, make_toy

X = np.arange(4, dtype=np.float32)


class Factory:
    """The entry point of kernels whose scale factor is created in deferred work."""

    def __init__(self):
        self.made = set()
        self.batches = []
        self.prepared = []
        self.broken = set()

    def make(self, factors):
        self.batches.append(list(factors))
        self.made |= set(factors) - self.broken

    def prepare(self, ctx):
        factor = ctx.attrs["factor"]
        self.prepared.append(factor)
        if factor == 13.0:
            ctx.refuse("thirteen")
        if factor not in self.made and ctx.defer(self.make, factor):
            return lambda x, out: pytest.fail("a kernel returned before deferred work must not run")
        if factor in self.broken:
            raise KernelError(f"factor {factor} cannot be created")
        return lambda x, out: np.multiply(x, factor, out=out)


@pytest.fixture
def factory(context):
    made = Factory()
    context.ops.add("toy.scale", make_toy("toy.scale", ["x"]), TOY)
    context.kernels.add(
        "toy.scale", device="cpu", dtypes=["float32"], kernel=made, library="slow", package=TOY
    )
    ow.set_num_threads(1)  # with more threads, short plans are also prepared for one thread
    return made


def run(*factors, **options):
    """Run a chain of ``toy.scale`` operators with these factors."""
    ops = [
        ow.Operator("toy.scale", x=f"x{i}" if i else "x", out=f"x{i + 1}", factor=factor)
        for i, factor in enumerate(factors)
    ]
    call = ow.Network(ops).compile(feed=["x"], fetch=[f"x{len(ops)}"], **options)
    return call(x=X)[0]


def test_one_call_does_the_deferred_work_of_all_kernels_in_a_plan(factory):
    np.testing.assert_array_equal(run(2.0, 3.0, 2.0), X * 12)
    assert factory.batches == [[2.0, 3.0]]


def test_a_later_plan_reuses_prepared_kernels(factory):
    run(2.0, 3.0)
    n = len(factory.prepared)
    np.testing.assert_array_equal(run(3.0, 2.0), X * 6)
    assert (len(factory.prepared), len(factory.batches)) == (n, 1)


def test_a_later_plan_compiles_only_new_kernels(factory):
    run(2.0, 3.0)
    np.testing.assert_array_equal(run(3.0, 5.0), X * 15)
    assert factory.batches == [[2.0, 3.0], [5.0]]


def test_deferred_work_is_skipped_for_kernels_that_a_pass_only_queried(factory, context):
    def ask_only(graph):
        for op in graph.of_type("toy.scale"):
            (x,), (y,) = op.inputs[0], op.outputs[0]
            outs = {"out": graph.value("other", y.meta)}
            other = graph.make("toy.scale", {"x": x}, outs, {"factor": 7.0}, like=op)
            assert graph.has_kernel(other)
        return False

    context.passes.add("ask_only", phase="fuse", function=ask_only, package=TOY)
    run(2.0)
    assert 7.0 in factory.prepared
    assert factory.batches == [[2.0]]


def test_a_plan_that_fails_to_lower_does_not_start_deferred_work(factory):
    with pytest.raises(LookupError, match="thirteen"):
        run(2.0, 13.0)
    assert factory.batches == []


def test_an_error_in_deferred_work_names_the_operator(factory):
    factory.broken = {3.0}
    for _ in range(2):
        with pytest.raises(
            KernelError,
            match=r"toy\.scale\[cpu, float32, slow\] of .*: prepare failed for operator 1, got "
            r"factor 3\.0 cannot be created; call ctx\.refuse\(reason\) to decline",
        ):
            run(2.0, 3.0, 5.0)
    assert factory.batches == [[2.0, 3.0, 5.0], [3.0]]
    factory.broken = set()
    np.testing.assert_array_equal(run(2.0, 3.0, 5.0), X * 30)


def test_a_kernel_that_refuses_only_after_its_deferred_work_raises(context):
    class Fickle:
        @staticmethod
        def prepare(ctx):
            if not ctx.defer(lambda works: None, None):
                ctx.refuse("no more")
            return lambda x, out: None

    context.ops.add("toy.scale", make_toy("toy.scale", ["x"]), TOY)
    context.kernels.add(
        "toy.scale", device="cpu", dtypes=["float32"], kernel=Fickle, library="slow", package=TOY
    )
    with pytest.raises(
        KernelError,
        match="prepare must not change its decision for operator 0 after its deferred work, got "
        "refused: no more; call ctx.defer after all decisions",
    ):
        run(2.0)


def test_defer_has_no_effect_outside_lowering(factory):
    ctx = PrepareContext("toy.scale", {}, {}, {"factor": 2.0})
    assert factory.prepare(ctx)(X, np.empty_like(X)) is not None
    assert factory.batches == []
