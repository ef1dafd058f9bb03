"""Operators inside JAX transformations: derivatives, batches, loops, meshes, export."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
import threading
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

from opwright.errors import (
    AttributeTypeError,
    AttributeValueError,
    DtypeError,
    GradientError,
    KernelNotFoundError,
    ShapeError,
    SlotError,
)
from opwright.runtime import MissingOperatorError
from opwright_jax import ops, primitive
from opwright_jax.plans import TARGET

X = jnp.linspace(-2, 2, 32).reshape(8, 4)
ALLOWED = [jax.export.DisabledSafetyCheck.custom_call(TARGET)]


def test_a_jacobian_of_a_row_is_computed_in_one_batched_call() -> None:
    found = jax.jit(jax.jacrev(ops.softmax))(X[0])
    np.testing.assert_allclose(found, jax.jacrev(jax.nn.softmax)(X[0]), atol=1e-6)
    assert "scan" not in str(jax.make_jaxpr(jax.vmap(ops.softmax))(X))


def test_batched_arrays_of_unequal_ranks_broadcast_within_each_example() -> None:
    def run(x: Any, y: Any) -> Any:
        return jax.vmap(jax.grad(lambda x, y: (ops.multiply(x, y) ** 2).sum(), (0, 1)))(x, y)

    def truth(x: Any, y: Any) -> Any:
        return jax.vmap(jax.grad(lambda x, y: ((x * y) ** 2).sum(), (0, 1)))(x, y)

    pairs = zip(run(X.reshape(4, 2, 4), X[:4]), truth(X.reshape(4, 2, 4), X[:4]), strict=True)
    for found, expected in pairs:
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_jax_loop_runs_operators() -> None:
    def step(carry: Any, row: Any) -> Any:
        return ops.tanh(ops.add(carry, row)), carry

    def total(x: Any) -> Any:
        return jax.lax.scan(step, jnp.zeros(4), x)[0].sum()

    def truth(x: Any) -> Any:
        return jax.lax.scan(lambda c, r: (jnp.tanh(c + r), c), jnp.zeros(4), x)[0].sum()

    np.testing.assert_allclose(jax.jit(jax.grad(total))(X), jax.grad(truth)(X), atol=1e-6)


def test_checkpoints_recompute_values() -> None:
    run = jax.jit(jax.grad(jax.checkpoint(lambda x: (ops.gelu(x) ** 2).sum())))
    np.testing.assert_allclose(run(X), jax.grad(lambda x: (ops.gelu(x) ** 2).sum())(X), rtol=1e-6)


@pytest.mark.parametrize("axes", ["Auto", "Explicit"])
def test_a_mesh_computes_on_shards_or_gathers_with_one_warning(axes: str) -> None:
    kind = getattr(jax.sharding.AxisType, axes)
    mesh = jax.make_mesh((4,), ("d",), axis_types=(kind,))
    primitive._n_gatherings = itertools.count()
    sharded = jax.device_put(X, jax.sharding.NamedSharding(mesh, PartitionSpec("d")))
    home: Any = jax if hasattr(jax, "shard_map") else import_module("jax.experimental.shard_map")
    mapped = home.shard_map(
        ops.softmax, mesh=mesh, in_specs=PartitionSpec("d"), out_specs=PartitionSpec("d")
    )
    expected = jax.grad(lambda x: (jax.nn.softmax(x) ** 2).sum())(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = jax.jit(jax.grad(lambda x: (mapped(x) ** 2).sum()))(sharded)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    with pytest.warns(UserWarning, match="softmax: inside a jit over 4 devices, arrays are gath"):
        found = jax.jit(ops.softmax)(sharded)
    np.testing.assert_allclose(found, jax.nn.softmax(X), atol=1e-6)
    with jax.set_mesh(mesh) if hasattr(jax, "set_mesh") else mesh:
        found = jax.grad(lambda x: (ops.softmax(x) ** 2).sum())(sharded)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_sharded_batch_and_a_replicated_weight_have_the_gradient_of_the_whole_batch() -> None:
    mesh = jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    home: Any = jax if hasattr(jax, "shard_map") else import_module("jax.experimental.shard_map")
    weight = jnp.cos(jnp.arange(16.0)).reshape(4, 4)

    def loss(product: Any) -> Any:
        return lambda w, x: (product(x, w) ** 2).sum()

    expected = jax.grad(loss(jnp.matmul))(weight, X)
    specs = (PartitionSpec(), PartitionSpec("d"))
    if hasattr(jax, "shard_map"):  # otherwise jax.grad within shard_map needs a psum
        inside = jax.shard_map(
            jax.grad(loss(ops.matmul)), mesh=mesh, in_specs=specs, out_specs=PartitionSpec()
        )
        np.testing.assert_allclose(jax.jit(inside)(weight, X), expected, rtol=1e-5)
    total = home.shard_map(
        lambda w, x: jax.lax.psum(loss(ops.matmul)(w, x), "d"),
        mesh=mesh, in_specs=specs, out_specs=PartitionSpec(),
    )  # fmt: skip
    np.testing.assert_allclose(jax.jit(jax.grad(total))(weight, X), expected, rtol=1e-5)
    curvature = jax.jacfwd(jax.jacfwd(loss(jnp.matmul)))(weight, X)
    found = jax.jit(jax.jacfwd(jax.jacfwd(total)))(weight, X)
    np.testing.assert_allclose(found, curvature, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, jax.checkpoint])
def test_gradients_of_different_arguments_can_be_requested_in_turn(wrap: Any) -> None:
    y = jnp.cos(X)
    total = wrap(lambda x, y: ops.multiply(x, y).sum())
    for argument in (0, 1, 0, 1, 0):
        np.testing.assert_array_equal(jax.grad(total, argument)(X, y), (y, X)[argument])


@pytest.mark.parametrize("call", [ops.log, jax.jit(ops.log), jax.vmap(ops.log)])
def test_jax_debug_nans_names_the_operator(call: Any) -> None:
    with (
        jax.debug_nans(True),
        pytest.raises(FloatingPointError, match=r"invalid value \(nan\) encountered in log"),
    ):
        call(X)


def test_operators_run_without_jit() -> None:
    expected = jax.grad(lambda x: (jax.nn.softmax(x) ** 2).sum())(X)
    with jax.disable_jit():
        np.testing.assert_allclose(ops.softmax(X), jax.nn.softmax(X), atol=1e-6)
        found = jax.vmap(jax.grad(lambda x: (ops.softmax(x) ** 2).sum()))(X)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_objects_with_a_jax_array_are_arguments() -> None:
    class Parameter:
        def __init__(self, array: Any) -> None:
            self.array = array

        def __jax_array__(self) -> Any:
            return self.array

    found = jax.jit(jax.grad(lambda x: ops.multiply(X, Parameter(x)).sum()))(X)
    np.testing.assert_array_equal(found, X)


def test_weak_floats_do_not_become_integers() -> None:
    integers = jnp.arange(4)
    for call in (ops.divide, jax.jit(ops.divide)):
        with pytest.raises(DtypeError, match="divide: y must have the dtype of x, int32, got flo"):
            call(integers, jnp.asarray(2.5))
    with pytest.raises(DtypeError, match="add: y must have the dtype of x, bool, got int32"):
        ops.add(integers > 1, jnp.asarray(2))
    assert ops.divide(X.astype(jnp.float16), jnp.asarray(2)).dtype == jnp.float16


def test_numbers_take_the_dtype_of_weakly_typed_arrays() -> None:
    np.testing.assert_array_equal(ops.multiply(jnp.asarray(2.5), 2), 5)
    assert jax.grad(lambda x: ops.multiply(x, 3))(2.5) == 3
    assert jax.grad(ops.square)(2.5) == 5


def test_numbers_and_weak_types_take_the_dtype_of_other_arrays() -> None:
    half = X.astype(jnp.bfloat16)
    assert ops.add(half, 2).dtype == jnp.bfloat16
    assert ops.add(half, jnp.asarray(2.0)).dtype == jnp.bfloat16
    assert ops.multiply(X, np.float32(2)).dtype == jnp.float32
    assert jax.grad(lambda w: ops.multiply(half, w).astype(jnp.float32).sum())(2.0).dtype == (
        jnp.float32
    )


def test_without_64_bit_types_integers_have_32_bits() -> None:
    assert ops.argmax(X, axis=1).dtype == jnp.int32
    np.testing.assert_array_equal(jax.jit(lambda x: ops.argmax(x, axis=1))(-X), [0] * 8)
    drawn = ops.dropout(X, step=jnp.asarray([1]), training=True)
    np.testing.assert_array_equal(drawn, ops.dropout(X, step=jnp.asarray([1]), training=True))
    assert ops.cast(X, dtype="float64").dtype == jnp.float32


def test_an_optimizer_returns_new_arrays() -> None:
    before = np.asarray(X).copy()
    found = jax.jit(lambda p: ops.sgd(p, p, jnp.asarray([0.5])))(X)
    np.testing.assert_allclose(found, before * 0.5)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: ops.softmax(X, axis=2), ShapeError, r"softmax: axis must be in \[-2, 2\)"),
        (lambda: ops.add(X, X.astype(int)), DtypeError, "add: y must have the dtype of x, float32"),
        (lambda: ops.scale(X, scal=2.0), AttributeValueError, "scale: unknown slot or attribute"),
        (lambda: ops.abs(X.astype(jnp.complex64)), DtypeError, "abs: arrays must have an opw"),
        (lambda: ops.add(X, jax.random.key(0)), DtypeError, r"add: .* got key<fry>; jax.random.ke"),
        (
            lambda: jax.grad(lambda x: ops.floor(x).sum())(X),
            GradientError,
            "floor: .*'x' must get a gradient from .*; jax.lax.stop_gradient omits",
        ),
        (lambda: ops.nonzero(X), ShapeError, "nonzero: results must have shapes that are known"),
        (lambda: ops.cond(X), MissingOperatorError, "cond: an operator on arrays must not have b"),
        (
            lambda: jax.jit(ops.gelu).trace(X).lower(lowering_platforms=("cuda",)),
            KernelNotFoundError,
            "gelu: opwright operators run inside JAX only on the CPU, got 'cuda'",
        ),
        (
            lambda: jax.linear_transpose(ops.scale, X)(X),
            GradientError,
            "scale: jax.linear_transpose requires a function that JAX knows to be linear",
        ),
        (
            lambda: jax.jvp(
                lambda x: ops.scatter(x, jnp.argsort(X), X, axis=0, reduction="max"), (X,), (X,)
            ),
            GradientError,
            r"scatter: with reduction='max' .*; forward mode \(jvp, jacfwd\) requires a second gr",
        ),
        (
            lambda: jax.jit(lambda a: ops.scale(X, scale=a))(2.0),
            AttributeTypeError,
            "scale: attribute 'scale' must be a Python value, got a JAX array",
        ),
    ],
)  # fmt: skip
def test_mistakes_raise_opwright_errors(call: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        call()


def test_an_error_at_run_time_is_raised_and_the_process_continues() -> None:
    run = jax.jit(lambda x, i: ops.gather(x, i, axis=0))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"gather.*\b99\b"):
        run(X, jnp.asarray([99])).block_until_ready()
    np.testing.assert_array_equal(run(X, jnp.asarray([1])), X[1:2])


def test_four_threads_can_call_operators_concurrently() -> None:
    calls = [
        jax.jit(ops.softmax),
        jax.jit(ops.gelu),
        jax.jit(jax.grad(lambda x: ops.gelu(x).sum())),
    ]
    expected = [np.asarray(call(X)) for call in calls]
    wrong: list[Any] = []

    def work() -> None:
        for i in range(480):
            found = np.asarray(calls[i % 3](X))
            if not np.array_equal(found, expected[i % 3]):
                wrong.append(i)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


CHILD = """
import sys, jax, jax.export, jax.numpy as jnp, numpy as np, opwright_jax
x = jnp.linspace(-2, 2, 32).reshape(8, 4)
if sys.argv[1] == "export":
    found = jax.export.deserialize(bytearray(open(sys.argv[2], "rb").read())).call(x)
