"""A rehearsal runs the plan of one of many processes alone, to measure its computation."""

from __future__ import annotations

import json

import numpy as np
import pytest

import opwright as ow
import opwright_dist as dist
import opwright_nn as nn
from opwright_nn import layers
from opwright_simulation import Compute, Start, Wait, collect_timelines, rehearse
from opwright_simulation.command import main

FEEDS = {"x": np.zeros((8, 6), "float32"), "y": np.zeros((8, 1), "int64")}
PARAMETERS = 6 * 5 + 5 + 5 * 3 + 3


def build(parallel=True):
    with ow.program_guard(ow.Program(), ow.Program()) as (program, startup):
        x = layers.data("x", shape=[None, 6])
        y = layers.data("y", shape=[None, 1], dtype="int64")
        scores = layers.fc(layers.fc(x, size=5, activation="tanh"), size=3)
        loss = layers.mean(layers.softmax_with_cross_entropy(scores, y))
        pairs = ow.append_backward([loss])
        nn.optimizer.Adam(1e-3).apply_gradients(dist.data_parallel(pairs) if parallel else pairs)
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    return program, loss, scope


@pytest.fixture
def before():
    world = dist.World(dist.SingleProcess())
    replaced = dist.set_world(world)
    yield world
    dist.set_world(replaced)


def test_a_rehearsed_step_sends_every_gradient_once_and_waits_for_it(before):
    program, loss, scope = build()
    step = rehearse(program, FEEDS, [loss], scope=scope, runs=3)(64)
    starts = [event for event in step.events if isinstance(event, Start)]
    waits = [event for event in step.events if isinstance(event, Wait)]
    assert step.sent_bytes == 4 * PARAMETERS
    assert [start.key for start in starts] == [wait.key for wait in waits]
    assert step.examples == 8
    assert step.compute_s > 0
    assert any(isinstance(event, Compute) for event in step.events[: step.events.index(starts[0])])


def test_dropout_and_statistics_of_the_whole_batch_are_rehearsed(before):
    with ow.program_guard(ow.Program(seed=1), ow.Program(seed=1)) as (program, startup):
        x = layers.data("x", shape=[None, 6])
        y = layers.data("y", shape=[None, 1], dtype="int64")
        hidden = layers.batch_norm(layers.fc(x, size=5), sync="world")
        scores = layers.fc(layers.dropout(hidden, 0.5), size=3)
        loss = layers.mean(layers.softmax_with_cross_entropy(scores, y))
        nn.optimizer.SGD(0.1).minimize(loss, data_parallel="world")
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    step = rehearse(program, FEEDS, [loss], scope=scope, runs=3)(8)
    sent = [event.size_bytes for event in step.events if isinstance(event, Start)]
    statistics = 2 * (4 * 5) + 2 * (4 * 5)  # forward and backward, five channels
    parameters = 4 * (6 * 5 + 5 + 2 * 5 + 5 * 3 + 3)
    assert sum(sent) == statistics + parameters


def test_a_rehearsal_leaves_scope_and_world_unchanged(before):
    program, loss, scope = build()
    values = {name: scope.find_var(name).numpy() for name in scope.names()}
    rehearse(program, FEEDS, [loss], scope=scope, runs=3)(64)
    for name, value in values.items():
        np.testing.assert_array_equal(scope.find_var(name).numpy(), value)
    assert dist.current_world() is before


def test_a_failed_rehearsal_restores_the_world(before):
    program, loss, scope = build()
    with pytest.raises(ow.errors.OpwrightError, match="x"):
        rehearse(program, {"x": FEEDS["x"][:, :2], "y": FEEDS["y"]}, [loss], scope=scope)(2)
    assert dist.current_world() is before


