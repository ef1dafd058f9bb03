"""Layers that real processes divide: values, training and files are those of one process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

EXCHANGE = """
import numpy as np
import opwright as ow
import opwright_dist as dist

r, n = dist.rank(), dist.size()
rng = np.random.default_rng(3)
for trial in range(4):
    # Processes send each other as many rows as it happens, in two trials to one alone, or none.
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
        np.testing.assert_array_equal(ow.ops.dist.all_to_all(own), others)
        out = ow.ops.dist.exchange_rows(xs[r], own, others)
        np.testing.assert_array_equal(out, wanted if n > 1 else xs[r])
        back = ow.ops.dist.exchange_rows(out, others, own, xs[r])
        sent = int(own.sum())
        np.testing.assert_array_equal(back[:sent], xs[r, :sent])
        assert n == 1 or not back[sent:].any()

if n > 1:
    wrong = np.full(n, 2, np.int64)
    try:
        ow.ops.dist.exchange_rows(np.ones((3, 2), np.float32), wrong, wrong)
    except ow.errors.KernelError as error:
        assert "send_counts must be at least 0 and 3 or fewer together, got 2 for pr" in str(error)
    else:
        raise AssertionError("more rows were sent than there are")
print("good")
"""


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_rows_go_where_they_are_counted(run, ranks: int) -> None:
    done = run(EXCHANGE, ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == ranks


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


def make(build, **choice):
    with ow.program_guard(ow.Program(seed=1), ow.Program(seed=1)) as (main, startup):
        feeds, fetches = build(**choice)
    scope = ow.Scope()
    ow.Network(startup.global_block()).compile(fetch=[], scope=scope)()
    step = ow.Network(main.global_block()).compile(feed=feeds, fetch=fetches, scope=scope)
    return main, scope, step
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


# Ids of all processes and of one alone: the others are asked for nothing then.
rng = np.random.default_rng(0)
batches = [rng.integers(0, 11, (8, 3)), np.full((8, 3), 4), np.full((8, 3), 2)]
batches += [rng.integers(0, 11, (8, 3)) * 4 % 11]
optimizers = [nn.optimizer.SGD, nn.optimizer.Momentum, nn.optimizer.Adagrad, nn.optimizer.Adam]
part = slice(r * 8 // n, (r + 1) * 8 // n)
for optimizer in optimizers:
    for sparse in (True, False):
        main, scope, step = make(build, divided=True, optimizer=optimizer(0.1), sparse=sparse)
        alone = make(build, divided=False, optimizer=optimizer(0.1), sparse=sparse)
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
print("good")
"""


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_divided_table_is_trained_as_by_one_process(run, ranks: int) -> None:
    done = run(HEAD + TABLE, ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == ranks


def test_unequal_numbers_of_ids_are_refused(run) -> None:
    script = """
def build():
    ids = nn.layers.data("ids", [None], "int64")
    loss = nn.layers.mean(dist.layers.embedding(ids, [11, 4], name="e"))
    nn.optimizer.SGD(0.1).minimize(loss, data_parallel="world")
    return [ids], [loss]


try:
    make(build)[2](ids=np.zeros(3 + r, np.int64))
except ow.errors.OpwrightError as error:
    print(error)
"""
    done = run(HEAD + script, 2)
    assert done.stdout.count("dist.exchange_rows() of int64 [3]") == 2, done.stdout + done.stderr
    assert done.stdout.count("dist.exchange_rows() of int64 [4]") == 2


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
alone = make(build, divided=False)
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
# What all have alike has equal bits.
alike = b"".join(scope.var(f"{name}_param").numpy().tobytes() for name in ("b_b", "f_w", "f_b"))
assert len(set(dist.gather(alike))) == 1
shapes = {p.name: p.shape for p in main.parameters()}
t = dist.size("tensor")
assert shapes["a_w_param"] == (8, 12 // t) and shapes["b_w_param"] == (12 // t, 8)
print("good")
"""


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_divided_products_are_trained_as_by_one_process(run, ranks: int) -> None:
    done = run(HEAD + GROUPS + PRODUCTS, ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == ranks


MODEL = """
def build():
    model = nn.Model(data_parallel="data")
    with model.guard():
        ids = nn.layers.data("ids", [None, 2], "int64")
        vectors = dist.layers.embedding(ids, [7, 4], group="data", name="e")
        x = nn.layers.concat(
            [nn.layers.data("x", [None, 8]), nn.layers.reshape(vectors, [-1, 8])], axis=1
        )
        h = dist.layers.fc(x, 12, split="columns", group="tensor", activation="tanh", name="a")
        h = dist.layers.fc(h, 4, split="rows", x_is_split=True, group="tensor", name="b")
        error = nn.layers.fc(h, 1, name="f") - nn.layers.data("y", [None, 1])
        loss = nn.layers.mean(error * error)
    model.minimize(loss, nn.optimizer.Adam(0.01))
    return model


DATA["ids"] = np.random.default_rng(1).integers(0, 7, (24, 2))
folder = Path(__file__).parent / "checkpoints"
callbacks = [
    nn.Checkpoint(folder, best="loss"), nn.EarlyStopping("loss", patience=9, restore_best=True)
]
model = build()
history = nn.train(
    model, DATA, epochs=epochs, batch_size=8, seed=2, progress=False, resume="latest",
    callbacks=callbacks,
)
model.save(folder.parent / "saved")
again = build()
assert again.resume(folder.parent / "saved")
for v in model.program.global_block().vars.values():
    if v.persistable:
        held = again.scope.find_var(v.name).numpy()
        np.testing.assert_array_equal(held, model.scope.find_var(v.name).numpy(), err_msg=v.name)
other = build()
other.load_parameter(folder.parent / "saved", only=["e_*", "a_*"])
parts = [each.scope.var("a_w_param").numpy() for each in (other, model)]
np.testing.assert_array_equal(*parts)
state = state_of(model.program, model.scope)
if r == 0:
    print("loss", *(format(loss, ".5e") for loss in history["loss"]))
    np.savez(Path(__file__).parent / f"{n}_{epochs}.npz", **state)
print("good")
"""


def test_files_are_those_of_one_process_and_serve_any_number(run, tmp_path: Path) -> None:
    def train(ranks: int, epochs: int) -> list[float]:
        done = run(HEAD + GROUPS + f"epochs = {epochs}\n" + MODEL, ranks)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("good") == ranks
        words = next(line for line in done.stdout.splitlines() if "loss" in line).split()
        return [float(word) for word in words[words.index("loss") + 1 :]]

    train(2, 1)
    train(4, 2)
    last = train(1, 3)
    resumed = dict(np.load(tmp_path / "1_3.npz"))
    (tmp_path / "checkpoints").rename(tmp_path / "before")
    alone = train(1, 3)
    np.testing.assert_allclose(last, alone, rtol=1e-3)
    for name, whole in np.load(tmp_path / "1_3.npz").items():
        np.testing.assert_allclose(resumed[name], whole, rtol=1e-3, atol=1e-5, err_msg=name)


LOADED = """
scope = ow.Scope()
program = ow.load(Path(__file__).parent / "saved", scope).program
for name in ("tensor", "data"):
    dist.new_groups(name, [[0]])
predict = ow.Network(program.clone(for_inference=True).prune(["f_out"]).global_block()).compile(
    feed=["x", "ids"], fetch=["f_out"], scope=scope
)
given = {"x": DATA["x"], "ids": DATA["ids"]}
(out,) = predict(**given)
model = build()
assert model.resume(Path(__file__).parent / "saved")
wanted = model.predict(model.program.global_block().var("f_out"), **given)
np.testing.assert_allclose(out, wanted, rtol=1e-6)
print("same")
"""


def test_a_file_of_several_processes_is_loaded_by_one(run) -> None:
    done = run(HEAD + GROUPS + "epochs = 1\n" + MODEL, 2)
    assert done.returncode == 0, done.stdout + done.stderr
    loading = MODEL.split("folder = ", maxsplit=1)[0] + LOADED
    done = run(HEAD + GROUPS.replace("dist.new_groups(name, parts)", "pass") + loading, 1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "same" in done.stdout


WIDTHS = """
X = np.random.default_rng(0).normal(size=(6, 10)).astype(np.float32)


def train(divided):
    model = nn.Model(data_parallel="data" if divided else None)
    with model.guard():
        x = model.input("x")
        if divided:
            of_group = {"group": "tensor"}
            h = dist.layers.fc(x, 8, split="columns", activation="relu", name="a", **of_group)
            h = dist.layers.fc(h, 4, split="rows", x_is_split=True, name="b", **of_group)
            h = h + dist.layers.fc(x, 4, split="rows", name="c", **of_group)
        else:
            h = nn.layers.fc(nn.layers.fc(x, 8, activation="relu", name="a"), 4, name="b")
            h = h + nn.layers.fc(x, 4, name="c")
        loss = nn.layers.mean(h * h)
    model.minimize(loss, nn.optimizer.Adam(0.01))
    model.initialize_parameters(x=X)
    losses = []
    for _ in range(4):
        model.fill("x", X)
        losses.append(float(model.run()[0]))
    return model, losses


model, losses = train(True)
np.testing.assert_allclose(losses, train(False)[1], rtol=1e-5)
t = dist.size("tensor")
assert model.scope.var("a_w_param").shape == (10, 8 // t)
assert model.scope.var("c_w_param").shape == (10 // t, 4)
print("good")
"""


def test_a_width_may_become_known_with_the_first_batch(run) -> None:
    done = run(HEAD + GROUPS + WIDTHS, 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == 2


def test_what_one_process_of_several_groups_fails_to_do_is_raised_by_all(run) -> None:
    script = """
calls = []
dist.run_on_root(lambda: calls.append(r), ["data", "tensor"])
assert calls == ([0] if r == 0 else [])
try:
    dist.run_on_root(lambda: {}["key"], ["tensor", "data"])
except (KeyError, dist.DistError) as error:
    print(type(error).__name__, error)
"""
    done = run(HEAD + GROUPS + script, 4)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("KeyError 'key'") == 1
    assert done.stdout.count("DistError run_on_root: the function must succeed on rank 0, got") == 3