else:
    jax.config.update("jax_compilation_cache_dir", sys.argv[2])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    hits = []
    jax.monitoring.register_event_listener(lambda event, **_: hits.append("cache_hits" in event))
    found = jax.jit(lambda x: opwright_jax.ops.gelu(x) * 3)(x)
    print("hits", sum(hits))
np.testing.assert_allclose(found, 3 * jax.nn.gelu(x, approximate=False), rtol=1e-5, atol=1e-6)
"""


def run_child(*args: str) -> str:
    command = [sys.executable, "-c", CHILD, *args]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    return child.stdout


def test_an_exported_function_runs_in_another_process(tmp_path: Path) -> None:
    exported = jax.export.export(jax.jit(lambda x: ops.gelu(x) * 3), disabled_checks=ALLOWED)(X)
    (tmp_path / "f").write_bytes(exported.serialize())
    run_child("export", str(tmp_path / "f"))


def test_a_new_process_uses_the_compile_cache(tmp_path: Path) -> None:
    run_child("cache", str(tmp_path))
    assert "hits 0" not in run_child("cache", str(tmp_path))


def test_a_call_string_from_another_source_raises() -> None:
    text = "no plan"

    def run(x: Any) -> Any:
        call = jax.ffi.ffi_call(TARGET, jax.ShapeDtypeStruct(x.shape, x.dtype))
        return call(x, call=text, high=np.int64(1), low=np.int64(2))

    with pytest.raises(jax.errors.JaxRuntimeError, match="must have a string that opwright-jax"):
        jax.jit(run)(X)


def test_arrays_that_do_not_match_the_call_string_raise() -> None:
    from opwright.op import Meta
    from opwright_jax.calls import Call
    from opwright_jax.pieces import compile_piece

    call = Call("relu", (1,), "{}", ("out",), False)
    compiled = compile_piece(call, (Meta((1 << 20,), "float32"),))
    high, low = compiled.digest

    def run(x: Any) -> Any:
        shown = jax.ffi.ffi_call(TARGET, jax.ShapeDtypeStruct(x.shape, x.dtype))
        return shown(x, call=compiled.text, high=np.int64(high), low=np.int64(low))

    with pytest.raises(jax.errors.JaxRuntimeError, match="arrays of the custom call do not match"):
        jax.jit(run)(X)


def images(n: int, *shape: int) -> Any:
    return jnp.cos(jnp.arange(n * math.prod(shape), dtype=jnp.float32)).reshape(n, *shape)


WEIGHT = images(3, 2, 3, 3)
FOLDED = {
    "conv2d": lambda x: ops.conv2d(x, WEIGHT, paddings=[1, 1, 0, 1]),
    "max_pool2d": lambda x: ops.max_pool2d(x, kernel=[2, 2], strides=[2, 1], returns="out"),
    "avg_pool2d": lambda x: ops.avg_pool2d(x, kernel=[3, 3]),
}


@pytest.mark.parametrize("name", FOLDED)
def test_images_with_two_batch_axes_are_computed_in_one_call(name: str) -> None:
    run, x = FOLDED[name], images(4, 3, 2, 5, 6)

    def gradient(x: Any) -> Any:
        return jax.grad(lambda x: (run(x) ** 2).sum())(x)

    for f in (run, gradient, jax.vmap(run)):
        given = images(2, 4, 3, 2, 5, 6) if f not in (run, gradient) else x
        assert "scan" not in str(jax.make_jaxpr(jax.vmap(f))(given))
        expected = np.stack([f(row) for row in given])
        np.testing.assert_allclose(jax.jit(jax.vmap(f))(given), expected, rtol=1e-5, atol=1e-5)


def test_vmap_of_a_convolution_and_of_its_weight_gradient_matches_a_loop() -> None:
    x, weights = images(4, 3, 2, 5, 6), images(4, 3, 2, 3, 3)

    def gradient(x: Any, w: Any) -> Any:
        return jax.grad(lambda w: (ops.conv2d(x, w) ** 2).sum())(w)

    cases: list[tuple[Any, Any]] = [(ops.conv2d, (0, 0)), (gradient, (0, None))]
    for f, axes in cases:
        rows = [weights[i] if axes[1] == 0 else weights[0] for i in range(4)]
        given = weights if axes[1] == 0 else weights[0]
        expected = np.stack([f(row, w) for row, w in zip(x, rows, strict=True)])
        np.testing.assert_allclose(jax.vmap(f, axes)(x, given), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["dropout", "uniform"])
def test_a_random_operator_requires_its_step(name: str) -> None:
    given = (X,) if name == "dropout" else ()
    attrs: dict[str, Any] = {"training": True} if name == "dropout" else {"shape": [2]}
    with pytest.raises(SlotError, match=f"{name}: input 'step' is required inside JAX.*pass step="):
        jax.jit(lambda: getattr(ops, name)(*given, **attrs))()
