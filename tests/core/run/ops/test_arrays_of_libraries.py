"""Host arrays of other libraries are read without Python, and results have the same type."""

from __future__ import annotations

import gc
import sys
import types
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest
from lending_arrays import Buffered, Exchanged, Plain, Viewed, n_lent

import opwright as ow
import opwright.run.eager
from opwright import Context
from opwright.errors import DtypeError, FeedError
from opwright.packages import Package

KINDS = [Exchanged, Buffered, Plain]
X = np.arange(8, dtype=np.float32)


@pytest.fixture
def lowered(monkeypatch):
    """The types of the operators lowered during the test, in a new Context without plans."""
    types_of_ops = []
    original = opwright.run.eager.lower

    def lower(request):
        types_of_ops.append(request.ops[0].type)
        return original(request)

    monkeypatch.setattr(opwright.run.eager, "lower", lower)
    with ow.context_guard(Context.discover()):
        yield types_of_ops


def numbers(result):
    """Return a copy as a NumPy array, since borrowed memory is freed with the result."""
    return np.array(getattr(result, "array", result))


@pytest.mark.parametrize("kind", KINDS)
def test_equal_calls_lower_once_for_any_kind_of_array(lowered, kind):
    for factor in (1, 2, 3):
        out = ow.ops.add(kind(factor * X), kind(X))
        assert type(out) is kind
        np.testing.assert_array_equal(numbers(out), (factor + 1) * X)
    ow.ops.add(X, X)
    assert lowered == ["add"]


@pytest.mark.parametrize("kind", KINDS)
def test_calls_with_numbers_and_lists_lower_once_and_use_the_dtype_of_the_array(lowered, kind):
    a = kind(X)
    for other in (2, 2.5, list(range(8)), np.float32(1)):
        for _ in range(2):
            np.testing.assert_array_equal(numbers(ow.ops.add(a, other)), X + np.float32(other))
            np.testing.assert_array_equal(numbers(ow.ops.add(other, a)), X + np.float32(other))
    assert lowered == ["add"] * 3  # array and array, array and number, number and array


def test_calls_with_strided_arrays_lower_once(lowered):
    for _ in range(2):
        np.testing.assert_array_equal(ow.ops.negative(X[::2]), -X[::2])
        strided = Exchanged(X)
        strided.array = strided.array[::2]
        np.testing.assert_array_equal(numbers(ow.ops.negative(strided)), -X[::2])
    assert lowered == ["negative"]


@pytest.mark.parametrize("kind", [Exchanged, Buffered])
def test_arrays_with_an_exchange_api_or_buffers_are_read_without_capsules(kind):
    a = kind(X)
    ow.ops.add(a, a)
    before = kind.calls
    for _ in range(3):
        ow.ops.add(a, a)
    assert kind.calls == before


def test_every_borrowed_buffer_is_released():
    a = Exchanged(X)
    out = ow.ops.add(a, a)
    values, indices = ow.ops.top_k(a, k=2)
    assert n_lent() == 0
    del a
    np.testing.assert_array_equal(out.array, 2 * X)
    np.testing.assert_array_equal(values.array, [7, 6])
    np.testing.assert_array_equal(indices.array, [7, 6])
    values, indices = ow.ops.top_k(Exchanged(X), k=2)
    np.testing.assert_array_equal(indices.array, [7, 6])


def test_an_argument_that_a_kernel_kept_stays_readable_after_the_call(kernel_that_keeps):
    ow.ops.relu(Exchanged(X))
    ow.ops.relu(Exchanged(X + 1))
    np.testing.assert_array_equal(kernel_that_keeps, [X, X + 1])


def test_an_array_that_can_be_viewed_in_place_is_not_exported(kernel_that_keeps):
    strided = Viewed(X)
    strided.array = strided.array[::-1]
    for factor in (1, 2):
        ow.ops.relu(Viewed(factor * X))
    np.testing.assert_array_equal(numbers(ow.ops.negative(strided)), -X[::-1])
    np.testing.assert_array_equal(_by_feed(Viewed(X)), -X)
    np.testing.assert_array_equal(kernel_that_keeps, [X, 2 * X])
    assert n_lent() == 0


def test_an_array_borrowed_by_a_variable_is_exported_instead_of_viewed():
    a, scope = Viewed(X), ow.Scope()
    scope.var("x").borrow(a)
    assert n_lent() == 1
    network = ow.Network([ow.Operator("add", x="x", y="x", out="x")])
    network.compile([], [], scope=scope)()
    np.testing.assert_array_equal(a.array, 2 * X)
    scope.erase("x")
    del network, scope
    gc.collect()
    assert n_lent() == 0


