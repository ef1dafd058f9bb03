"""If processes build different programs, all ranks report the first operator that differs."""

from __future__ import annotations

import pytest

HEAD = """
import numpy as np
import opwright as ow
import opwright_dist as dist
import opwright_nn as nn

layers, r = nn.layers, dist.rank()
ROWS = np.random.default_rng(0).standard_normal((8, 4)).astype("f4")
BASE = {"seed": 1, "width": 8, "activation": "relu", "rate": 0.1, "beta1": 0.9, "dropout": 0.5}


def build(change=lambda x, loss: None, **choices):
    chosen = {**BASE, **(choices if r == 1 else {})}
    seed = chosen["seed"]
    with ow.program_guard(ow.Program(seed=seed), ow.Program(seed=seed)) as (main, startup):
        x = layers.data("x", [None, 4])
        hidden = layers.fc(x, chosen["width"], activation=chosen["activation"])
        loss = layers.mean(layers.fc(layers.dropout(hidden, chosen["dropout"]), 1))
        optimizer = nn.optimizer.Adam(chosen["rate"], beta1=chosen["beta1"])
        optimizer.minimize(loss, data_parallel="world")
        if r == 1:
            change(x, loss)
    return main, startup, loss


def initialize(startup):
    scope = ow.Scope()
    ow.Network(startup.global_block()).compile(fetch=[], scope=scope)()
    return scope


def report(name, function, *arguments, **feeds):
    try:
        function(*arguments, **feeds)
        print(name, "runs", flush=True)
    except ow.errors.OpwrightError as error:
        difference = str(error).partition("same collectives, ")[2]
        print(name, difference.partition("; give")[0], flush=True)


def check_startup(name, **choices):
    _, startup, _ = build(**choices)
    report(name, initialize, startup)


def check_step(name, change=lambda x, loss: None, fetch=(), **choices):
    main, startup, loss = build()
    scope = initialize(startup)
    main, _, loss = build(change, **choices)
    step = ow.Network(main.global_block()).compile(
        feed=["x"], fetch=[loss, *(fetch if r == 1 else ())], scope=scope
    )
    report(name, step, x=ROWS)
"""

CASES = {
    'check_startup("same")': ("runs", "runs"),
    'check_startup("seed", seed=2)': ("the seed 1 on rank 0", "the seed 2 on rank 1"),
    'check_startup("rate", rate=0.2)': ("value=0.1", "value=0.2"),
    'check_startup("width", width=9)': ("fc_0_w_param float32[4, 8]", "fc_0_w_param float32[4, 9]"),
    'check_step("same")': ("runs", "runs"),
    'check_step("seed", seed=2)': ("the seed 1 on rank 0", "the seed 2 on rank 1"),
    'check_step("activation", activation="tanh")': (
        "operator 1 of block 0: fc(x=x, weight=fc_0_w_param",
        "activation='relu', transpose_weight=False) -> out=fc_0_out float32[?, 8] on rank 0",
        "activation='tanh', transpose_weight=False) -> out=fc_0_out float32[?, 8] on rank 1",
    ),
    'check_step("dropout", dropout=0.25)': ("probability=0.5", "probability=0.25"),
    'check_step("beta1", beta1=0.5)': ("beta1=0.9", "beta1=0.5"),
    'check_step("more", lambda x, loss: ow.ops.relu(x))': (
        "the end of block 0 on rank 0",
        "of block 0: relu(x=x)",
    ),
    'check_step("fetch", fetch=["fc_0_out"])': ("runs", "runs"),
    'check_step("given", lambda x, loss: x.block.create_var("z", [2], "int64"))': (
        "the end of the variables on rank 0",
        "variable z of block 0: int64[2] on rank 1",
    ),
    'check_step("data", lambda x, loss: layers.data("y", [2]))': (
        "the end of the variables on rank 0",
        "variable y of block 0: float32[2] on rank 1",
    ),
}


def test_each_difference_is_reported_on_all_ranks_and_the_next_program_runs(run) -> None:
    done = run(HEAD + "\n".join(CASES), 2)
    assert done.returncode == 0, done.stdout + done.stderr
    for rank in (0, 1):
        lines = [line for line in done.stdout.splitlines() if line.startswith(f"[{rank}] ")]
        for line, (call, words) in zip(lines, CASES.items(), strict=True):
            assert all(word in line for word in words), (call, line)


def test_a_program_that_changes_later_is_compared_again(run) -> None:
    script = """
main, startup, loss = build()
scope = initialize(startup)
network = ow.Network(main.global_block())
step = network.compile(feed=["x"], fetch=[loss], scope=scope)
report("before", step, x=ROWS)
for op in main.global_block().ops:
    if op.type == "dropout" and r == 1:
        op.attrs["probability"] = 0.75
main.touch()
step = network.compile(feed=["x"], fetch=[loss], scope=scope)
report("after", step, x=ROWS)
"""
    done = run(HEAD + script, 2)
    assert done.stdout.count("before runs") == 2, done.stdout + done.stderr
    assert done.stdout.count("probability=0.5") == 2
    assert done.stdout.count("probability=0.75") == 2


def test_networks_built_from_operator_lists_and_functions_are_compared(run) -> None:
    script = """
kind = "relu" if r == 0 else "tanh"
ops = [ow.Operator(kind, x="x", out="h"), ow.Operator("dist.all_reduce", x="h", out="out")]
report("loose", ow.Network(ops).compile(feed=["x"], fetch=["out"]), x=ROWS)


def function(x):
    return ow.ops.sum(ow.ops.dist.all_reduce(getattr(ow.ops, kind)(x)))


report("function", ow.grad(function), ROWS)
"""
    done = run(HEAD + script, 2)
    first, second = "got operator 1 of {}: relu(", "on rank 0, and operator 1 of {}: tanh("
    for place in ("the network", "block 0"):
        assert done.stdout.count(first.format(place)) == 2, done.stdout + done.stderr
        assert done.stdout.count(second.format(place)) == 2


def test_models_that_differ_are_reported(run) -> None:
    script = """
model = nn.Model(data_parallel=True)
hidden = model.dropout(model.fc_layer("x", 8, activation="relu"), 0.5 if r == 0 else 0.1)
model.minimize(model.mean(model.fc_layer(hidden, 1)), nn.optimizer.SGD(0.1))
report("model", nn.train, model, {"x": ROWS}, epochs=1, batch_size=4, progress=False)
"""
    done = run(HEAD + script, 2)
    assert done.stdout.count("probability=0.5") == 2, done.stdout + done.stderr
    assert done.stdout.count("probability=0.1") == 2


@pytest.mark.parametrize("group", ["tensor", "data"])
def test_different_programs_are_also_detected_in_groups(run, group: str) -> None:
    script = f"""
dist.new_groups("tensor", [[0, 1], [2, 3]])
dist.new_groups("data", [[0, 2], [1, 3]])
block = ow.Program().global_block()
x = block.create_var("x", shape=[8], dtype="float32")
scaled = x * (2.0 if r == 3 else 1.0)
attrs = {{"group": "{group}"}}
block.append_op("dist.all_reduce", inputs={{"x": scaled}}, outputs={{"out": "out"}}, attrs=attrs)
network = ow.Network(block).compile(feed=["x"], fetch=["out"])
report("group", network, x=np.ones(8, "f4"))
"""
    done = run(HEAD + script, 4)
    assert done.stdout.count("value=1.0") == 2, done.stdout + done.stderr
    assert done.stdout.count("value=2.0") == 2
    assert done.stdout.count("group runs") == 2
