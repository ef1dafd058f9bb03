"""Memory copies in a plan write exactly the requested bytes; copies in place are skipped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright.kernel import PrepareContext
from opwright.op import NoGradient, OpMaker
from opwright.packages import Package
from opwright_cuda import Kernel, LaunchPlan
from opwright_cuda.launch import Pointer, copying
from opwright_kit.testing import Sample, run_kernel

ACME = Package("acme", "opwright-acme", "1.0")


def part_copying(begin: int, to: int, n_bytes: int) -> ow.Context:
    """Return a context with an operator that copies bytes of x into zeros."""

    def fill_in(ctx: PrepareContext, plan: LaunchPlan) -> None:
        out = plan.output("out")
        plan.fill(out, ctx.inputs["x"][0].shape[0])
        plan.copy(out + to, plan.input("x") + begin, n_bytes)

    definition = (
        OpMaker("acme.copy_part")
        .add_comment("Copy a part of x.")
        .add_input("x", "uint8 [n]")
        .add_output("out", "uint8 [n]")
        .same_dtype_as("x")
        .build(
            infer_shape=lambda ctx: ctx.set_output("out", ctx.input("x").shape),
            gradient=NoGradient("bytes have none"),
        )
    )
    context = ow.Context.discover()
    context.ops.add("acme.copy_part", definition, ACME)
    context.kernels.add(
        "acme.copy_part", device="cuda", dtypes=["uint8"], kernel=Kernel(fill_in),
        library="acme", package=ACME,
    )  # fmt: skip
    return context


@pytest.mark.cuda_kernels
@pytest.mark.parametrize("many", [1, 2**20], ids=["several-units", "one-unit"])
@pytest.mark.parametrize(
    ("begin", "to", "n_bytes"),
    [
        (0, 0, 1),
        (0, 0, 15),
        (0, 0, 16),
        (0, 0, 17 * 1024 + 5),
        (16, 32, 4096 * 4),
        (8, 0, 4099 * 3),
        (4, 12, 1024),
        (2, 0, 513),
        (3, 1, 700),
    ],
)
def test_a_copy_writes_exactly_the_bytes_of_the_slice(
    begin: int, to: int, n_bytes: int, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "MANY_UNITS", many)
    x = np.arange(n_bytes + 64, dtype=np.uint32).astype(np.uint8) | np.uint8(1)
    wanted = np.zeros_like(x)
    wanted[to : to + n_bytes] = x[begin : begin + n_bytes]
    context = part_copying(begin, to, n_bytes)
    with ow.context_guard(context):
        network = ow.Network([ow.Operator("acme.copy_part", x="x", out="out")])
        call = network.compile(feed=["x"], fetch=["out"], device="cuda", scope=ow.Scope())
        (out,) = call(x=x)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize(
    ("offsets", "n_bytes", "expression", "grid"),
    [
        ((0, 0), 2**24 + 1, "copy_memory<Vector<uint64_t, 2>, 4>", 1024),
        ((0, 0), 2**24 - 1, "copy_memory<Vector<uint64_t, 2>, 1>", 4096),
        ((0, 8), 2**23 + 9, "copy_memory<uint64_t, 4>", 1025),
        ((6, 16), 100, "copy_memory<uint16_t, 1>", 1),
        ((0, 0), 3, "copy_memory<Vector<uint64_t, 2>, 1>", 1),
    ],
)
def test_copy_units_are_the_largest_that_both_alignments_allow(
    offsets: tuple[int, int], n_bytes: int, expression: str, grid: int
) -> None:
    described = copying.describe_copy(Pointer(0, offsets[0]), Pointer(1, offsets[1]), n_bytes)
    assert (described.expression, described.grid) == (expression, grid)


@pytest.mark.parametrize(("reuse", "n_launches"), [([], 1), ([("out", "x")], 0)])
def test_a_copy_in_place_does_not_launch_a_kernel(
    reuse: list[tuple[str, str]], n_launches: int, gpu: Any
) -> None:
    if gpu is None:
        pytest.skip("the driver of a GPU does not count launches")
    entries = ow.current_context().kernels.entries("assign")
    entry = next(e for e in entries if e.device == "cuda")
    x = np.arange(40, dtype=np.float32)
    before = gpu.count("launches")
    done = run_kernel(entry, Sample("assign", {"x": (x,)}, {}), reuse=reuse)
    assert gpu.count("launches") - before == n_launches
    assert not done.broken_guards
    np.testing.assert_array_equal(done.outputs["out"][0], x)
