"""run_kernel runs a kernel on memory of the kit; it detects stray writes and unwritten elements."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright import Context
from opwright.errors import KernelError
from opwright.kernel import KernelEntry, Refuse
from opwright.op import NoGradient, OpMaker, same_shape_as
from opwright.plugin import Package
from opwright_kit.testing import Launch, Sample, run_kernel

ACME = Package("acme", "opwright-acme", "1.0")
X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


def entry_of(op_type: str, library: str, dtype: str = "float32") -> KernelEntry:
    entries = ow.current_context().kernels.entries(op_type)
    return next(e for e in entries if e.library == library and e.dtype in (dtype, "*"))


def make(kernel: Any, **options: Any) -> tuple[Context, KernelEntry]:
    """Return a context with an operator that has one input and this kernel."""
    context = Context.discover()
    definition = (
        OpMaker("acme.copy")
        .add_comment("Copy, out = x.")
        .add_input("x", "any shape")
        .add_output("out", "shape and dtype of x")
        .same_dtype_as("x")
        .build(infer_shape=same_shape_as("x"), gradient=NoGradient("it is only run"))
    )
    context.ops.add("acme.copy", definition, ACME)
    context.kernels.add(
        "acme.copy",
        device="cpu",
        dtypes="*",
        kernel=kernel,
        library="acme",
        package=ACME,
        **options,
    )
    return context, context.kernels.entries("acme.copy")[0]


def copy(x: Any, out: Any) -> None:
    np.copyto(out, x)


@pytest.mark.parametrize("library", ["numpy", "native"])
def test_python_kernels_and_compiled_kernels_give_the_same_results(library: str) -> None:
    y = np.array([10, 20, 30], np.float32)
    run = run_kernel(entry_of("add", library), Sample("add", {"x": (X,), "y": (y,)}, {}))
    np.testing.assert_array_equal(run.outputs["out"][0], X + y)
    assert (run.changed, run.broken_guards) == ((), ())
    assert not run.untouched["out"][0].any()


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,), (2, 3)])
def test_arrays_of_any_shape_are_passed_and_read_back(shape: tuple[int, ...]) -> None:
    context, entry = make(copy)
    x = np.arange(np.prod(shape, dtype=int), dtype=np.int16).reshape(shape)
    run = run_kernel(entry, Sample("acme.copy", {"x": (x,)}, {}), context=context)
    np.testing.assert_array_equal(run.outputs["out"][0], x)
    assert run.outputs["out"][0].shape == shape


def test_an_in_place_output_shares_the_memory_of_its_input() -> None:
    rate = np.array([0.5], np.float32)
    sample = Sample(
        "sgd", {"param": (X,), "grad": (X,), "learning_rate": (rate,)}, {"weight_decay": 0.0}
    )
    run = run_kernel(entry_of("sgd", "numpy"), sample)
    np.testing.assert_array_equal(run.outputs["param_out"][0], X / 2)
    np.testing.assert_array_equal(run.inputs["param"][0], X / 2)
    assert run.changed == ()


def test_an_output_can_share_the_memory_of_an_input() -> None:
    run = run_kernel(
        entry_of("relu", "numpy"), Sample("relu", {"x": (X,)}, {}), reuse=[("out", "x")]
    )
    np.testing.assert_array_equal(run.inputs["x"][0], np.maximum(X, 0))
    assert run.changed == ()


def test_an_output_whose_shape_the_kernel_determines_is_read_in_that_shape() -> None:
    run = run_kernel(entry_of("nonzero", "numpy"), Sample("nonzero", {"x": (X > 2,)}, {}))
    np.testing.assert_array_equal(run.outputs["out"][0], np.nonzero(X > 2))


def test_a_write_outside_an_array_is_reported_with_the_nearest_array() -> None:
    def overrun(x: Any, out: Any) -> None:
        np.copyto(out, x)
        ctypes.memset(out.ctypes.data + out.nbytes, 0, 3)
        ctypes.memset(x.ctypes.data - 2, 0, 2)

    context, entry = make(overrun)
    run = run_kernel(entry, Sample("acme.copy", {"x": (X,)}, {}), context=context)
    assert set(run.broken_guards) == {"2 bytes before x", "3 bytes behind out"}


def test_a_written_input_is_reported() -> None:
    def destroy(x: Any, out: Any) -> None:
        np.copyto(out, x)
        ctypes.memset(x.ctypes.data, 0, 4)

    context, entry = make(destroy)
    assert run_kernel(entry, Sample("acme.copy", {"x": (X,)}, {}), context=context).changed == (
        "x",
    )


def test_unwritten_elements_are_detected_for_both_poison_values() -> None:
    def forget_last(x: Any, out: Any) -> None:
        out[:, :-1] = x[:, :-1]

    context, entry = make(forget_last)
    launch = Launch(entry, Sample("acme.copy", {"x": (X,)}, {}), context=context)
    for poison in (0xFF, 0x5A):
        np.testing.assert_array_equal(
            launch.run(poison).untouched["out"][0], [[False, False, True]] * 2
        )


def test_kernels_that_support_strides_receive_strided_inputs() -> None:
    seen = []

    def look(x: Any, out: Any) -> None:
        seen.append(x.strides)
        np.copyto(out, x)

    context, entry = make(look, strided=True)
    sample = Sample("acme.copy", {"x": (X,)}, {})
    run = run_kernel(entry, sample, context=context, strided=True)
    np.testing.assert_array_equal(run.outputs["out"][0], X)
    assert seen == [(24, 8)]


def test_a_parameter_is_packed_once_and_repacked_after_it_was_set() -> None:
    packed = []

    class Packing:
        @classmethod
        def prepare(cls, ctx: Any) -> Any:
            ctx.pack("x", cls.double)
            return cls()

        @staticmethod
        def double(x: Any) -> Any:
            packed.append(x.tolist())
            return x * 2

        def __call__(self, x: Any, out: Any) -> None:
            np.copyto(out, x)

    context, entry = make(Packing)
    launch = Launch(entry, Sample("acme.copy", {"x": (X,)}, {}), context=context, packed=True)
    launch.run()
    np.testing.assert_array_equal(launch.run().outputs["out"][0], X * 2)
    assert packed == [X.tolist()]
    run = launch.run(inputs={"x": (-X,)})
    np.testing.assert_array_equal(run.outputs["out"][0], -X * 2)
    assert packed == [X.tolist(), (-X).tolist()]
    assert launch.packed == ("x",)
    assert run.changed == ()


def test_a_kernel_without_packing_refuses_to_run_packed() -> None:
    context, entry = make(copy)
    with pytest.raises(Refuse, match="packs none of these inputs"):
        run_kernel(entry, Sample("acme.copy", {"x": (X,)}, {}), context=context, packed=True)


def test_a_refusal_is_raised_with_its_reason() -> None:
    class Never:
        @classmethod
        def prepare(cls, ctx: Any) -> Any:
            ctx.refuse("not today")

    context, entry = make(Never)
    with pytest.raises(Refuse, match="not today"):
        run_kernel(entry, Sample("acme.copy", {"x": (X,)}, {}), context=context)


def test_a_kernel_that_fails_raises_an_error_that_names_it() -> None:
    def fail(x: Any, out: Any) -> None:
        raise ValueError("broken")

    context, entry = make(fail)
    with pytest.raises(KernelError, match="'acme' of opwright-acme 1.0.*ValueError: broken"):
        run_kernel(entry, Sample("acme.copy", {"x": (X,)}, {}), context=context)


def test_a_kernel_runs_the_requested_number_of_times_in_one_plan() -> None:
    calls = []

    def count(x: Any, out: Any) -> None:
        calls.append(1)
        np.copyto(out, x)

    context, entry = make(count)
    Launch(entry, Sample("acme.copy", {"x": (X,)}, {}), context=context, repeat=5).run()
    assert len(calls) == 5
