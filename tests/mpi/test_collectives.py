"""Every collective over real processes, against NumPy."""

from __future__ import annotations

import pytest

VALUES = """
import numpy as np
import opwright as ow
import opwright_dist as dist

r, n = dist.rank(), dist.size()
ops = ow.ops.dist
DTYPES = ("float16", "bfloat16", "float32", "float64", "int32", "int64")


def same(result, wanted):
    np.testing.assert_array_equal(result, wanted)


for size in (1, 3, 1000, 100_003):
    for dtype in map(ow.op.dtype_to_numpy, DTYPES):
        draw = [np.random.default_rng(k).integers(-5, 6, size) for k in range(n)]
        own = draw[r].astype(dtype)
        same(ops.all_reduce(own), sum(draw).astype(dtype))
        same(ops.all_reduce(own, reduce="max"), np.max(draw, axis=0).astype(dtype))
        same(ops.all_reduce(own, reduce="min"), np.min(draw, axis=0).astype(dtype))
        if dtype.kind not in "iu":
            mean = (sum(draw).astype(np.float32) / n).astype(dtype)
            same(ops.all_reduce(own, reduce="mean"), mean)

base = np.arange(2 * n * 3, dtype=np.float32).reshape(2 * n, 3)
all_parts = [base + 100 * k for k in range(n)]
mine, total = all_parts[r], sum(all_parts)
rows = slice(2 * r, 2 * r + 2)
turned = np.ascontiguousarray(mine.T)
same(ops.all_gather(mine), np.concatenate(all_parts))
same(ops.all_gather(mine, axis=1), np.concatenate(all_parts, axis=1))
same(ops.reduce_scatter(mine), total[rows])
same(ops.reduce_scatter(turned, axis=1), total.T[:, rows])

# Rows weigh a mean alone.
batch = np.ones((r + 2, 1), np.float32)
weighted = {"rows": batch, "unequal_rows": "weight"}
same(ops.all_reduce(mine, **weighted), total)
same(ops.all_reduce(mine, reduce="max", **weighted), np.max(all_parts, axis=0))
average = sum((k + 2) * part for k, part in enumerate(all_parts)) / sum(range(2, n + 2))
np.testing.assert_allclose(ops.all_reduce(mine, reduce="mean", **weighted), average, rtol=1e-6)

# Each process has given the share 1 / n of a scattered mean.
block = ow.Program().global_block()
x = block.create_var("x", shape=base.shape, dtype="float32")
out = block.append_op("dist.reduce_scatter", {"x": x}, attrs={"reduce": "mean"}).output("out")[0]
((_, gradient),) = ow.append_backward([block.var(out)], parameters=[x])
network = ow.Network(block)
scattered, shares = network.compile(feed=[x], fetch=[out, gradient])(x=mine)
np.testing.assert_allclose(scattered, total[rows] / n, rtol=1e-6)
np.testing.assert_allclose(shares, np.full_like(base, 1 / n), rtol=1e-6)
same(ops.all_to_all(mine), np.concatenate([part[rows] for part in all_parts]))
same(ops.all_to_all(turned, axis=-1), np.concatenate([part.T[:, rows] for part in all_parts], 1))
for root in range(n):
    same(ops.broadcast(mine, root=root), all_parts[root])
same(ops.barrier(mine), mine)
same(ops.all_reduce(np.zeros((0, 3), np.float32)), np.zeros((0, 3), np.float32))
assert dist.gather(b"a" * r) == [b"a" * k for k in range(n)]

dist.new_group("turned", range(n - 1, -1, -1))
assert dist.rank("turned") == n - 1 - r
same(ops.all_gather(mine, group="turned"), np.concatenate(all_parts[::-1]))
print("good")
"""


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_collectives_give_what_numpy_gives(run, ranks: int) -> None:
    done = run(VALUES, ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == ranks


TRAINING = """
import hashlib
import numpy as np
import opwright as ow
import opwright_dist as dist
from opwright_nn import layers, optimizer

r, n = dist.rank(), dist.size()
X = np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)


def train(parallel, x_rows, y_rows, options, **choice):
    main, startup = ow.Program(seed=1), ow.Program(seed=1)
    with ow.program_guard(main, startup):
        x, y = layers.data("x", [None, 8]), layers.data("y", [None, 1])
        error = layers.fc(layers.fc(x, 64, activation="tanh"), 1) - y
        loss = layers.mean(error * error)
        pairs = ow.append_backward([loss])
        if parallel:
            pairs = dist.data_parallel(pairs, **choice)
        optimizer.Adam(0.01).apply_gradients(pairs)
        if parallel:
            dist.share_startup(startup)
    scope = ow.Scope()
    ow.Network(startup.global_block()).compile(fetch=[], scope=scope)()
    if parallel:
        dist.broadcast_state(main, scope)
    context = ow.current_context().with_options(options)
    with ow.context_guard(context):
        network = ow.Network(main.global_block())
        step = network.compile(feed=[x, y], fetch=[loss], scope=scope)
        for _ in range(20):
            step(x=x_rows, y=y_rows)
    return [scope.find_var(p.name).numpy() for p, _ in pairs]


whole = train(False, X, Y, {})
part = slice(r * 16 // n, (r + 1) * 16 // n)
bits = set()
for size in (1, 1000, 2 << 20):
    result = train(True, X[part], Y[part], {"dist.bucket_bytes": size})
    bits.add(hashlib.sha256(b"".join(p.tobytes() for p in result)).hexdigest())
    for ours, wanted in zip(result, whole):
        np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-5)
assert len(bits) == 1, "the buckets decide the bits"
every = dist.gather(bits.pop().encode())
assert len(set(every)) == 1, "the processes differ"

cut = [0, *(3 + 2 * k for k in range(n - 1)), 16]
part = slice(cut[r], cut[r + 1])
weighted = train(True, X[part], Y[part], {}, unequal_rows="weight")
for ours, wanted in zip(weighted, whole):
    np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-5)
print("good")
"""


@pytest.mark.parametrize("ranks", [2, 4])
def test_training_gives_what_one_process_with_the_whole_batch_gives(run, ranks: int) -> None:
    done = run(TRAINING, ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == ranks
