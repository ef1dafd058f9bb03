"""ZeRO-1 over real processes: the numbers of data-parallel training, in parts of its memory."""

from __future__ import annotations

from pathlib import Path

import pytest

HEAD = """
import sys
from pathlib import Path
import numpy as np
import opwright as ow
import opwright_dist as dist
import opwright_nn as nn

r, n = dist.rank(), dist.size()
ROWS = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)
DATA = {"x": ROWS, "y": ROWS.sum(axis=1, keepdims=True)}
o, L1, L2 = nn.optimizer, nn.regularizer.L1, nn.regularizer.L2


def build(shard, make, precision=None, unequal_rows="weight", group="world"):
    choice = nn.DataParallel(group, unequal_rows, shard)
    model = nn.Model(data_parallel=choice, mixed_precision=precision)
    hidden = model.dropout(model.fc_layer("x", 7, activation="tanh"), 0.3)
    model.minimize(model.mean(model.mse(model.fc_layer(hidden, 1), "y")), make())
    return model


def values(model):
    return [model.scope.var(p.name).numpy() for p in model.parameters]


def train(model, epochs=2, size=10, **options):
    nn.train(model, DATA, epochs, batch_size=size, seed=2, progress=False, **options)
    every = dist.gather(b"".join(array.tobytes() for array in values(model)))
    assert len(set(every)) == 1, "the processes differ"
    return values(model)


def same(ours, wanted, what):
    for one, other in zip(ours, wanted, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=what)


def close(ours, wanted, what):
    for one, other in zip(ours, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6, err_msg=what)


def types(model):
    return {op.type for op in model.program.global_block().ops}
"""