@pytest.fixture
def kernel_that_keeps():
    context = Context.discover()
    kept = []

    def relu(x, out):
        kept.append(x)
        np.maximum(x, 0, out=out)

    package = Package("keeper", "opwright-keeper", "1.0")
    context.kernels.add(
        "relu", device="cpu", dtypes="*", kernel=relu, library="keeper", priority=99,
        package=package,
    )  # fmt: skip
    with ow.context_guard(context):
        yield kept
    kept.clear()


@pytest.mark.parametrize("kind", [np.array, Exchanged, Buffered])
@pytest.mark.parametrize("n", [32, 33, 100])
def test_a_list_can_have_any_length(lowered, kind, n):
    for _ in range(2):
        out = ow.ops.add_n([kind(X)] * n)
        np.testing.assert_array_equal(numbers(out), n * X)
    assert lowered == ["add_n"]
    assert n_lent() == 0


@pytest.mark.parametrize("kind", [Exchanged, Plain])
def test_an_array_that_requires_a_gradient_is_refused_with_a_remedy(kind):
    a = kind(X)
    ow.ops.add(a, a)
    a.requires_grad = True
    text = rf"^add: x: .* got {kind.__name__} \(Can't export .*\); .* pass its detach\(\)"
    with pytest.raises(FeedError, match=text):
        ow.ops.add(a, kind(X))


@pytest.mark.parametrize("kind", [Exchanged, Plain])
def test_an_array_that_requires_a_gradient_is_accepted_only_within_a_guard(kind):
    a = kind(X)
    a.requires_grad = True
    guard = ow.detach_guard()
    for _ in range(2):
        with guard, guard:
            results = ow.ops.add(a, a), ow.ops.add(a, 1), _by_feed(a), _by_tensor(a)
        wanted = 2 * X, X + 1, -X, -X
        for result, right in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(numbers(result), right)
        with pytest.raises(FeedError, match="add: x: .* pass its detach"):
            ow.ops.add(a, a)


def test_a_guard_ends_if_an_error_is_raised_and_does_not_affect_other_threads():
    a = Exchanged(X)
    a.requires_grad = True
    with ThreadPoolExecutor(1) as pool, ow.detach_guard():
        refused = pool.submit(ow.ops.add, a, a).exception()
    assert "pass its detach()" in str(refused)
    with pytest.raises(ZeroDivisionError, match="here"), ow.detach_guard():
        raise ZeroDivisionError("here")
    with pytest.raises(FeedError, match="pass its detach"):
        ow.ops.add(a, a)


@pytest.mark.parametrize("kind", [Exchanged, Plain])
def test_a_network_compiled_with_detach_reads_arrays_that_require_a_gradient(kind):
    a = kind(X)
    a.requires_grad = True
    network = ow.Network([ow.Operator("negative", x="x", out="y")])
    call = network.compile(["x"], ["y"], scope=ow.Scope(), detach=True)
    for feeds in ((a,), ({"x": a},)):
        np.testing.assert_array_equal(call(*feeds)[0], -X)
    with pytest.raises(FeedError, match="pass its detach"):
        network.compile(["x"], ["y"], scope=ow.Scope())(a)


def test_an_array_is_borrowed_only_once_for_any_combination_of_feeds(lowered):
    a = Exchanged(X)
    strided = Exchanged(X)
    strided.array = strided.array[::-1]
    for left, right in ((a, 1.0), (1.0, a), (a, list(X)), (strided, strided), (strided, 1.0)):
        n_before = Exchanged.lends, Exchanged.calls
        ow.ops.add(left, right)
        n_arrays = sum(type(value) is Exchanged for value in (left, right))
        assert (Exchanged.lends, Exchanged.calls) == (n_before[0] + n_arrays, n_before[1])


def test_an_array_without_values_is_refused():
    class Tracer:
        def __dlpack__(self, **options):
            raise TypeError("Abstract tracer value encountered")

    with pytest.raises(FeedError, match="add: y: .* got Tracer, .*; call the operator outside jit"):
        ow.ops.add(X, Tracer())


def test_an_array_whose_exchange_api_returns_no_address_is_read_through_dlpack():
    a = Exchanged(X)
    ow.ops.add(a, a)
    a.is_hollow = True  # the result of its __dlpack__ has memory
    before = Exchanged.calls
    np.testing.assert_array_equal(numbers(ow.ops.add(a, a)), 2 * X)
    assert Exchanged.calls == before + 2


def test_an_array_that_cannot_be_exported_is_refused():
    class Gone(Plain):
        def __dlpack_device__(self):
            raise RuntimeError("Array has been deleted.\nAnd more.")

    with pytest.raises(FeedError, match=r"add: x: .* got Gone \(Array has been deleted.\); "):
        ow.ops.add(Gone(X), 1)


