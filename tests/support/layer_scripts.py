"""Scripts with layers partitioned over processes of any engine.

A line before each script sets ``DEVICE`` to "cpu" or "cuda".
"""

from __future__ import annotations

EXCHANGE = """
rng = np.random.default_rng(3)
for trial in range(4):
    # Each process sends random numbers of rows; in two trials, only one process or none gets rows.
    counts = rng.integers(0, 4, (n, n))
    if trial == 1:
        counts[:] = 0
    if trial == 2:
        counts[:, 1:] = 0
    m = int(counts.sum(axis=1).max()) + trial
    for dtype in ("float16", "float32", "float64", "int32", "int64"):
        xs = rng.integers(-9, 9, (n, m, 3)).astype(dtype)
        begins = np.cumsum(np.pad(counts, ((0, 0), (1, 0))), axis=1)
        came = [xs[s, begins[s, r] : begins[s, r + 1]] for s in range(n)]
        wanted = np.zeros((n * m, 3), dtype)
        joined = np.concatenate(came)
        wanted[: len(joined)] = joined
        own, others = counts[r].astype(np.int64), counts[:, r].astype(np.int64)
        np.testing.assert_array_equal(all_to_all(own), others)
        out = exchange(xs[r], own, others)
        np.testing.assert_array_equal(out, wanted if n > 1 else xs[r])
        back = exchange(out, others, own, xs[r])
        sent = int(own.sum())
        np.testing.assert_array_equal(back[:sent], xs[r, :sent])
        assert n == 1 or not back[sent:].any()

if n > 1:
    wrong = np.full(n, 2, np.int64)
    try:
        exchange(np.ones((3, 2), np.float32), wrong, wrong)
    except ow.errors.KernelError as error:
        assert "send_counts must be at least 0 with a sum of at most 3" in str(error)
    else:
        raise AssertionError("more rows were sent than there are")
print("good")
"""

HEAD = """
import sys
from pathlib import Path
import numpy as np
import opwright as ow
import opwright_dist as dist
import opwright_nn as nn

r, n = dist.rank(), dist.size()


def state_of(main, scope):
    state = dist.gather_state(main, scope)
    names = [v.name for v in main.global_block().vars.values() if v.persistable]
    return {name: state.find_var(name).numpy() for name in names} if r == 0 else {}


def same(state, wanted, **tolerances):
    for name, value in state.items():
        whole = wanted[name]
        if name.startswith("e_w_param") and len(value) > len(whole):
            assert not value[0].any()
            value = value[1:]
        np.testing.assert_allclose(value, whole, err_msg=name, **tolerances)


networks = []


def make(build, device=DEVICE, **choice):
    with ow.program_guard(ow.Program(seed=1), ow.Program(seed=1)) as (main, startup):
        feeds, fetches = build(**choice)
    scope = ow.Scope()
    ow.Network(startup.global_block()).compile(fetch=[], device=device, scope=scope)()
    network = ow.Network(main.global_block())
    networks.append(network)
    step = network.compile(feed=feeds, fetch=fetches, device=device, scope=scope)
    return main, scope, step


def check_placements():
    # On a GPU, each step must be one graph.
    placements = [network.placement() for network in networks]
    on_gpu = [each for each in placements if any("cuda" in name for name in each.kernels)]
    assert all(each.graph_refusal == "" for each in on_gpu), on_gpu
    assert DEVICE == "cpu" or len(on_gpu) == len(networks) / 2
"""

