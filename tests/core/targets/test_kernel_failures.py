"""If a compiled kernel refuses, fails or throws, an error that names the kernel is raised."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
from opwright.errors import KernelError, KernelNotFoundError, OutOfMemoryError

X = np.array([1.0, 2.5, -3.0])


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("prepare", "acme.scale: prepare failed with status 1: prepare went wrong; return OW_REF"),
        (
            "bind",
            "operator 0 failed in the bind of its kernel 'acme' of .*1.0, got bind went wrong",
        ),
        ("run", r"acme.scale\[cpu\]: operator 0 failed .*opwright-acme 1.0, got run went wrong"),
        ("silent", r"acme.scale\[cpu\]: operator 0 failed .* got failed with status 77"),
    ],
)
def test_the_error_for_a_failure_names_the_location_and_the_reason(
    acme, plain_library, fault, text
):
    acme.use(plain_library)
    for _ in range(2):  # a failure does not affect later calls
        with pytest.raises(KernelError, match=text):
            ow.ops.acme.scale(X, fault=fault)
    np.testing.assert_array_equal(ow.ops.acme.scale(X), 2 * X)


def test_a_refusal_is_reported_with_its_reason(acme, plain_library):
    acme.use(plain_library)
    text = r"every kernel refused\n  acme of opwright-acme 1.0 refused: not in the mood"
    with pytest.raises(KernelNotFoundError, match=text):
        ow.ops.acme.scale(X, fault="refuse")


def test_prepare_can_run_out_of_memory(acme, plain_library):
    acme.use(plain_library)
    text = r"acme.scale\[cpu, float64, acme\] of opwright-acme 1.0: prepare failed for operator 0"
    with pytest.raises(OutOfMemoryError, match=text):
        ow.ops.acme.scale(X, fault="memory")


@pytest.mark.parametrize("where", ["prepare", "bind", "run"])
def test_an_exception_raised_by_a_plugin_becomes_a_kernel_error(acme, compiler, where):
    acme.use(compiler.build("throwing.cc"))
    text = f"acme.scale.*threw an exception, which plugins must not do: {where} threw"
    for _ in range(2):
        with pytest.raises(KernelError, match=text):
            ow.ops.acme.scale(X, fault=f"throw_{where}")
    np.testing.assert_array_equal(ow.ops.acme.scale(X), 2 * X)


def test_after_a_refusal_the_next_candidate_is_used(acme, plain_library, table, slower_kernel):
    acme.use(plain_library, table + slower_kernel)
    acme.add_module("slow", "def scale(x, out, *, factor, fault):\n    out[...] = 10 * x\n")
    np.testing.assert_array_equal(ow.ops.acme.scale(X, fault="refuse"), 10 * X)
    np.testing.assert_array_equal(ow.ops.acme.scale(X), 2 * X)


def test_running_out_of_memory_raises_and_no_other_kernel_is_tried(
    acme, plain_library, table, slower_kernel
):
    acme.use(plain_library, table + slower_kernel)
    acme.add_module("slow", "def scale(x, out, *, factor, fault):\n    out[...] = 10 * x\n")
    for _ in range(2):
        with pytest.raises(OutOfMemoryError, match=r"acme\.scale.*prepare failed"):
            ow.ops.acme.scale(X, fault="memory")
    np.testing.assert_array_equal(ow.ops.acme.scale(X), 2 * X)


@pytest.mark.parametrize(("persistable", "flags"), [(False, "0 0"), (True, "1 0")])
def test_prepare_can_query_which_inputs_can_be_packed(acme, plain_library, persistable, flags):
    acme.use(plain_library)
    program = ow.Program()
    with ow.program_guard(program, ow.Program()):
        block = program.global_block()
        x = block.create_var("x", shape=[3], dtype="float64", persistable=persistable)
        y = ow.ops.acme.scale(x, fault="flags")
    scope = ow.Scope()
    scope.var("x").set(X)
    network = ow.Network(block)
    run = network.compile(feed=[] if persistable else ["x"], fetch=[y.name], scope=scope)
    with pytest.raises(KernelNotFoundError, match=f"opwright-acme 1.0 refused: {flags} "):
        run() if persistable else run(x=X)


def test_prepare_can_query_the_shapes_of_its_inputs(acme, plain_library):
    acme.use(plain_library)
    operator = ow.Operator(
        "acme.scale_grad", x="x", out_grad="out_grad", x_grad="x_grad", fault="flags"
    )
    run = ow.Network([operator]).compile(feed=["x", "out_grad"], fetch=["x_grad"])
    with pytest.raises(KernelNotFoundError, match="opwright-acme 1.0 refused: 2 0 0 "):
        run(x=X, out_grad=X)