def check(run, script: str, ranks: int, head: str = "") -> str:
    """Run a script that says good, and return what it has said."""
    done = run(head + HEAD + script + '\nprint("good")\n', ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("good") == ranks
    return str(done.stdout)


OPTIMIZERS = """
makers = {
    "sgd": lambda: o.SGD(nn.schedule.step(0.1, 3, 0.5)),
    "momentum": lambda: o.Momentum(0.05, nesterov=True, regularizer=L2(0.1)),
    "adam": lambda: o.Adam(0.01, regularizer=L1(0.01), clip=nn.clip.ClipByValue(0.1)),
    "adamw": lambda: o.AdamW(0.01),
    "adamax": lambda: o.Adamax(0.01),
    "nadam": lambda: o.NAdam(0.01),
    "radam": lambda: o.RAdam(0.01),
    "lion": lambda: o.Lion(0.001),
    "adagrad": lambda: o.Adagrad(0.01),
    "adadelta": lambda: o.Adadelta(),
    "rmsprop": lambda: o.RMSprop(0.01, centered=True, momentum=0.5),
    "proximal_gd": lambda: o.ProximalGD(0.01, l1=0.1),
    "proximal_adagrad": lambda: o.ProximalAdagrad(0.01),
    "ftrl": lambda: o.Ftrl(0.01),
}
assert makers.keys() == {name for name, kind in o.OPTIMIZERS.items() if kind.elementwise}
for name, make in makers.items():
    plain, divided = build(False, make), build(True, make)
    assert {"dist.reduce_shard", "dist.shard", "dist.unshard"} <= types(divided)
    same(train(divided, epochs=1), train(plain, epochs=1), name)
"""


def test_every_elementwise_optimizer_computes_the_same_bits(run) -> None:
    check(run, OPTIMIZERS, 2)


OPTIONS = """
makers = {
    "accumulated": lambda: o.Accumulate(o.Adam(0.01), steps=2),
    "clipped": lambda: o.Adam(0.01, clip=nn.clip.ClipByGlobalNorm(0.5)),
    "clipped each": lambda: o.Accumulate(o.SGD(0.1, clip=nn.clip.ClipByNorm(0.1)), steps=2),
}
for name, make in makers.items():
    compare = close if "clipped" in name else same  # norms are sums of sums
    compare(train(build(True, make)), train(build(False, make)), name)
for dtype in ("bfloat16", "float16"):
    plain, divided = (
        build(shard, lambda: o.Adam(0.01), nn.mixed_precision(dtype))
        for shard in (False, True)
    )
    same(train(divided, epochs=4), train(plain, epochs=4), dtype)
for unequal_rows in ("weight", "refuse"):
    size = 10 if unequal_rows == "weight" else 4 * n
    plain, divided = (
        build(shard, lambda: o.Adam(0.01), None, unequal_rows) for shard in (False, True)
    )
    same(train(divided, size=size), train(plain, size=size), unequal_rows)
"""


@pytest.mark.parametrize(("ranks", "shared_memory"), [(4, "1"), (3, "0")])
def test_accumulated_clipped_and_narrow_gradients_are_those_of_whole_states(
    run, ranks: int, shared_memory: str
) -> None:
    head = f"import os\nos.environ['OPWRIGHT_MPI_SHARED_MEMORY'] = {shared_memory!r}\n"
    check(run, OPTIONS, ranks, head)


def test_an_overflow_in_one_part_skips_the_step_of_all(run) -> None:
    script = """
# Rank 1 has the weights of the last inputs alone, whose gradients are 0.
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


SIZES = """
def program(shard, dtype, sizes, options):
    main, startup = ow.Program(seed=1), ow.Program(seed=1)
    with ow.program_guard(main, startup):
        x = nn.layers.data("x", [None, 1], dtype)
        parameters = [
            nn.create_parameter(size, dtype, attr=nn.initializer.Normal(0.0, 1.0))
            for size in sizes
        ]
        sums = [ow.ops.sum(p * p) for p in parameters]
        loss = nn.layers.mean(x * ow.ops.add_n(sums))
        pairs = ow.append_backward(loss)
        pairs = dist.data_parallel(pairs, shard_optimizer=shard)
        o.Momentum(0.1).apply_gradients(pairs)
    scope = ow.Scope()
    ow.Network(startup.global_block()).compile(fetch=[], scope=scope)()
    with ow.context_guard(ow.current_context().with_options(options)):
        network = ow.Network(main.global_block())
        passes = ["-dist_buckets"] if not options else None
        step = network.compile(feed=[x], fetch=[loss], scope=scope, passes=passes)
        for _ in range(3):
            step(x=np.full((2, 1), r + 0.5, dtype))
    return [scope.find_var(p.name).numpy() for p in parameters]


sizes = [(), (1,), (3, 5), (16 * n,), (16 * n + 1,), (70, 30), (0, 3), (130_001,)]
for dtype in ("float32", "float64"):
    wanted = program(False, dtype, sizes, {"dist.bucket_bytes": 1000})
    for options in ({}, {"dist.bucket_bytes": 1}, {"dist.bucket_bytes": 1000},
                    {"dist.bucket_bytes": 2 << 20}):
        same(program(True, dtype, sizes, options), wanted, f"{dtype} {options}")
"""


@pytest.mark.parametrize(("ranks", "shared_memory"), [(4, "1"), (3, "0")])
def test_parameters_of_any_size_are_divided_in_any_buckets(
    run, ranks: int, shared_memory: str
) -> None:
    head = f"import os\nos.environ['OPWRIGHT_MPI_SHARED_MEMORY'] = {shared_memory!r}\n"
    check(run, SIZES, ranks, head)


LARGE = (
    SIZES[: SIZES.index("sizes =")]
    + """
# More than the slots of shared memory hold: tensors wait for them, and results for their owner.
sizes = [(1_500_000,), (7,), (2_000_003,), (300, 301), (1_000_000,)]
for options in ({}, {"dist.bucket_bytes": 1 << 20}):
    same(
        program(True, "float32", sizes, options), program(False, "float32", sizes, options), "large"
    )
"""
)


def test_large_parameters_wait_for_slots(run) -> None:
    check(run, LARGE, 3)


def test_each_process_holds_its_part_of_the_states(run) -> None:
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
def test_a_checkpoint_is_resumed_by_any_number_with_or_without_parts(
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


def test_a_model_is_saved_whole_and_resumed_and_loaded_in_parts(run) -> None:
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


def test_a_step_of_ones_own_is_divided_by_hand(run) -> None:
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


def test_groups_divide_among_their_members(run) -> None:
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


def test_a_process_that_does_not_come_is_told_with_the_operator(run) -> None:
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
    assert "rank 1 did not come within 1 s" in said
