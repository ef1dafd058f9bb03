"""Scripts that run in several processes, on both emulated and real GPUs."""

from __future__ import annotations

import layer_scripts
import rank_scripts
import shard_scripts

TRAINING = 'DEVICE = "cuda"\n' + rank_scripts.TRAINING

STATES_IN_PARTS = 'DEVICE = "cuda"\n' + shard_scripts.HEAD
STATES_OF_ANY_SIZE = (
    STATES_IN_PARTS + shard_scripts.SIZES.replace("130_001", "5001") + 'print("good")\n'
)

STATES_OF_MODELS = """
makers = {
    "adam": lambda: o.Adam(0.01, regularizer=L1(0.01), clip=nn.clip.ClipByValue(0.1)),
    "momentum": lambda: o.Momentum(0.05, nesterov=True),
    "clipped": lambda: o.Accumulate(o.Adam(0.01, clip=nn.clip.ClipByGlobalNorm(0.5)), steps=2),
}
for name, make in makers.items():
    plain, divided = build(False, make), build(True, make)
    assert {"dist.reduce_shard", "dist.shard", "dist.unshard"} <= types(divided)
    compare = close if name == "clipped" else same  # norms are added in a different order
    compare(train(divided), train(plain), name)
plain, divided = (
    build(shard, lambda: o.Adam(0.01), nn.mixed_precision("float16"), "refuse")
    for shard in (False, True)
)
same(train(divided, size=4 * n), train(plain, size=4 * n), "float16")
variables = divided.program.global_block().vars.values()
moments = [v.name for v in variables if v.persistable and v.name.endswith("moment1")]
assert len(moments) == 4, moments
assert {divided.scope.var(name).shape for name in moments} <= {(16,), (32,)}
whole = dist.gather_state(divided.program, divided.scope)
if r == 0:
    assert whole.find_var("fc_0_w_param_moment1").shape == (6, 7)
print("good")
"""

TABLES = 'DEVICE = "cuda"\n' + layer_scripts.HEAD + layer_scripts.TABLE
TABLES_AND_STATES_IN_PARTS = TABLES.replace(
    'data_parallel="world"', "data_parallel=nn.DataParallel(shard_optimizer=True)"
)
PRODUCTS = 'DEVICE = "cuda"\n' + layer_scripts.HEAD + layer_scripts.GROUPS + layer_scripts.PRODUCTS

VALUES = """
import numpy as np
import opwright as ow
import opwright_dist as dist

r, n = dist.rank(), dist.size()


class Ops:
    def __getattr__(self, name):
        def run(x, **given):
            feeds = {"x": x, **{k: v for k, v in given.items() if isinstance(v, np.ndarray)}}
            attrs = {name: value for name, value in given.items() if name not in feeds}
            slots = {slot: slot for slot in feeds}
            network = ow.Network([ow.Operator(f"dist.{name}", out="out", **slots, **attrs)])
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
    for dtype in ("float16", "float32", "float64", "int32", "int64"):
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

EXACT = """
# float16 cannot represent 2049, so a sequential sum in 16 bits would lose the terms that are 1.
own = np.array([2048 if r == 0 else 1], np.float16)
same(ops.all_reduce(own), np.array([2048 + n - 1], np.float16))
nan = np.array([np.nan if r == 1 else 5, -0.0, r, -np.inf, -r - 1.5], np.float32)
wanted = np.max([[np.nan, 0, k, -np.inf, -k - 1.5] for k in range(n)], axis=0)
same(ops.all_reduce(nan, reduce="max"), wanted.astype(np.float32))
wanted = np.min([[np.nan, 0, k, -np.inf, -k - 1.5] for k in range(n)], axis=0)
same(ops.all_reduce(nan.astype(np.float64), reduce="min"), wanted)
print("good")
"""

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

# The numbers of rows are used as weights only for a mean.
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
if n == 4:  # two groups with the same name
    dist.new_groups("pairs", [[0, 1], [2, 3]])
    pair = [2 * (r // 2), 2 * (r // 2) + 1]
    same(ops.all_gather(mine, group="pairs"), np.concatenate([all_parts[k] for k in pair]))
    assert dist.gather(b"%d" % r, "pairs") == [b"%d" % k for k in pair]
print("good")
"""

ROWS = (
    """
all_to_all = ops.all_to_all


def exchange(x, send_counts, receive_counts, like=None):
    more = {} if like is None else {"like": like}
    given = {"send_counts": send_counts, "receive_counts": receive_counts, **more}
    return ops.exchange_rows(x, **given)


"""
    + layer_scripts.EXCHANGE
)

