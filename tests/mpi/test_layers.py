"""Layers sharded among real processes match one process in values, training and saved files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import layer_scripts
from layer_scripts import EXCHANGE, GROUPS, PRODUCTS, TABLE

pytestmark = pytest.mark.grid(6)

HEAD = 'DEVICE = "cpu"\n' + layer_scripts.HEAD

CALLS = """
import numpy as np
import opwright as ow
import opwright_dist as dist

r, n = dist.rank(), dist.size()
exchange, all_to_all = ow.ops.dist.exchange_rows, ow.ops.dist.all_to_all
"""

WITHOUT_KERNELS = """
import opwright as ow
from opwright.registry.kernels import KernelRegistry

context = ow.Context.discover()
kernels = KernelRegistry(context.ops, context.report)
for registration, package in context.kernels.registrations():
    if registration.op_type not in {"dist.exchange_rows", "dist.route_rows"}:
        kernels.enter([registration], package)
context.kernels = kernels
guard = ow.context_guard(context)
guard.__enter__()
"""


@pytest.mark.parametrize("ranks", [2, 1, 4])
def test_rows_are_exchanged_according_to_the_counts(run, ranks: int) -> None:
    done = run(CALLS + EXCHANGE, ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == ranks


@pytest.mark.parametrize("ranks", [2, 1, 4])
def test_training_of_a_sharded_table_matches_one_process(run, ranks: int) -> None:
    done = run(HEAD + TABLE, ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == ranks


def test_optimizer_states_of_other_parameters_are_sharded_in_addition_to_a_sharded_table(
    run,
) -> None:
    script = TABLE.replace('data_parallel="world"', "data_parallel=SHARDED").replace(
        "check_placements()",
        """
whole = [op for op in main.global_block().ops if op.type == "dist.shard"]
assert [op.input("x") for op in whole] == [("f_w_param",), ("f_b_param",)]
assert scope.var("f_w_param_moment1").shape == (16,)
assert scope.var("e_w_param_moment1").shape == scope.var("e_w_param").shape
""",
    )
    sharded = "SHARDED = nn.DataParallel(shard_optimizer=True)\n"
    done = run(HEAD + sharded + script, 4)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == 4


SAVED = """
def build():
    model = nn.Model(data_parallel=nn.DataParallel(shard_optimizer=n > 1))
    with model.guard():
        ids = nn.layers.data("ids", [None, 3], "int64")
        vectors = dist.layers.embedding(ids, [11, 4], name="e", sparse=True)
        loss = nn.layers.mean(nn.layers.fc(vectors, 2, name="f") ** 2)
    model.minimize(loss, nn.optimizer.Adam(0.01))
    return model


folder = Path(__file__).parent / "checkpoints"
model = build()
data = {"ids": np.random.default_rng(1).integers(0, 11, (24, 3))}
nn.train(model, data, epochs=epochs, batch_size=12, seed=2, progress=False, resume="latest",
         callbacks=[nn.Checkpoint(folder)])
model.save(folder.parent / "saved")
again = build()
assert again.resume(folder.parent / "saved")
state, same = [state_of(each.program, each.scope) for each in (model, again)]
for name, value in state.items():
    np.testing.assert_array_equal(value, same[name], err_msg=name)
if r == 0:
    np.savez(Path(__file__).parent / f"{n}_{epochs}.npz", **state)
print("good")
"""


@pytest.mark.long("separate tests cover the files of sharded tables and of sharded states")
def test_saved_files_of_a_sharded_table_and_sharded_states_match_one_process(
    run, tmp_path: Path
) -> None:
    def train(ranks: int, epochs: int) -> dict[str, np.ndarray]:
        done = run(HEAD + f"epochs = {epochs}\n" + SAVED, ranks)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("good") == ranks
        return dict(np.load(tmp_path / f"{ranks}_{epochs}.npz"))

    train(2, 1)
    train(3, 2)
    resumed = train(1, 3)
    (tmp_path / "checkpoints").rename(tmp_path / "before")
    for name, whole in train(1, 3).items():
        np.testing.assert_allclose(resumed[name], whole, rtol=1e-3, atol=1e-5, err_msg=name)


def test_states_that_another_group_shards_are_not_sharded_again(run) -> None:
    script = """
def build():
    x = nn.layers.data("x", [None, 8])
    out = dist.layers.fc(x, 4, split="columns", gather=True, group="tensor", name="a")
    loss = nn.layers.mean(out * out)
    choice = nn.DataParallel("data", shard_optimizer=True)
    nn.optimizer.SGD(0.1).minimize(loss, data_parallel=choice)
    return [x], [loss]


try:
    make(build)
except dist.DistError as error:
    print(error)
"""
    done = run(HEAD + GROUPS + script, 4)
    rule = "got 'a_w_param', which is partitioned over group 'tensor'; omit shard_optimizer"
    assert done.stdout.count(rule) == 4, done.stdout + done.stderr


def test_results_are_the_same_if_rows_are_exchanged_by_plain_collectives(run) -> None:
    done = run(WITHOUT_KERNELS + CALLS + EXCHANGE, 3)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == 3
    done = run(WITHOUT_KERNELS + HEAD + TABLE, 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == 2


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


@pytest.mark.parametrize("ranks", [2, 1, 4])
def test_training_of_sharded_fully_connected_layers_matches_one_process(run, ranks: int) -> None:
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


def test_saved_files_match_one_process_and_can_be_loaded_by_any_number_of_processes(
    run, tmp_path: Path
) -> None:
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


def test_one_process_loads_a_file_saved_by_several_processes(run) -> None:
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


def test_the_first_batch_can_determine_the_width_of_a_layer(run) -> None:
    done = run(HEAD + GROUPS + WIDTHS, 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == 2


def test_a_failure_in_one_process_raises_in_all_processes_of_several_groups(run) -> None:
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
