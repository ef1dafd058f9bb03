"""Kernels and shape rules in C++, which a host in Python calls through the plugin table."""

from __future__ import annotations

import ctypes as c

import numpy as np
import pytest
from abi_tables import (
    CAPTURABLE,
    ERROR,
    NONDETERMINISTIC,
    OUT_OF_MEMORY,
    PACKABLE,
    REFUSED,
    STRIDED,
    UNREAD,
)
from plugin_host import FailedError, Library, Step

ATTRS = {
    "count": 5,
    "small": -7,
    "rate": 0.5,
    "exact": 1e300,
    "flag": True,
    "mode": "fast",
    "dtype": "float32",
    "sizes": [1, 2],
    "weights": [0.5, 0.25],
    "names": ["a", "b", "c"],
    "switches": [True, False, True],
    "none": [],
}
X = np.arange(6, dtype=np.float32).reshape(3, 2)


@pytest.fixture(scope="module")
def features(compiler):
    return Library(compiler.build("features.cc"))


# -- attributes ------------------------------------------------------------------------------------


def echo(features, attrs):
    out = np.zeros(9)
    inputs = [np.zeros(1), np.zeros(1), None]
    kernel = features.kernel("test.everything", "float64")
    step = Step(features, kernel, inputs, [out, None, None], attrs)
    step.run()
    step.close()
    return out


def test_attributes_reach_the_fields_of_the_struct(features):
    assert echo(features, ATTRS).tolist() == [5, -7, 0.5, 1e300, 1, 34, 2003.75, -1, 99]


def test_optional_fields_receive_their_values(features):
    given = echo(features, ATTRS | {"maybe": 0.75, "maybe_sizes": [1, 2, 2]})
    assert given[7:].tolist() == [0.75, 3]


def test_an_attribute_of_a_later_version_is_ignored(features):
    assert echo(features, ATTRS | {"unheard_of": 1})[0] == 5


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("count", None, "attribute 'count' must be given, got none"),
        ("count", 1.0, "attribute 'count' must be int, got float"),
        ("rate", 1, "attribute 'rate' must be float, got int"),
        ("sizes", [1.5], "attribute 'sizes' must be list[int], got list[float]"),
        ("sizes", 1, "attribute 'sizes' must be list[int], got int"),
        ("maybe", "x", "attribute 'maybe' must be float, got str"),
        ("small", 2**31, "attribute 'small' must fit the 32 bits of its field, got 2147483648"),
        ("none", [2**40], "attribute 'none' must fit the 32 bits of its field, got 1099511627776"),
        ("rate", 1e39, "attribute 'rate' must fit the 32 bits of its field, got 1e+39"),
    ],
)
def test_an_attribute_that_does_not_match_its_field_raises(features, name, value, message):
    attrs = {key: item for key, item in (ATTRS | {name: value}).items() if item is not None}
    with pytest.raises(FailedError) as caught:
        echo(features, attrs)
    assert (caught.value.code, caught.value.message) == (ERROR, message)


# -- shape rules -----------------------------------------------------------------------------------


def test_a_shape_rule_reads_typed_attributes(features):
    inputs = [((2,), "float32"), ((2,), "float32"), ((2,), "float32")]
    assert features.infer("test.everything", inputs, ATTRS | {"small": 0}) == {(0, 0): ((5, 0), 64)}


def test_a_negative_dimension_raises(features):
    inputs = [((2,), "float32"), ((2,), "float32"), ((2,), "float32")]
    with pytest.raises(FailedError) as caught:
        features.infer("test.everything", inputs, ATTRS)
    assert caught.value.message == (
        "a dimension must be at least 0, or -1 where it is unknown, got [5, -7] for output 0"
    )


def test_unknown_dimensions_pass_through_a_shape_rule(features):
    got = features.infer("test.unary", [((-1, 3), "float32"), ((), "float32")], {"mode": ""})
    assert got == {(0, 0): ((-1, 3), 0)}


def test_a_shape_rule_returns_an_error_if_the_host_refuses_a_shape(features):
    features.set_output_answer = ERROR
    try:
        with pytest.raises(FailedError, match="^1: "):
            features.infer("test.unary", [((1,), "float32"), ((), "float32")], {"mode": ""})
    finally:
        features.set_output_answer = 0


# -- prepare, bind, pack, run ----------------------------------------------------------------------


def staged(features, mode="", y=None, flags=None):
    out = np.zeros_like(X)
    kernel = features.kernel("test.unary", "float32")
    return Step(features, kernel, [X, y], [out], {"mode": mode}, flags), out


def test_the_table_contains_the_options_of_a_kernel(features):
    row = features.kernel("test.unary", "float32")
    assert (row.device, row.library, row.priority) == (b"cpu", b"staged", 77)
    assert row.flags == CAPTURABLE | NONDETERMINISTIC | STRIDED
    assert row.n_may_reuse == 1
    assert (row.may_reuse[0].output, row.may_reuse[0].input) == (b"out", b"x")


def test_a_kernel_without_options_has_the_defaults(features):
    row = features.kernel("test.everything", "float64")
    assert (row.library, row.priority, row.flags, row.n_may_reuse) == (None, 50, 0, 0)
    assert (row.bind, row.unbind, row.pack) == (None, None, None)


def test_prepare_requests_the_workspace_of_run(features):
    step, _ = staged(features)
    assert (step.frame.workspace_bytes, step.frame.estimate_ns) == (24, 123)
    assert (step.frame.out_flags, step.frame.n_packs) == (1, 0)
    step.close()