SHARDS = """
def parts_of(whole):
    step = 16 * n
    length = (whole.size + step - 1) // step * 16
    flat = np.zeros(length * n, whole.dtype)
    flat[: whole.size] = whole.reshape(-1)
    return flat.reshape(n, length)


for shape in ((), (1,), (3, 5), (16 * n,), (16 * n + 1,), (70, 30), (0, 3), (20_003,)):
    for dtype in ("float16", "float32", "float64", "int32", "int64"):
        draw = [np.random.default_rng(k).integers(-5, 6, shape).astype(dtype) for k in range(n)]
        total = sum(draw).astype(dtype)
        same(ops.shard(total), parts_of(total)[r])
        same(ops.reduce_shard(draw[r]), parts_of(total)[r])
        same(ops.unshard(parts_of(total)[r], like=np.zeros_like(total)), total)
        if dtype == "float32":
            most = np.max(draw, axis=0)
            same(ops.reduce_shard(draw[r], reduce="max"), parts_of(most)[r])
            rows = {"rows": np.ones((r + 2, 1), np.float32), "unequal_rows": "weight"}
            mean = sum((k + 2) * part for k, part in enumerate(draw)) / sum(range(2, n + 2))
            out = ops.reduce_shard(draw[r], reduce="mean", **rows)
            np.testing.assert_allclose(out, parts_of(np.float32(mean))[r], rtol=1e-6)

# Sums in 16 bits would lose the terms that are 1.
own = np.full(40, 2048 if r == 0 else 1, np.float16)
same(ops.reduce_shard(own), parts_of(np.full(40, 2048 + n - 1, np.float16))[r])
print("good")
"""

MODEL = """
import numpy as np
import opwright_dist as dist
import opwright_nn as nn

ROWS = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)
DATA = {"x": ROWS, "y": ROWS.sum(axis=1, keepdims=True)}


def build(parallel, device):
    model = nn.Model(data_parallel=parallel, device=device)
    hidden = model.dropout(model.tanh(model.fc_layer("x", 16)), 0.3)
    error = model.fc_layer(hidden, 1) - model.input("y")
    model.minimize(model.mean(error * error), nn.optimizer.Adam(0.01))
    return model


def values(model):
    return [model.scope.var(p.name).numpy() for p in model.parameters]


for choice, size in (("refuse", 12), ("weight", 10)):
    whole, model = build(None, "cpu"), build(nn.DataParallel(unequal_rows=choice), "cuda")
    wanted, history = [
        nn.train(each, DATA, epochs=2, batch_size=size, seed=2, progress=False)
        for each in (whole, model)
    ]
    np.testing.assert_allclose(history["loss"], wanted["loss"], rtol=1e-4)
    for own, all_rows in zip(values(model), values(whole)):
        np.testing.assert_allclose(own, all_rows, rtol=1e-4, atol=1e-5)
    every = dist.gather(b"".join(value.tobytes() for value in values(model)))
    assert len(set(every)) == 1, "the processes differ"
print("good")
"""

NARROW = """
import numpy as np
import opwright_dist as dist
import opwright_nn as nn

ROWS = np.random.default_rng(0).normal(size=(48, 6)).astype(np.float32)
DATA = {"x": ROWS, "y": ROWS.sum(axis=1, keepdims=True)}


def train(parallel, device, precision=None):
    model = nn.Model(data_parallel=parallel, device=device, mixed_precision=precision)
    hidden = model.batch_norm(model.fc_layer("x", 16), sync="world" if parallel else None)
    loss = model.mean(model.mse(model.fc_layer(hidden, 1), "y"))
    model.minimize(loss, nn.optimizer.SGD(0.01))
    nn.train(model, DATA, epochs=2, batch_size=12, seed=2, progress=False)
    return [model.scope.var(p.name).numpy() for p in model.parameters]


for own, whole in zip(train(True, "cuda"), train(None, "cpu")):
    np.testing.assert_allclose(own, whole, rtol=1e-3, atol=1e-5)
narrow = train(True, "cuda", "float16")
assert all(np.isfinite(value).all() for value in narrow)
assert len(set(dist.gather(b"".join(value.tobytes() for value in narrow)))) == 1
print("good")
"""

ALONE = """
import numpy as np
import opwright as ow
import opwright_dist as dist

x = np.arange(24, dtype=np.float32).reshape(4, 6)
for dtype in ("float16", "float32", "float64", "int32", "int64"):
    for name, attrs in (
        ("all_reduce", {}),
        ("all_reduce", {"reduce": "mean"}),
        ("all_reduce", {"reduce": "max"}),
        ("all_gather", {"axis": 1}),
        ("reduce_scatter", {"axis": 1}),
        ("all_to_all", {}),
        ("broadcast", {}),
        ("barrier", {}),
    ):
        network = ow.Network([ow.Operator(f"dist.{name}", x="x", out="out", **attrs)])
        call = network.compile(
            feed=["x"], fetch=["out"], device="cuda", scope=ow.Scope(), passes=["-dist_alone"]
        )
        for _ in range(3):
            np.testing.assert_array_equal(call(x=x.astype(dtype))[0], x.astype(dtype))
        placement = network.placement()
        assert placement.graph_refusal == "" and "cuda/nccl" in placement.kernels, placement

padded = np.zeros(32, np.float32)
padded[:24] = x.reshape(-1)
for name, feeds, wanted in (
    ("shard", {"x": x}, padded),
    ("reduce_shard", {"x": x}, padded),
    ("unshard", {"x": padded, "like": x}, x),
):
    network = ow.Network([ow.Operator(f"dist.{name}", out="out", **{k: k for k in feeds})])
    call = network.compile(feed=list(feeds), fetch=["out"], device="cuda", scope=ow.Scope())
    for _ in range(3):
        np.testing.assert_array_equal(call(**feeds)[0], wanted)
    placement = network.placement()
    assert placement.graph_refusal == "" and "cuda/nccl" in placement.kernels, placement
print(dist.current_world().engine.describe(), "good")
"""
