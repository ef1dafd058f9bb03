"""Every collective over real processes matches NumPy."""

from __future__ import annotations

import pytest

from rank_scripts import TRAINING

pytestmark = pytest.mark.grid(6)

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

# The numbers of rows are used as weights only for a mean.
batch = np.ones((r + 2, 1), np.float32)
weighted = {"rows": batch, "unequal_rows": "weight"}
same(ops.all_reduce(mine, **weighted), total)
same(ops.all_reduce(mine, reduce="max", **weighted), np.max(all_parts, axis=0))
average = sum((k + 2) * part for k, part in enumerate(all_parts)) / sum(range(2, n + 2))
np.testing.assert_allclose(ops.all_reduce(mine, reduce="mean", **weighted), average, rtol=1e-6)

# Each process contributes 1 / n of a scattered mean.
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


@pytest.mark.parametrize("ranks", [4, 1, 2, 8])
def test_collectives_match_numpy(run, ranks: int) -> None:
    done = run(VALUES, ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == ranks


@pytest.mark.parametrize("ranks", [2, 4])
def test_training_with_several_processes_matches_one_process(run, ranks: int) -> None:
    done = run('DEVICE = "cpu"\n' + TRAINING, ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == ranks
