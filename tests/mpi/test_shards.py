"""ZeRO-1 over real processes matches data-parallel training with less memory per rank."""

from __future__ import annotations

from pathlib import Path

import pytest

import shard_scripts
from shard_scripts import LARGE, OPTIMIZERS, OPTIONS, SIZES

pytestmark = pytest.mark.grid(6)

HEAD = 'DEVICE = "cpu"\n' + shard_scripts.HEAD


def check(run, script: str, ranks: int, head: str = "") -> str:
    """Run a script that must print "good" on every rank; return its output."""
    done = run(head + HEAD + script + '\nprint("good")\n', ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == ranks
    return str(done.stdout)


def test_every_elementwise_optimizer_is_bitwise_identical_with_sharded_states(run) -> None:
    check(run, OPTIMIZERS, 2)


@pytest.mark.parametrize(("ranks", "shared_memory"), [(4, "1"), (3, "0")])
def test_training_with_accumulated_clipped_or_16_bit_gradients_matches_unsharded_training(
    run, ranks: int, shared_memory: str
) -> None:
    head = f"import os\nos.environ['OPWRIGHT_MPI_SHARED_MEMORY'] = {shared_memory!r}\n"
    check(run, OPTIONS, ranks, head)


def test_an_overflow_in_one_shard_skips_the_step_on_all_ranks(run) -> None:
    script = """
# Rank 1 has only the weights of the last inputs; the gradients of these weights are 0.
rows = np.full((8, 6), 3000.0, np.float32)
rows[:, 4:] = 0
with ow.program_guard(ow.Program(seed=1), ow.Program(seed=1)) as (main, startup):
    with nn.mixed_precision("float16", loss_scale=1024.0):
        x = nn.layers.data("x", [None, 6])
        out = nn.layers.fc(x, 7, param_attr=nn.initializer.Constant(1e-4), bias=False)
        loss = nn.layers.mean(out)
        pairs = o.Adam(1e-6).minimize(loss, data_parallel=nn.DataParallel(shard_optimizer=True))
scope = ow.Scope()
ow.Network(startup.global_block()).compile(fetch=[], scope=scope)()
(part,) = [op.output("out")[0] for op in main.global_block().ops if "reduce_shard" in op.type]
step = ow.Network(main.global_block()).compile(feed=[x], fetch=[part], scope=scope)
power = next(name for name in main.global_block().vars if name.endswith("beta1_power"))
overflows = set()
for _ in range(12):
    (gradient,) = step(x=rows)
    states = [scope.find_var(name).numpy().tobytes() for name in ("loss_scale", power)]
    every = dist.gather(repr((bool(np.isfinite(gradient).all()), states)).encode())
    finite, states = zip(*map(eval, every))
    overflows.add(finite)
    assert all(each == states[0] for each in states), "the processes took different steps"
assert overflows == {(False, True), (True, True)}, overflows
"""
    check(run, script, 2)


@pytest.mark.parametrize(("ranks", "shared_memory"), [(4, "1"), (3, "0")])
def test_parameters_of_any_size_are_sharded_in_buckets_of_any_size(
    run, ranks: int, shared_memory: str
) -> None:
    head = f"import os\nos.environ['OPWRIGHT_MPI_SHARED_MEMORY'] = {shared_memory!r}\n"
    check(run, SIZES, ranks, head)


def test_parameters_larger_than_the_slots_are_trained_correctly(run) -> None:
    check(run, LARGE, 3)


def test_each_process_stores_only_its_shard_of_the_optimizer_states(run) -> None:
    script = """
def held(shard):
    model = nn.Model(data_parallel=nn.DataParallel(shard_optimizer=shard))
    out = model.fc_layer(model.fc_layer("x", 500), 1)
    model.minimize(model.mean(model.mse(out, "y")), o.Adam(0.01))
    train(model, epochs=1)
    block = model.program.global_block()
    states = [v.name for v in block.vars.values() if "moment" in v.name]
    assert len(states) == 8
    return sum(model.scope.find_var(name).numpy().nbytes for name in states)


whole, part = held(False), held(True)
assert part <= whole / n + 8 * 16 * 4, (whole, part)
"""
    check(run, script, 4)


RESHARDING = """
folder, action = Path(__file__).parent / "saved", {action!r}


def make():
    adam = o.Adam(0.01, clip=nn.clip.ClipByGlobalNorm(0.5), regularizer=L2(0.01))
    return o.Accumulate(adam, steps=4)


model = build({shard}, make, nn.mixed_precision("float16", loss_scale=128.0))
saver = nn.Checkpoint(folder) if action != "whole" else None
options = {{"resume": "latest"}} if action == "go on" else {{}}
callbacks = [] if saver is None else [saver]
result = train(model, 1 if action == "begin" else 3, 12, callbacks=callbacks, **options)
if r == 0:
    print("values", *(float(x).hex() for x in np.concatenate([v.ravel() for v in result])))
"""


def _values_of(said: str) -> list[float]:
    (line,) = [line for line in said.splitlines() if " values " in f" {line}"]
    return [float.fromhex(word) for word in line.partition("values ")[2].split()]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((2, True), (2, True)),
        ((3, True), (2, True)),
        ((2, True), (1, False)),
        ((1, False), (3, True)),
    ],
)
def test_a_checkpoint_can_be_resumed_with_any_number_of_processes_and_with_or_without_shards(
    run, tmp_path: Path, before: tuple[int, bool], after: tuple[int, bool]
) -> None:
    def step(action: str, ranks: int, shard: bool) -> list[float]:
        return _values_of(check(run, RESHARDING.format(action=action, shard=shard), ranks))

    import numpy as np

    whole = step("whole", *after)
    step("begin", *before)
    resumed = step("go on", *after)
    if before == after:
        assert resumed == whole
    np.testing.assert_allclose(resumed, whole, rtol=1e-3, atol=1e-4)


