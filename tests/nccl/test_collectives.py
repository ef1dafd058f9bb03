"""Every collective over real processes on emulated GPUs, against NumPy."""

from __future__ import annotations

import pytest

VALUES = """
import numpy as np
import opwright as ow
import opwright_dist as dist

r, n = dist.rank(), dist.size()


class Ops:
    def __getattr__(self, name):
        def run(x, rows=None, **attrs):
            slots = {"x": "x"} if rows is None else {"x": "x", "rows": "rows"}
            network = ow.Network([ow.Operator(f"dist.{name}", out="out", **slots, **attrs)])
            feeds = {"x": x} if rows is None else {"x": x, "rows": rows}
            call = network.compile(
                feed=list(feeds), fetch=["out"], device="cuda", scope=ow.Scope()
            )
            results = [call(**feeds)[0] for _ in range(3)]  # launched, recorded, replayed
            assert network.placement().graph_refusal == "", network.placement()
            np.testing.assert_array_equal(results[0], results[1])
            np.testing.assert_array_equal(results[0], results[2])
            return results[0]
        return run


ops = Ops()


def same(result, wanted):
    np.testing.assert_array_equal(result, wanted)
"""

REDUCTIONS = """
for size in (1, 3, 20_003):
    for dtype in DTYPES:
        draw = [np.random.default_rng(k).integers(-5, 6, size) for k in range(n)]
        own = draw[r].astype(dtype)
        same(ops.all_reduce(own), sum(draw).astype(dtype))
        if size == 1:
            continue
        same(ops.all_reduce(own, reduce="max"), np.max(draw, axis=0).astype(dtype))
        same(ops.all_reduce(own, reduce="min"), np.min(draw, axis=0).astype(dtype))
        if dtype.startswith("float"):
            mean = (sum(draw).astype(np.float64) / n).astype(dtype)
            np.testing.assert_allclose(ops.all_reduce(own, reduce="mean"), mean, rtol=1e-3)
print("good")
"""


@pytest.mark.parametrize("ranks", [2, 4])
def test_reductions_give_what_numpy_gives(run, ranks: int) -> None:
    dtypes = '("float16", "float32", "float64", "int32", "int64")'
    done = run(VALUES + REDUCTIONS.replace("DTYPES", dtypes), ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == ranks


EXACT = """
# 2049 lies between two float16: summed in 16 bits one by one, the ones would be lost.
own = np.array([2048 if r == 0 else 1], np.float16)
same(ops.all_reduce(own), np.array([2048 + n - 1], np.float16))
nan = np.array([np.nan if r == 1 else 5, -0.0, r, -np.inf, -r - 1.5], np.float32)
wanted = np.max([[np.nan, 0, k, -np.inf, -k - 1.5] for k in range(n)], axis=0)
same(ops.all_reduce(nan, reduce="max"), wanted.astype(np.float32))
wanted = np.min([[np.nan, 0, k, -np.inf, -k - 1.5] for k in range(n)], axis=0)
same(ops.all_reduce(nan.astype(np.float64), reduce="min"), wanted)
print("good")
"""


def test_16_bits_are_summed_in_32_and_what_is_not_a_number_stays(run) -> None:
    done = run(VALUES + EXACT, 3)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == 3


MOVEMENTS = """
base = np.arange(2 * n * 3, dtype=np.float32).reshape(2 * n, 3)
all_parts = [base + 100 * k for k in range(n)]
mine, total = all_parts[r], sum(all_parts)
rows = slice(2 * r, 2 * r + 2)
turned = np.ascontiguousarray(mine.T)
same(ops.all_gather(mine), np.concatenate(all_parts))
same(ops.all_gather(mine, axis=1), np.concatenate(all_parts, axis=1))
same(ops.reduce_scatter(mine), total[rows])
same(ops.reduce_scatter(turned, axis=1), total.T[:, rows])
same(ops.reduce_scatter(turned.astype(np.float16), axis=1), total.T[:, rows].astype(np.float16))
same(ops.reduce_scatter(mine, reduce="max"), all_parts[-1][rows])
same(ops.all_to_all(mine), np.concatenate([part[rows] for part in all_parts]))
same(ops.all_to_all(turned, axis=-1), np.concatenate([part.T[:, rows] for part in all_parts], 1))
for root in range(n):
    same(ops.broadcast(mine, root=root), all_parts[root])
same(ops.broadcast(mine > 100, root=n - 1), all_parts[n - 1] > 100)
same(ops.barrier(mine), mine)
same(ops.all_reduce(np.zeros((0, 3), np.float32)), np.zeros((0, 3), np.float32))

# Rows weigh a mean alone.
batch = np.ones((r + 2, 1), np.float32)
weighted = {"rows": batch, "unequal_rows": "weight"}
same(ops.all_reduce(mine, **weighted), total)
average = sum((k + 2) * part for k, part in enumerate(all_parts)) / sum(range(2, n + 2))
np.testing.assert_allclose(ops.all_reduce(mine, reduce="mean", **weighted), average, rtol=1e-6)

assert dist.gather(b"a" * r) == [b"a" * k for k in range(n)]
dist.new_group("turned", range(n - 1, -1, -1))
assert dist.rank("turned") == n - 1 - r
same(ops.all_gather(mine, group="turned"), np.concatenate(all_parts[::-1]))
assert dist.gather(b"%d" % r, "turned") == [b"%d" % k for k in range(n - 1, -1, -1)]
print("good")
"""


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_movements_give_what_numpy_gives(run, ranks: int) -> None:
    # One process alone runs no collective: there is nothing to record.
    head = VALUES.replace("    assert network.pl", "    assert n == 1 or network.pl")
    done = run(head + MOVEMENTS, ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == ranks


def test_plans_that_wait_after_every_operator_give_the_same(run) -> None:
    head = VALUES.replace('graph_refusal == ""', 'graph_refusal.endswith("not capturable")')
    done = run(head + MOVEMENTS, 2, variables={"OPWRIGHT_CUDA_BLOCKING": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == 2