def test_bfloat16_arrays_are_accepted_and_computed():
    a = Exchanged(X.astype(ml_dtypes.bfloat16))
    for _ in range(2):
        np.testing.assert_array_equal(numbers(ow.ops.cast(a, dtype="float32")), X)
    np.testing.assert_array_equal(numbers(ow.ops.cast(ow.ops.add(a, a), dtype="float32")), 2 * X)


@pytest.mark.parametrize("kind", [Exchanged, Plain])
def test_an_unknown_dlpack_dtype_is_refused(kind):
    with pytest.raises(DtypeError, match="add: x: .* got DLPack's type code [45] of 64 bits; cast"):
        ow.ops.add(kind(X.astype(np.complex64)), 1)


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_subclasses_of_ndarray_are_read_as_ndarrays(lowered):
    matrix = np.matrix(X)
    for _ in range(2):
        out = ow.ops.add(matrix, matrix)
        assert type(out) is np.ndarray
        np.testing.assert_array_equal(out, 2 * X[None])
    assert lowered == ["add"]


def test_masked_arrays_are_refused_because_their_mask_would_be_lost():
    masked = np.ma.masked_array(X, X > 3)
    with pytest.raises(DtypeError, match=r"add: y: .* got a masked array; pass its filled\(0\)"):
        ow.ops.add(X, masked)
    network = ow.Network([ow.Operator("negative", x="x", out="out")])
    call = network.compile(["x"], ["out"], scope=ow.Scope())
    with pytest.raises(FeedError, match=r"feed 'x': .* got a masked array; pass its filled\(0\)"):
        call(x=masked)


class JaxArray(Buffered):
    """A minimal JAX array, with only the attributes that are read to create results."""

    __module__ = "jaxlib._jax"
    committed = False

    class aval:  # noqa: N801
        shape, dtype, weak_type = (8,), np.dtype(np.float32), False

    class sharding:  # noqa: N801
        _device = "cpu:0"


def test_results_for_jax_are_placed_on_the_device_of_the_arguments(monkeypatch):
    put = []

    def batched_device_put(meta, sharding, arrays, devices, committed):
        put.append((meta, sharding, devices, committed))
        return JaxArray(arrays[0])

    module = types.SimpleNamespace(batched_device_put=batched_device_put)
    monkeypatch.setitem(sys.modules, "jaxlib.xla_client", module)
    a = JaxArray(X)
    for _ in range(2):
        np.testing.assert_array_equal(np.asarray(ow.ops.add(a, a)), 2 * X)
    assert put == [(JaxArray.aval, JaxArray.sharding, ["cpu:0"], False)] * 2
    assert type(ow.ops.less(a, a)) is JaxArray  # JAX chooses the device for other dtypes
    assert len(put) == 2


def _by_operator(x):
    return numbers(ow.ops.negative(x))


def _by_feed(x):
    network = ow.Network([ow.Operator("negative", x="x", out="y")])
    return network.compile(["x"], ["y"], scope=ow.Scope())(x=x)[0]


def _by_set(x):
    variable = ow.Scope().var("x")
    variable.set(x)
    return -variable.numpy()


def _by_tensor(x):
    return -ow._runtime.Tensor.from_numpy(x).numpy()


ENTRANCES = [_by_operator, _by_feed, _by_set, _by_tensor]


class Traced:
    """A placeholder for an array while a function is traced, like a JAX tracer."""

    def __dlpack__(self, **options):
        raise AssertionError("a tracer has no memory")


@pytest.mark.parametrize("enter", ENTRANCES)
@pytest.mark.parametrize(
    "value",
    [
        X,
        np.repeat(X, 2)[::2],
        X.astype(">f4"),
        X.view(np.recarray),
        Plain(X),
        Exchanged(X),
        Buffered(X),
        ow._runtime.Tensor.from_numpy(X),
    ],
    ids=["ready", "strided", "swapped", "subclass", "plain", "exchanged", "buffered", "tensor"],
)
def test_every_entry_point_reads_the_same_values(enter, value):
    result = enter(value)
    np.testing.assert_array_equal(result, -X)
    assert result.dtype == np.float32


@pytest.mark.parametrize("enter", ENTRANCES)
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (np.ma.array(X, mask=X > 3), "an array without a mask, got a masked array; pass its fill"),
        (["a", "b"], "must be an array of numbers, got \\["),
        ("text", "must be an array of numbers, got 'text'"),
        ([[1.0], [2.0, 3.0]], "must be an array of numbers, got "),
        (Traced(), "must be an array with values, got Traced"),
    ],
    ids=["masked", "strings", "text", "ragged", "traced"],
)
def test_every_entry_point_refuses_non_numeric_arrays_with_the_same_error(enter, value, reason):
    with pytest.raises((DtypeError, FeedError), match=reason):
        enter(value)