TABLE = """
def build(divided, optimizer, sparse):
    ids = nn.layers.data("ids", [None, 3], "int64")
    embedding = dist.layers.embedding if divided else nn.layers.embedding
    vectors = embedding(ids, [11, 4], sparse=sparse, padding_index=2, name="e")
    out = nn.layers.fc(vectors, 2, name="f")
    loss = nn.layers.mean(out * out)
    optimizer.minimize(loss, data_parallel="world" if divided else None)
    return [ids], [vectors, loss]


# The ids name rows of all processes, or only rows of one process.
rng = np.random.default_rng(0)
batches = [rng.integers(0, 11, (8, 3)), np.full((8, 3), 4), np.full((8, 3), 2)]
batches += [rng.integers(0, 11, (8, 3)) * 4 % 11]
optimizers = [nn.optimizer.SGD, nn.optimizer.Momentum, nn.optimizer.Adagrad, nn.optimizer.Adam]
part = slice(r * 8 // n, (r + 1) * 8 // n)
for optimizer in optimizers:
    for sparse in (True, False):
        main, scope, step = make(build, divided=True, optimizer=optimizer(0.1), sparse=sparse)
        alone = make(build, "cpu", divided=False, optimizer=optimizer(0.1), sparse=sparse)
        wanted = {
            v.name: alone[1].var(v.name)
            for v in alone[0].global_block().vars.values()
            if v.persistable
        }
        begun = state_of(main, scope)
        same(begun, {k: v.numpy() for k, v in wanted.items()}, rtol=0)
        for ids in batches:
            vectors, _ = step(ids=ids[part])
            np.testing.assert_allclose(vectors, alone[2](ids=ids)[0][part], rtol=1e-5, atol=1e-6)
        trained = state_of(main, scope)
        same(trained, {k: v.numpy() for k, v in wanted.items()}, rtol=1e-4, atol=1e-6)
assert scope.var("e_w_param").shape == (1 + -(-11 // n), 4)
check_placements()
print("good")
"""

GROUPS = """
ways = {1: ([[0]], [[0]]), 2: ([[0, 1]], [[0], [1]]), 4: ([[0, 1], [2, 3]], [[0, 2], [1, 3]])}
for name, parts in zip(("tensor", "data"), ways[n]):
    dist.new_groups(name, parts)
ROWS = np.random.default_rng(0).normal(size=(24, 8)).astype(np.float32)
DATA = {"x": ROWS, "y": ROWS.sum(axis=1, keepdims=True)}
"""

PRODUCTS = """
def layers(x, divided):
    if not divided:
        fc = nn.layers.fc
        h = fc(fc(x, 12, activation="relu", name="a"), 8, activation="tanh", name="b")
        h = nn.layers.dropout(h, 0.2)
        return fc(fc(h, 6, activation="softmax", name="c"), 4, bias=False, name="d")
    fc, of_group = dist.layers.fc, {"group": "tensor"}
    h = fc(x, 12, split="columns", activation="relu", name="a", **of_group)
    h = fc(h, 8, split="rows", x_is_split=True, activation="tanh", name="b", **of_group)
    h = nn.layers.dropout(h, 0.2)
    h = fc(h, 6, split="columns", gather=True, activation="softmax", name="c", **of_group)
    return fc(h, 4, split="rows", bias=False, name="d", **of_group)


def build(divided, mixed=False):
    x, y = nn.layers.data("x", [None, 8]), nn.layers.data("y", [None, 1])
    out = nn.layers.fc(layers(x, divided), 1, name="f")
    loss = nn.layers.mean((out - y) * (out - y))
    adam = nn.optimizer.Accumulate(nn.optimizer.Adam(0.01), steps=1)
    adam.minimize(loss, data_parallel="data" if divided else None)
    return [x, y], [loss]


main, scope, step = make(build, divided=True)
alone = make(build, "cpu", divided=False)
size, number = dist.size("data"), dist.rank("data")
for k in range(12):
    rows = slice(8 * (k % 3), 8 * (k % 3) + 8)
    part = slice(rows.start + number * 8 // size, rows.start + (number + 1) * 8 // size)
    step(**{name: array[part] for name, array in DATA.items()})
    alone[2](**{name: array[rows] for name, array in DATA.items()})
wanted = {
    v.name: alone[1].var(v.name).numpy()
    for v in alone[0].global_block().vars.values()
    if v.persistable
}
same(state_of(main, scope), wanted, rtol=1e-3, atol=1e-5)
# Replicated parameters are bitwise identical on all processes.
alike = b"".join(scope.var(f"{name}_param").numpy().tobytes() for name in ("b_b", "f_w", "f_b"))
assert len(set(dist.gather(alike))) == 1
shapes = {p.name: p.shape for p in main.parameters()}
t = dist.size("tensor")
assert shapes["a_w_param"] == (8, 12 // t) and shapes["b_w_param"] == (12 // t, 8)
check_placements()
print("good")
"""
