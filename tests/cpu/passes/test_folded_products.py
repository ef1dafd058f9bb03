"""Matrix products with transposes and casts give the same results with and without the passes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from thread_counts import thread_counts

import opwright as ow
from opwright_cpu.passes import folded_matmul
from opwright_nn import layers

n_threads = thread_counts(1, 2, autouse=True)

PASSES = ["fold_transposes", "fuse_folded_matmul"]
HEADS = (0, 2, 1, 3)
Build = Callable[..., Any]


def run(
    build: Build, shapes: list[tuple[int, ...]], passes: list[str], dtype: str = "float32"
) -> tuple[list[np.ndarray], Counter[str]]:
    """Return the outputs of a function of variables, its gradients, and operator type counts."""
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        given = [layers.data(f"x{i}", [*shape], dtype=dtype) for i, shape in enumerate(shapes)]
        for variable in given:
            variable.stop_gradient = False
        made = build(*given)
        outs = list(made) if isinstance(made, tuple) else [made]
        weight = layers.data("weight", [*(outs[0].shape or ())])
        loss = layers.mean(ow.ops.multiply(ow.ops.cast(outs[0], dtype="float32"), weight))
        outs += [grad for _, grad in ow.append_backward(loss, parameters=given)]
    rng = np.random.default_rng(3)
    arrays = [ow.ops.cast(rng.normal(size=shape), dtype=dtype) for shape in shapes]
    arrays.append(rng.normal(size=weight.shape).astype("float32"))
    network = ow.Network(main.global_block())
    call = network.compile([*given, weight], outs, passes=passes)
    found = [np.asarray(ow.ops.cast(out, dtype="float64")) for out in call(*arrays)]
    return found, Counter(network.placement().types)


def assert_same(build: Build, *shapes: tuple[int, ...], **options: Any) -> Counter[str]:
    folded, types = run(build, [*shapes], PASSES, **options)
    plain, _ = run(build, [*shapes], [], **options)
    for got, wanted in zip(folded, plain, strict=True):
        scale = float(np.abs(wanted).max(initial=0))
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6 * max(scale, 1e-3))
    return types


def swap(x: ow.Variable) -> ow.Variable:
    rank = len(x.shape or ())
    return ow.ops.transpose(x, axes=[*range(rank - 2), rank - 1, rank - 2])


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("stack", [(), (3,), (2, 3)])
@pytest.mark.parametrize("behind", [False, True])
def test_transposed_matrices_are_multiplied_without_a_copy(turned, stack, behind):
    shapes = [(*stack, 20, 33), (*stack, 33, 40)]
    shapes = [(*s[:-2], s[-1], s[-2]) if t else s for s, t in zip(shapes, turned, strict=True)]

    def build(x: ow.Variable, y: ow.Variable) -> Any:
        factors = [swap(v) if t else v for v, t in zip((x, y), turned, strict=True)]
        out = ow.ops.matmul(*factors)
        return swap(out) if behind else out

    assert assert_same(build, *shapes)["transpose"] == 0


def attention(q: ow.Variable, k: ow.Variable, v: ow.Variable) -> Any:
    q, k, v = (ow.ops.transpose(x, axes=HEADS) for x in (q, k, v))
    weights = ow.ops.softmax(ow.ops.matmul(q, k, transpose_y=True))
    return ow.ops.transpose(ow.ops.matmul(weights, v), axes=HEADS)


@pytest.mark.parametrize("shape", [(2, 5, 3, 4), (1, 70, 2, 32), (3, 1, 4, 16), (2, 6, 1, 8)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_attention_heads_and_their_gradients_are_multiplied_without_a_copy(shape, dtype):
    types = assert_same(attention, shape, shape, shape, dtype=dtype)
    assert types["cpu.folded_matmul"] == 6
    assert types["transpose"] == 0


def test_attention_heads_do_not_compile_onednn_kernels():
    """oneDNN takes 30 ms per process to compile loops for interleaved results."""
    code = (
        "import numpy, opwright as ow\n"
        "with ow.program_guard(ow.Program()) as (main, _):\n"
        "    create = main.global_block().create_var\n"
        "    names = {'x': [1, 4, 64, 64], 'y': [1, 4, 64, 32]}\n"
        "    x, y = (create(n, shape=s, dtype='float32') for n, s in names.items())\n"
        "    out = ow.ops.transpose(ow.ops.matmul(x, y), axes=[0, 2, 1, 3])\n"
        "network = ow.Network(main.global_block())\n"
        "call = network.compile([x, y], [out])\n"
        "call(*(numpy.ones(s, 'float32') for s in names.values()))\n"
        "print(*network.placement().types)\n"
    )
    env = {**os.environ, "ONEDNN_VERBOSE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert "cpu.folded_matmul" in done.stdout
    assert "gemm:jit" not in done.stdout or "AVX-512" not in done.stdout


def test_queries_with_a_different_length_and_a_shared_batch_are_multiplied_without_a_copy():
    types = assert_same(attention, (2, 9, 3, 8), (1, 5, 3, 8), (1, 5, 3, 8))
    assert types["cpu.folded_matmul"] >= 2


def test_a_transposed_product_is_computed_with_swapped_factors():
    def build(x: ow.Variable, y: ow.Variable) -> Any:
        return ow.ops.transpose(ow.ops.matmul(x, y), axes=[1, 0, 3, 2])

    types = assert_same(build, (2, 3, 20, 9), (2, 3, 9, 17))
    assert types["cpu.folded_matmul"] >= 1


def test_a_fetched_transpose_is_copied_and_the_product_is_not_fused():
    def build(x: ow.Variable, y: ow.Variable) -> Any:
        turned = swap(x)
        out = ow.ops.matmul(turned, y)
        behind = swap(out)
        return behind, turned, out

    types = assert_same(build, (12, 5), (12, 7))
    assert types["transpose"] == 2


def test_a_transpose_with_other_readers_is_kept():
    def build(x: ow.Variable, y: ow.Variable) -> Any:
        turned = swap(x)
        return ow.ops.add(ow.ops.matmul(turned, y), ow.ops.sum(ow.ops.square(turned)))

    assert assert_same(build, (12, 5), (12, 7))["transpose"] >= 1


def test_a_transpose_read_by_several_products_is_omitted():
    def build(x: ow.Variable, y: ow.Variable) -> Any:
        turned = swap(x)
        first = ow.ops.matmul(turned, y)
        return ow.ops.matmul(first, ow.ops.matmul(turned, ow.ops.relu(y)), transpose_y=True)

    types = assert_same(build, (12, 5), (12, 7))
    assert types["transpose"] == 1  # transposes the sum of both gradients


def test_a_view_of_a_transpose_keeps_its_copy():
    def build(x: ow.Variable, y: ow.Variable) -> Any:
        return ow.ops.matmul(ow.ops.reshape(swap(x), shape=[4, 15]), y)

    assert assert_same(build, (12, 5), (15, 7))["transpose"] >= 1


def test_a_factor_that_is_transposed_twice_is_read_in_its_original_order():
    def build(x: ow.Variable, y: ow.Variable) -> Any:
        return ow.ops.matmul(ow.ops.transpose(swap(x), axes=[2, 0, 1]), y)

    types = assert_same(build, (6, 2, 5), (2, 5, 7))
    assert types["transpose"] == 2  # transposes of the gradient, which have other axes last


def widened(x: ow.Variable, y: ow.Variable) -> Any:
    return ow.ops.matmul(*(ow.ops.cast(v, dtype="float32") for v in (x, y)))


@pytest.mark.parametrize("shapes", [((40, 70), (70, 30)), ((3, 9, 33), (3, 33, 17))])
def test_bfloat16_products_with_float32_results_do_not_need_casts(shapes):
    found, types = run(widened, [*shapes], PASSES, dtype="bfloat16")
    plain, _ = run(widened, [*shapes], [], dtype="bfloat16")
    np.testing.assert_allclose(found[0], plain[0], rtol=1e-5, atol=1e-5)
    if types["cpu.folded_matmul"] == 0:
        pytest.skip("this processor has no product of bfloat16")
    for got, wanted in zip(found[1:], plain[1:], strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_casts_that_no_kernel_supports_are_kept(dtype):
    types = run(widened, [(4, 5), (5, 6)], PASSES, dtype=dtype)[1]
    assert types["cast"] >= 2


@pytest.mark.parametrize("dtype", ["float16", "int32", "int64"])
@pytest.mark.parametrize("axes", [(0, 1, 3, 2), (0, 2, 1, 3)])
def test_products_of_other_dtypes_keep_their_transposes(axes, dtype):
    x = np.arange(16).reshape(2, 2, 2, 2).astype(dtype)
    program = ow.Program()
    with ow.program_guard(program):
        fed = program.global_block().create_var("x", x.shape, dtype)
        out = ow.ops.matmul(ow.ops.transpose(fed, axes=list(axes)), fed)
    (got,) = ow.Network(program.global_block()).compile([fed], [out])(x)
    np.testing.assert_array_equal(got, x.transpose(axes) @ x)


def test_each_pass_can_be_omitted():
    shapes = [(2, 5, 3, 4)] * 3
    assert run(attention, shapes, ["-fuse_folded_matmul"])[1]["cpu.folded_matmul"] == 0
    without = ["-fold_transposes", "-fuse_folded_matmul"]
    types = run(lambda x, y: ow.ops.matmul(swap(x), y), [(6, 5), (6, 3)], without)[1]
    assert types["transpose"] >= 1


@pytest.mark.parametrize("turned", [False, True])
def test_a_layer_reads_a_transposed_weight_without_a_transpose(turned):
    def build(x: ow.Variable, w: ow.Variable) -> Any:
        return ow.ops.fc(x, swap(w), transpose_weight=turned)

    assert assert_same(build, (4, 5), (5, 9) if turned else (9, 5))["transpose"] == 0


def test_factors_are_inspected_only_in_graphs_with_transposes_or_casts(monkeypatch):
    read: list[str] = []
    read_factors = folded_matmul._read_factors

    def note(graph, product, *factors):
        read.append(product.type)
        return read_factors(graph, product, *factors)

    monkeypatch.setattr(folded_matmul, "_read_factors", note)
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        x, y = (layers.data(name, [4, 4]) for name in "xy")
        product = ow.ops.matmul(x, y)
        turned = ow.ops.matmul(x, swap(y))
    square = np.eye(4, dtype="float32")
    for out, products in ((product, []), (turned, ["matmul"])):
        network = ow.Network(main.global_block())
        call = network.compile([x, y], [out], passes=["fuse_folded_matmul"])
        np.testing.assert_array_equal(call(square, square)[0], square)
        assert read == products
