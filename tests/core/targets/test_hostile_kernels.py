"""The error for a compiled kernel that breaks the rules names the kernel and its package."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import opwright as ow
from opwright import _runtime
from opwright.discovery.discover import Settings
from opwright.errors import KernelError, KernelNotFoundError, PluginError, ShapeError

X = np.array([1.0, 2.5, -3.0])
WHO = r"acme.scale\[cpu, float64, acme\] of opwright-acme 1.0: prepare failed for operator 0, "
RAN = r"acme.scale\[cpu\]: operator 0 failed in its kernel 'acme' of opwright-acme 1.0, got "
BROKEN_BYTES = "\N{REPLACEMENT CHARACTER}"
TWO_RUNS = """
import numpy, opwright
network = opwright.Network([opwright.Operator("acme.scale", x="x", out="y", fault="FAULT")])
run = network.compile(feed=["x"], fetch=["y"])
for _ in range(2):
    print(run(x=numpy.array([1.0, 2.5, -3.0]))[0])
"""


@pytest.fixture
def hostile(acme, compiler, table):
    """A plugin whose kernels break the rule named by the attribute `fault`."""
    extra = '    registry.add("nonzero", device="cpu", dtypes=["float64"], kernel=LIBRARY)\n'
    library = compiler.build("hostile.c")
    acme.use(library, table + extra)
    return acme


@pytest.fixture
def checked(hostile, monkeypatch):
    """Makes new plans check the behavior of kernels."""
    monkeypatch.setattr(ow.current_context(), "settings", Settings(checked=True))


def compile_scale(fault, parameter=False):
    """Compile one acme.scale, applied to a feed or to a variable that the kernel may pack."""
    program = ow.Program()
    with ow.program_guard(program, ow.Program()):
        block = program.global_block()
        x = block.create_var("x", shape=[3], dtype="float64", persistable=parameter)
        y = ow.ops.acme.scale(x, fault=fault)
    scope = ow.Scope()
    scope.var("x").set(X)
    network = ow.Network(block)
    return network.compile(feed=[] if parameter else ["x"], fetch=[y.name], scope=scope)


# -- requests of prepare -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("workspace", "prepare may request at most 140737488355328 bytes .* got 9223372036854775"),
        ("n_packs", "n_packs must be at most 2, got 1000"),
        ("pack_bytes", "a packed copy must have 1 to .* got 9223372036854775808 bytes aligned"),
        ("pack_alignment", "a packed copy must .* aligned to a power of two .* aligned to 48"),
        ("pack_twice", "prepare may request a pack once per packable argument.* argument 0 twice"),
        ("pack_other", "prepare may request a pack once per packable argument.* got argument 1"),
    ],
)
def test_the_error_for_invalid_requests_of_prepare_names_the_plugin(hostile, fault, text):
    run = compile_scale(fault, parameter=True)
    library = ctypes.CDLL(str(hostile.site / "opwright_acme" / "libacme.so"))
    before = library.count_states()
    with pytest.raises(KernelError, match=WHO + "got acme.scale: " + text):
        run()
    _runtime.free_retired()
    assert library.count_states() == before  # its objects are released


def test_an_invalid_estimate_counts_as_a_long_duration(hostile):
    np.testing.assert_array_equal(compile_scale("estimate")(x=X)[0], 2 * X)


def test_changes_that_prepare_makes_to_its_arguments_are_discarded(hostile):
    np.testing.assert_array_equal(ow.ops.acme.scale(X, fault="prepare_shape"), 2 * X)
    with pytest.raises(KernelError, match="a packed copy must have 1 to .* got 0 bytes"):
        compile_scale("pack_frame", parameter=True)()


def test_a_kernel_unsupported_by_the_machine_is_skipped_with_the_reason(
    acme, compiler, table, slower_kernel
):
    acme.use(compiler.build("hostile.c"), table + slower_kernel)
    acme.add_module("slow", "def scale(x, out, *, factor, fault):\n    out[...] = 10 * x\n")
    np.testing.assert_array_equal(ow.ops.acme.scale(X, fault="unsupported"), 10 * X)
    lack = "refused: this machine lacks what the kernel needs: no AVX-999 here"
    network = ow.Network([ow.Operator("acme.scale", x="x", out="y", fault="unsupported")])
    network.compile(feed=["x"], fetch=["y"])(x=X)
    assert lack in str(network.placement())


def test_without_another_kernel_the_error_names_the_missing_feature(hostile):
    text = "1.0 refused: this machine lacks what the kernel needs: no AVX-999 here"
    with pytest.raises(KernelNotFoundError, match=text):
        ow.ops.acme.scale(X, fault="unsupported")


# -- texts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["prepare_bytes", "run_bytes"])
def test_a_message_that_is_unterminated_and_not_utf8_is_shown(hostile, fault):
    who = WHO if fault == "prepare_bytes" else RAN
    with pytest.raises(KernelError, match=f"{who}.*{BROKEN_BYTES}"):
        ow.ops.acme.scale(X, fault=fault)


def test_a_shape_rule_message_that_is_unterminated_and_not_utf8_is_shown(hostile):
    with pytest.raises(ShapeError, match=f"^acme.scale: {BROKEN_BYTES}"):
        ow.ops.acme.scale(X, fault="infer_bytes")


# -- shape rules -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("infer_bits", "a dtype must be one of opwright's, .* code 2 with 33 bits and 1 lanes"),
        ("infer_lanes", "a dtype must be one of opwright's, .* code 2 with 64 bits and 4 lanes"),
        ("infer_rank", "a rank must be in 0 to 64, got 65"),
        ("infer_null", "shape must be set, got NULL for rank 1"),
        ("infer_slot", "got output 0 of slot 7, which is not wanted"),
        ("infer_negative", r"dimensions must be at least 0, or -1 where unknown, got \(-5,\)"),
    ],
)
def test_the_error_names_a_shape_rule_that_ignores_a_failed_set_output(hostile, fault, text):
    label = r"; it is the shape rule of library 'opwright_acme/libacme.so' of opwright-acme 1.0"
    with pytest.raises(PluginError, match=f"acme.scale: set_output: {text}.*{label}"):
        ow.ops.acme.scale(X, fault=fault)


def test_a_shape_rule_that_sets_a_shape_larger_than_any_memory_raises(hostile):
    with pytest.raises(ShapeError, match="acme.scale: set_output: the size in bytes must fit"):
        ow.ops.acme.scale(X, fault="infer_endless")


# -- shapes that a kernel writes -------------------------------------------------------------------


def test_a_kernel_that_writes_a_shape_in_bind_raises(hostile):
    text = "failed in the bind of its kernel 'acme' of .*another shape, .1099511627776,. for .3,."
    for _ in range(2):
        with pytest.raises(KernelError, match=text):
            ow.ops.acme.scale(X, fault="bind_shape")


@pytest.mark.parametrize("fault", ["run_shape", "run_rank"])
def test_a_kernel_that_writes_a_shape_does_not_change_the_shape_in_the_host(hostile, fault):
    """The test runs in a separate process, which crashes if the host trusts the written shape."""
    text = hostile.python(TWO_RUNS.replace("FAULT", fault))
    assert text == "[ 2.  5. -6.]\n[ 2.  5. -6.]\n"


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("run_shape", r"another shape, \(1099511627776,\) for \(3,\), in output 0; write only"),
        ("run_rank", "another field in output 0; write only where data points"),
        ("run_data", "another field in input 0; write only where data points"),
    ],
)
def test_a_checked_process_names_the_kernel_that_writes_a_shape(hostile, checked, fault, text):
    rule = "a kernel must not change the tensors of its arguments, got "
    for _ in range(2):  # the tensors are restored after an error
        with pytest.raises(KernelError, match=RAN + rule + text):
            ow.ops.acme.scale(X, fault=fault)
    np.testing.assert_array_equal(ow.ops.acme.scale(X), 2 * X)


# -- outputs that a kernel does not write ----------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "text"),
    [("leaves", "got 3 of 3 of output 0 left .* the first at 0"), ("leaves_last", "got 1 of 3 of")],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_checked_process_names_the_kernel_that_leaves_an_output_unwritten(
    hostile, checked, fault, text, dtype
):
    with pytest.raises(KernelError, match=RAN + "every element of an output must be .*" + text):
        ow.ops.acme.scale(X.astype(dtype), fault=fault)


def test_a_checked_process_returns_the_same_results_as_an_unchecked_process(hostile, checked):
    for shape in [(), (0,), (1,), (2, 3)]:
        x = np.full(shape, np.nan)
        np.testing.assert_array_equal(ow.ops.acme.scale(x), x)


# -- resize ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (1, "resize: the shape must fit .1, -1., got NULL"),
        (2, "resize: the size in bytes must fit in 64 bits, got shape"),
        (3, "resize: the shape must fit .1, -1., got rank -1"),
    ],
)
def test_a_resize_to_an_invalid_shape_raises(hostile, length, text):
    with pytest.raises(KernelError, match=f"operator 0 failed in its kernel 'acme' .*{text}"):
        ow.ops.nonzero(np.ones(length))


def test_a_resized_output_is_read_with_its_new_shape(hostile):
    np.testing.assert_array_equal(ow.ops.nonzero(np.ones(5)), [[0, 1, 2, 3]])


def test_a_checked_process_also_checks_resized_outputs(hostile, checked):
    with pytest.raises(KernelError, match="got 4 of 4 of output 0 left unwritten"):
        ow.ops.nonzero(np.ones(4))
    with pytest.raises(KernelError, match=r"another shape, \(1, 1099511627776\) for \(1, 4\)"):
        ow.ops.nonzero(np.ones(5))