def test_each_instance_has_its_own_state(features):
    first, out = staged(features)
    first.bind()
    first.run()
    first.run()
    np.testing.assert_array_equal(out, X + 3 + 2)
    second, out = staged(features, y=X)
    second.bind()
    second.run()
    np.testing.assert_array_equal(out, X + 3 + 101)
    first.close()
    second.close()


def test_a_kernel_is_told_which_outputs_are_unread(features):
    step, _ = staged(features, flags=[0, UNREAD])
    assert step.frame.estimate_ns == 12
    step.close()


def test_run_reads_the_packed_copy(features):
    step, _ = staged(features, flags=[PACKABLE, 0])
    assert (step.frame.n_packs, step.packs[0].arg) == (1, 0)
    assert (step.packs[0].bytes, step.packs[0].alignment) == (8, 128)
    packed = step.pack(0).view(np.float32)
    np.testing.assert_array_equal(packed, [2 * X[0, 0], 0])
    step.close()


@pytest.mark.parametrize(
    ("mode", "code", "message"),
    [
        ("refuse", REFUSED, "rank 2 is odd"),
        ("fail", ERROR, "no luck with test.unary"),
        ("throw", ERROR, "thrown in prepare"),
        ("memory", OUT_OF_MEMORY, "out of memory"),
    ],
)
def test_prepare_returns_the_reason_for_a_refusal(features, mode, code, message):
    with pytest.raises(FailedError) as caught:
        staged(features, mode)
    assert (caught.value.code, caught.value.message) == (code, message)


# -- kernels that fail -----------------------------------------------------------------------------


def run_wrong(features, mode, dtype=np.int16):
    row = features.kernel("other.unary", "int16")
    step = Step(features, row, [X.astype(dtype), None], [np.zeros(1, dtype)], {"mode": mode})
    try:
        step.run()
    finally:
        step.close()


def test_a_kernel_for_every_dtype_has_an_empty_dtype_list(features):
    assert features.kernel("other.unary", "bool").n_dtypes == 0
    run_wrong(features, "")


def test_a_kernel_for_an_operator_of_another_package_does_not_register_it(features):
    assert set(features.ops) == {"test.everything", "test.unary"}


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("throw", "thrown in run"),
        ("throw int", "threw no std::exception"),
        ("dtype", "a tensor of int16 was read as bool"),
        ("absent", "input slot 1 has no variable 0; ask has_input before"),
        ("slot", "there are 1 output slots, got slot 5"),
        ("axis", "axis must be in [-2, 2), got -3"),
        ("long", "x" * 511),
        ("cut", "x" * 510),
    ],
)
def test_an_exception_becomes_an_error_message(features, mode, message):
    with pytest.raises(FailedError) as caught:
        run_wrong(features, mode)
    assert (caught.value.code, caught.value.message) == (ERROR, message)


def test_a_failed_condition_reports_the_actual_value(features):
    row = features.kernel("other.unary", "int8")
    wide = np.zeros((2, 5), np.int8)
    step = Step(features, row, [wide, None], [wide], {"mode": ""})
    with pytest.raises(FailedError, match="the last dim must be 2, got 5"):
        step.run()
    step.close()


def test_a_dynamic_output_is_resized_by_the_host(features):
    features.resized.clear()
    run_wrong(features, "resize")
    assert features.resized == [(1, (4, 2))]


# -- the entry -------------------------------------------------------------------------------------


def test_registrations_of_all_files_reach_the_table(compiler):
    library = Library(compiler.build("negate.cc", "negate_kernel.cc", "negate_plugin.cc"))
    assert (library.code, library.plugin.name, library.plugin.version) == (0, b"test", b"2.5")
    assert list(library.ops) == ["test.negate"]
    out = np.zeros(3, np.int8)
    step = Step(library, library.kernel("test.negate", "int8"), [np.int8([1, -2, 3])], [out], {})
    step.run()
    step.close()
    np.testing.assert_array_equal(out, [-1, 2, -3])


def test_the_entry_function_returns_the_same_table_in_every_call(features):
    code, plugin = features.enter()
    assert (code, c.addressof(plugin)) == (0, c.addressof(features.plugin))
    assert (plugin.abi_major, plugin.abi_minor, plugin.n_devices) == (1, 1, 0)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            ["negate.cc", "empty_plugin.cc"],
            "test: something is registered under negate, which OPWRIGHT_PLUGIN does not list",
        ),
        (
            ["negate.cc", "missing_plugin.cc"],
            "test: OPWRIGHT_PLUGIN lists softmax, but nothing is registered under it; is its ",
        ),
        (
            ["mistaken_plugin.cc"],
            "test: test.mistaken: an operator must have a required input or a dtype",
        ),
    ],
)
def test_a_plugin_that_cannot_be_loaded_logs_the_reason(compiler, files, message):
    library = Library(compiler.build(*files))
    assert library.code == ERROR
    [(level, logged)] = library.logged
    assert level == 40
    assert logged.startswith(message)
    assert (library.plugin.name, library.plugin.n_ops, library.plugin.n_kernels) == (b"test", 0, 0)


def test_a_plugin_without_registrations_is_empty(compiler):
    library = Library(compiler.build("empty_plugin.cc"))
    assert (library.code, library.plugin.n_ops, library.plugin.n_kernels) == (0, 0, 0)
