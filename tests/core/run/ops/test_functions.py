"""Functions of ``opwright.ops`` have signatures and docstrings, and accept arrays and variables."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
import weakref

import numpy as np
import pytest

import opwright as ow
from opwright import Context
from opwright.errors import (
    AttributeTypeError,
    AttributeValueError,
    DtypeError,
    OperatorNotFoundError,
    OutOfMemoryError,
    ShapeError,
    SlotError,
)
from opwright.packages import Package

A = np.arange(20, dtype=np.float32).reshape(4, 5)


def test_operators_called_on_arrays_return_arrays():
    out = ow.ops.softmax(A, axis=-1)
    assert type(out) is np.ndarray
    np.testing.assert_allclose(out.sum(axis=-1), 1, rtol=1e-6)
    np.testing.assert_allclose(ow.ops.add(A, y=A), 2 * A)


def test_repeated_calls_with_different_shapes_dtypes_and_attributes_are_correct():
    for dtype in ("float32", "float64"):
        for n in (0, 1, 5, 5, 3):
            x = np.arange(n, dtype=dtype)
            for minimum in (0.0, 1.0, -0.0):
                out = ow.ops.clip(x, min=minimum, max=2.0)
                assert out.dtype == x.dtype
                np.testing.assert_array_equal(out, np.clip(x, minimum, 2.0))


def test_a_negative_zero_attribute_differs_from_zero():
    x = np.zeros(1, np.float32)
    assert not np.signbit(ow.ops.fill_like(x, value=0.0))[0]
    assert np.signbit(ow.ops.fill_like(x, value=-0.0))[0]


def test_several_outputs_are_returned_as_a_tuple():
    values, indices = ow.ops.top_k(A, k=2)
    np.testing.assert_allclose(values, A[:, :-3:-1])
    assert indices.dtype == np.int64
    parts = ow.ops.split(A, axis=1, num=5)
    assert isinstance(parts, tuple)
    assert len(parts) == 5
    np.testing.assert_allclose(np.hstack(parts), A)
    np.testing.assert_allclose(ow.ops.concat(list(parts), axis=1), A)


def test_arguments_are_never_modified():
    param, grad = np.ones(3, np.float32), np.ones(3, np.float32)
    out = ow.ops.sgd(param, grad, np.array([0.5], np.float32))
    np.testing.assert_allclose(out, 0.5)
    np.testing.assert_allclose(param, 1)
    assert not np.shares_memory(out, param)


def test_python_numbers_and_lists_adopt_the_dtype_of_the_other_argument():
    out = ow.ops.add(A, 1)
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, A + 1)
    np.testing.assert_allclose(ow.ops.gather(A, [2, 0]), A[[2, 0]])


def test_strided_big_endian_and_read_only_arrays_work():
    for x in (A[:, ::2], A.T, A.astype(">f4")):
        x.flags.writeable = False
        np.testing.assert_allclose(ow.ops.square(x), x.astype(np.float32) ** 2)


def test_output_shapes_can_depend_on_values():
    for row in ([0, 1, 1], [0, 0, 0], [1, 1, 1], [0, 1, 1]):
        np.testing.assert_array_equal(ow.ops.nonzero(np.array(row)), np.nonzero(row))


class _Dlpack:
    """A minimal array of another library, which supports only DLPack."""

    def __init__(self, array):
        self.array = np.array(array)  # a copy, since NumPy does not export read-only arrays

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __array_namespace__(self):
        return _Namespace


class _Namespace:
    @staticmethod
    def from_dlpack(array):
        return _Dlpack(np.from_dlpack(array))


def test_arrays_of_another_library_give_results_of_that_library():
    out = ow.ops.add(_Dlpack(A), _Dlpack(A))
    assert type(out) is _Dlpack
    np.testing.assert_allclose(out.array, 2 * A)


def test_random_operators_with_the_same_seed_return_the_same_numbers():
    first = ow.ops.uniform(shape=[100], seed=3)
    np.testing.assert_array_equal(first, ow.ops.uniform(shape=[100], seed=3))
    assert not np.array_equal(first, ow.ops.uniform(shape=[100], seed=4))


def test_the_signature_and_docstring_state_defaults_and_ranges():
    signature = inspect.signature(ow.ops.leaky_relu)
    assert str(signature) == "(x, *, alpha=0.01)"
    text = ow.ops.clip.__doc__
    for word in ("Parameters", "x : array or Variable", "min : float", "default -inf", "Returns"):
        assert word in text
    assert "in (0, inf)" in ow.ops.cos_sim.__doc__
    assert ow.ops.relu.__name__ == "relu"


def test_help_shows_a_function_and_its_parameters():
    text = pydoc.plain(pydoc.render_doc(ow.ops.softmax))
    assert "softmax(x, *, axis=-1)" in text
    assert "the axis of the classes" in text


def test_functions_are_pickled_and_copied_by_their_names():
    assert pickle.loads(pickle.dumps(ow.ops.add)) is ow.ops.add
    assert copy.deepcopy({"activation": ow.ops.relu})["activation"] is ow.ops.relu


def test_functions_support_weak_references():
    kept = weakref.WeakKeyDictionary({ow.ops.relu: "an activation"})
    assert kept[ow.ops.relu] == "an activation"


def test_a_function_can_be_a_class_attribute():
    class Layer:
        activation = ow.ops.negative

    np.testing.assert_array_equal(Layer().activation(A), -A)


def test_defaults_apply_to_positional_and_keyword_calls():
    x = A[None, :, ::2].copy()
    for out in (ow.ops.softmax(x), ow.ops.softmax(x=x), ow.ops.softmax(x, axis=-1)):
        np.testing.assert_array_equal(out, ow.ops.softmax(x, axis=2))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: ow.ops.softmax(A, axis=2), ShapeError,
         r"^softmax: axis must be in \[-2, 2\) for a 2-d input, got axis=2"),
        (lambda: ow.ops.softmax(A, axs=1), AttributeValueError, "got 'axs'; did you mean 'axis'"),
        (lambda: ow.ops.softmax(x=None), SlotError, "input 'x' is required, got none"),
        (lambda: ow.ops.softmax(None), SlotError, "input 'x' is required, got none"),
        (lambda: ow.ops.softmax(A, axis="1"), AttributeTypeError, "axis"),
        (lambda: ow.ops.softmax(A, axis=True), AttributeTypeError, "axis"),
        (lambda: ow.ops.sum(A, keepdims=1), AttributeTypeError, "keepdims"),
        (lambda: ow.ops.dropout(A, probability=1.5), AttributeValueError, "probability"),
        (lambda: ow.ops.reshape(A), AttributeValueError, "'shape' is required, got none"),
        (lambda: ow.ops.add(A, A[:3]), ShapeError, "add: shapes must broadcast"),
        (lambda: ow.ops.add(A, A.astype("float64")), DtypeError, "add: y must have the dtype of x"),
        (lambda: ow.ops.add(A, "text"), DtypeError, "must be an array of numbers"),
        (lambda: ow.ops.concat(A), SlotError, "takes a list, got ndarray"),
        (lambda: ow.ops.relu(A, out=A), SlotError, "outputs are returned, not given"),
        (lambda: ow.ops.softmaxx, OperatorNotFoundError, "did you mean 'softmax'"),
        (lambda: ow.ops.acme, OperatorNotFoundError, "acme"),
    ],
)  # fmt: skip
def test_the_error_describes_a_mistake_in_the_arguments(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_missing_operators_are_also_attribute_errors():
    assert not hasattr(ow.ops, "nothing_of_this_name")
    assert "softmax" in dir(ow.ops)
    assert "sum_like" not in dir(ow.ops)


def test_calls_on_variables_append_to_their_block():
    program = ow.Program()
    block = program.global_block()
    x = block.create_var("x", [-1, 4])
    out = ow.ops.relu(ow.ops.softmax(x, axis=-1))
    assert isinstance(out, ow.Variable)
    assert out.shape == (-1, 4)
    assert [op.type for op in block.ops] == ["softmax", "relu"]
    values, _ = ow.ops.top_k(x, k=2)
    assert values.shape == (-1, 2)
    parts = ow.ops.split(x, axis=1, num=2)
    assert [part.shape for part in parts] == [(-1, 2), (-1, 2)]


def test_an_aliased_output_is_the_variable_itself():
    block = ow.Program().global_block()
    param = block.create_var("w", [3], persistable=True)
    grad = block.create_var("g", [3])
    rate = block.create_var("lr", [1], persistable=True)
    assert ow.ops.sgd(param, grad, rate) is param


def test_an_array_combined_with_a_variable_becomes_a_constant():
    block = ow.Program().global_block()
    x = block.create_var("x", [4, 5], is_data=True)
    out = ow.ops.add(x, A)
    assert [op.type for op in block.ops] == ["constant", "add"]
    (value,) = ow.Network(block).compile(feed=["x"], fetch=[out])(x=A)
    np.testing.assert_array_equal(value, A + A)


def test_a_pin_also_affects_operators_that_have_already_run():
    context = Context.discover()
    calls = []

    def spy(x, out):
        calls.append(x.shape)
        np.maximum(x, 0, out=out)

    package = Package("spy", "opwright-spy", "1.0")
    context.kernels.add(
        "relu", device="cpu", dtypes="*", kernel=spy, library="spy", priority=99, package=package
    )
    x = np.ones(3, np.float32)
    with ow.context_guard(context):
        ow.ops.relu(x)
        assert len(calls) == 1
        with context.pin("relu", "numpy"):
            ow.ops.relu(x)
            assert len(calls) == 1
        ow.ops.relu(x)
        assert len(calls) == 2


def test_the_error_names_a_failing_kernel(reference_kernels):
    with pytest.raises(ow.errors.KernelError, match=r"one_hot\[cpu\].*got ValueError"):
        ow.ops.one_hot(np.array([9]), depth=3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: ow.ops.split(np.zeros(0, np.float32), num=2**61),
            SlotError,
            f"split: out must have at most 65536 variables, got {2**61}; make fewer",
        ),
        (
            lambda: ow.ops.one_hot(np.zeros(4, np.int64), depth=2**61),
            OutOfMemoryError,
            f"one_hot: out must have less than 2..63 bytes, .* got float32.4, {2**61}. of {2**65}",
        ),
        (
            lambda: ow.ops.fill(shape=[2**40, 2**40]),
            OutOfMemoryError,
            f"fill: out must have less than 2..63 bytes, .* of {2**82} bytes; make it smaller",
        ),
        (
            lambda: ow.ops.fill(shape=[0, 2**40, 2**40]),
            OutOfMemoryError,
            f"fill: out must have less than 2..63 bytes, with dims of 0 .* of {2**82} bytes",
        ),
        (
            lambda: ow.ops.fill(shape=[1] * 65),
            ShapeError,
            "fill: out must have at most 64 dims, got 65",
        ),
        (lambda: ow.ops.fill(shape=[2**40], dtype="bool"), OutOfMemoryError, f"{2**40} bytes"),
        (lambda: ow.ops.normal(shape=[2**40], stream=0), OutOfMemoryError, f"{2**42} bytes"),
        (
            lambda: ow.ops.pad(np.zeros((0, 2)), paddings=[0, 0, 2**62, 2**62]),
            ShapeError,
            r"pad: output 'out' must have dimensions in \[0, 2..63\), got \[0, ",
        ),
        (
            lambda: ow.ops.max_pool2d(
                np.zeros((1, 1, 2, 2), np.float32), kernel=[2**61] * 2, paddings=[2**61 - 1] * 4
            ),
            ShapeError,
            f"max_pool2d: the padded height must be at most {2**31 - 1}, got {2**61 - 1} . 2 .",
        ),
    ],
    ids=[
        "split",
        "one_hot",
        "fill",
        "fill-empty",
        "fill-dims",
        "fill-honest",
        "normal-honest",
        "pad",
        "max_pool2d",
    ],
)
def test_a_huge_attribute_is_refused_before_any_allocation(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_an_operator_without_requested_outputs_is_refused():
    with pytest.raises(SlotError, match="relu_grad: an output must be given, got none"):
        ow.ops.relu_grad(A, A, A)