def test_shapes_that_depend_on_the_number_of_processes_are_measured_for_each(before):
    with ow.program_guard(ow.Program(), ow.Program()) as (program, _):
        x = layers.data("x", shape=[None, 6])
        part = ow.ops.dist.reduce_scatter(x, axis=0)
        whole = ow.ops.dist.all_gather(part, axis=0)
    step = rehearse(program, {"x": FEEDS["x"]}, [whole], scope=ow.Scope(), runs=3)
    for ranks in (2, 4):
        sent = {e.collective: e.size_bytes for e in step(ranks).events if isinstance(e, Start)}
        assert sent == {"reduce_scatter": 192, "all_gather": 192}


def test_a_program_without_collectives_is_refused(before):
    program, loss, scope = build(parallel=False)
    with pytest.raises(dist.DistError, match="must have collectives, got none; append them with"):
        rehearse(program, FEEDS, [loss], scope=scope)


def test_plans_do_not_use_kernels_for_rehearsals(two):
    with ow.program_guard(ow.Program(), ow.Program()) as (program, _):
        out = ow.ops.dist.broadcast(layers.data("x", shape=[None, 6]))
    network = ow.Network(program.global_block())
    with (
        ow.context_guard(ow.current_context().with_pins({"dist.broadcast": "rehearsal"})),
        pytest.raises(ow.errors.KernelNotFoundError, match="opwright-simulate"),
    ):
        network.compile(feed=["x"], fetch=[out])(x=FEEDS["x"])


def test_the_timelines_of_all_processes_are_collected(two):
    with ow.program_guard(ow.Program(), ow.Program()) as (program, _):
        out = ow.ops.tanh(layers.data("x", shape=[None, 6]))
    network = ow.Network(program.global_block())
    compiled = network.compile(feed=["x"], fetch=[out])
    lines = collect_timelines(compiled.profile({"x": FEEDS["x"]}, 3))
    assert list(lines) == ["rank 0", "rank 1"]
    assert [span.label for span in lines["rank 1"].spans] == ["tanh"]
    assert lines["rank 1"].step_s > 0


@pytest.fixture
def saved(tmp_path, before):
    program, loss, scope = build()
    ow.save(tmp_path / "step", program, scope, fetch=[loss])
    return str(tmp_path / "step")


def arguments(saved, *more):
    return [saved, "--feed", "x=8x6", "--feed", "y=8x1", "--runs", "3", *more]


def test_the_command_prints_a_row_for_each_network_and_number_of_processes(saved, capsys):
    assert main(arguments(saved, "--ranks", "8,64", "--network", "nvlink,ethernet")) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split()[:2] for line in lines if " ms " in line or " us " in line]
    expected = [["nvlink", "8"], ["nvlink", "64"], ["ethernet", "8"], ["ethernet", "64"]]
    assert [row for row in rows if row[0] in {"nvlink", "ethernet"}] == expected


def test_the_command_prints_json_and_writes_traces(saved, tmp_path, capsys):
    trace = tmp_path / "trace.json"
    more = ["--json", "--trace", str(trace), "--ranks", "16", "--mtbf-hours", "1000"]
    assert main(arguments(saved, *more)) == 0
    plain = json.loads(capsys.readouterr().out)
    assert {row["ranks"] for row in plain["forecasts"]} == {16}
    assert all(0 < row["efficiency"] < 1 for row in plain["forecasts"])
    assert json.loads(trace.read_text())["traceEvents"]


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        (["--network", "nvlnk"], "unknown network, got 'nvlnk'; did you mean 'nvlink'"),
        (["--spread", "2"], "spread must be a fraction"),
        (["--feed", "z=1"], "--feed must name a feed, got 'z'"),
    ],
)
def test_the_command_error_names_the_cause(saved, more, rule, capsys):
    assert main(arguments(saved, *more)) == 1
    assert rule in capsys.readouterr().err


def test_a_wrong_number_of_processes_is_a_usage_error(saved, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments(saved, "--ranks", "8,none"))
    assert "must be an integer of at least 1, got 'none'" in capsys.readouterr().err