def test_a_sharded_model_is_saved_unsharded_and_loaded_into_shards(run) -> None:
    script = """
folder = Path(__file__).parent / "model"
make = lambda: o.Adam(0.01)
model, other = build(True, make), build(True, make)
train(model)
model.save(folder)
assert other.resume(folder)
third = build(True, make)
third.load_parameter(folder)
wanted = train(model)
same(train(other), wanted, "resume")
same(train(third), wanted, "load_parameter")
if r == 0:
    scope = ow.Scope()
    program = ow.load(folder, scope).program
    assert not any("shard" in op.type for op in program.global_block().ops)
    assert scope.find_var("fc_0_w_param_moment1").shape == (6, 7)
"""
    check(run, script, 2)


def test_a_custom_step_is_sharded_manually(run) -> None:
    script = """
def make(shard):
    with ow.program_guard(ow.Program(seed=1), ow.Program(seed=1)) as (main, startup):
        x, y = nn.layers.data("x", [None, 6]), nn.layers.data("y", [None, 1])
        error = nn.layers.fc(nn.layers.fc(x, 5), 1) - y
        loss = nn.layers.mean(error * error)
        rate = nn.layers.data("rate", [1])
        pairs = ow.append_backward(loss)
        pairs = dist.data_parallel(pairs, shard_optimizer=shard)
        shards = dist.find_shards(main)
        assert len(shards) == 4 * shard
        for parameter, gradient in pairs:
            target = shards[parameter.name].variable if shard else parameter
            inputs = {"param": target, "grad": gradient, "learning_rate": rate}
            main.global_block().append_op("sgd", inputs)
        if shard:
            dist.gather_parameters(parameter for parameter, _ in pairs)
        dist.share_startup(startup)
    scope = ow.Scope()
    ow.Network(startup.global_block()).compile(fetch=[], scope=scope)()
    step = ow.Network(main.global_block()).compile(feed=[x, y, rate], fetch=[loss], scope=scope)
    for _ in range(3):
        step(x=ROWS[r::n], y=DATA["y"][r::n], rate=np.array([0.1], np.float32))
    return [scope.find_var(p.name).numpy() for p, _ in pairs]


same(make(True), make(False), "by hand")
"""
    check(run, script, 3)


def test_groups_shard_states_among_their_members(run) -> None:
    script = """
pair, alone = dist.new_group("pair", [2, 0]), dist.new_group("alone", [1])
group = "alone" if r == 1 else "pair"
results = []
for shard in (False, True):
    model = build(shard, lambda: o.Adam(0.01), group=group)
    assert ("dist.shard" in types(model)) is (shard and r != 1)
    nn.train(model, DATA, 2, batch_size=10, seed=2, progress=False)
    results.append(values(model))
same(*results, group)
"""
    check(run, script, 3)


def test_a_missing_process_is_reported_with_the_operator(run) -> None:
    script = """
dist.set_deadline(1)
model = build(True, lambda: o.Adam(0.01))
for name in ("x", "y"):
    model.fill(name, DATA[name][r::n])
model.run()
if r == 0:
    try:
        model.run()
    except ow.errors.OpwrightError as error:
        print(error)
else:
    import time
    time.sleep(4)
"""
    done = run(HEAD + script, 2)
    said = done.stdout + done.stderr
    assert "dist.part" in said or "dist.reduce_shard" in said
    assert "rank 1 did not arrive within 1 s" in said
