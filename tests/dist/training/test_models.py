"""The models, optimizers and batches of opwright-nn support training with several processes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opwright as ow
import opwright_dist as dist
import opwright_nn as nn
from opwright.errors import AttributeValueError, MissingRequirementError, ProgramError
from opwright_dist.groups.gathering import pack
from opwright_nn import layers, parallel

ROWS = np.random.default_rng(0).normal(size=(30, 6)).astype(np.float32)
DATA = {"x": ROWS, "y": ROWS.sum(axis=1, keepdims=True)}


def build(**options: Any) -> nn.Model:
    model = nn.Model(**options)
    sync = options.get("data_parallel")
    hidden = model.batch_norm(model.fc_layer("x", 16), activation="tanh", sync=sync)
    error = model.fc_layer(model.dropout(hidden, 0.2), 1) - model.input("y")
    model.minimize(model.mean(error * error), nn.optimizer.Adam(0.01))
    model.initialize_parameters(seed=1)
    return model


def bits(model: nn.Model) -> list[bytes]:
    return [model.scope.var(p.name).numpy().tobytes() for p in model.parameters]


@pytest.mark.parametrize("choice", [True, "world", nn.DataParallel(unequal_rows="weight")])
def test_in_one_process_a_data_parallel_model_is_bitwise_identical(choice: Any) -> None:
    alone, together = build(), build(data_parallel=choice)
    histories = [
        nn.train(model, DATA, epochs=2, batch_size=8, progress=False) for model in (alone, together)
    ]
    assert bits(alone) == bits(together)
    assert [row["loss"] for row in histories[0].records] == [
        row["loss"] for row in histories[1].records
    ]
    np.testing.assert_array_equal(
        alone.predict(alone.program.global_block().ops[0].output("out")[0], x=ROWS),
        together.predict(together.program.global_block().ops[0].output("out")[0], x=ROWS),
    )


def test_minimize_averages_gradients_and_broadcasts_the_startup_values() -> None:
    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
        loss = layers.mean(layers.fc(layers.data("x", [None, 6]), 2))
        nn.optimizer.Momentum(0.1).minimize(loss, data_parallel="world")
    types = [op.type for op in main.global_block().ops]
    assert types.count("dist.all_reduce") == 2
    assert types.index("dist.all_reduce") < types.index("momentum")
    shared = [op.output("out")[0] for op in startup.global_block().ops if "broadcast" in op.type]
    assert len(shared) == 5  # weight, bias, two velocities, the learning rate


def test_without_a_package_that_connects_processes_the_error_names_a_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parallel, "scan", lambda group: [])
    with pytest.raises(MissingRequirementError, match="pip install opwright-dist opwright-mpi"):
        nn.Model(data_parallel=True)
    with pytest.raises(MissingRequirementError, match="^batches: .*pip install opwright-dist"):
        nn.batches(DATA, 8, shard="world")


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(
        AttributeValueError, match="unequal_rows must be one of 'refuse', 'weight', got 'ignore'"
    ):
        nn.Model(data_parallel=nn.DataParallel(unequal_rows="ignore"))
    with pytest.raises(dist.DistError, match="unknown group, got 'team'"):
        nn.Model(data_parallel="team")


def test_averaging_sparse_gradients_of_a_table_is_refused() -> None:
    with ow.program_guard(ow.Program(), ow.Program()):
        rows = layers.embedding(layers.data("x", [None], "int64"), (10, 4), sparse=True)
        with pytest.raises(ProgramError, match="must be dense to be averaged.*sparse=False"):
            nn.optimizer.SGD(0.1).minimize(layers.mean(rows), data_parallel=True)


def test_a_process_outside_the_group_is_refused(two: Any) -> None:
    dist.new_group("first", [0])
    with pytest.raises(ProgramError, match="must belong to the group, got 'first'"):
        nn.Model(data_parallel="first")


@pytest.mark.parametrize("shuffle", [True, False])
def test_each_process_receives_its_shard_of_each_batch(two: Any, shuffle: bool) -> None:
    options: dict[str, Any] = {"epochs": 2, "seed": 3, "shuffle": shuffle}
    whole = list(nn.batches(DATA, 8, **options))
    shared = nn.batches(DATA, 8, shard="world", **options)
    parts = list(shared)
    assert len(parts) == len(whole) == len(shared)
    for part, batch in zip(parts, whole, strict=True):  # `two` is rank 1
        np.testing.assert_array_equal(part["x"], batch["x"][len(batch["x"]) // 2 :])
    for left, right in zip(shared.whole(), whole[:4], strict=True):
        np.testing.assert_array_equal(left["y"], right["y"])


def test_sharded_and_unsharded_batches_have_the_same_position(two: Any) -> None:
    shared, whole = nn.batches(DATA, 8, seed=1, shard=True), nn.batches(DATA, 8, seed=1)
    next(shared), next(whole)
    assert shared.position == whole.position
    continued = nn.batches(DATA, 8, seed=1, shard=True)
    continued.restore(whole.position)
    np.testing.assert_array_equal(next(continued)["x"], next(shared)["x"])


def test_a_batch_with_fewer_rows_than_processes_is_refused(two: Any) -> None:
    with pytest.raises(AttributeValueError, match="each of the 2 processes must get a row.*got 1"):
        nn.batches({"x": ROWS[:9]}, 8, shard=True)
    assert len(nn.batches({"x": ROWS[:9]}, 8, shard=True, drop_last=True)) == 1


def double(item: int) -> np.ndarray[Any, Any]:
    return np.array([2.0 * item])


def samples() -> Any:
    return iter(range(11))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_decodes_only_the_shard_of_its_process(two: Any, workers: int) -> None:
    items = list(range(11))
    whole = list(nn.load_batches(items, 4, map=double, seed=2))
    shared = nn.load_batches(items, 4, map=double, seed=2, shard="world", workers=workers)
    for (part,), (batch,) in zip(shared, whole, strict=True):
        np.testing.assert_array_equal(part, batch[len(batch) // 2 :])
    np.testing.assert_array_equal(next(iter(shared.whole()))[0], whole[0][0])


def test_a_stream_yields_only_the_samples_of_its_process(two: Any) -> None:
    whole = list(nn.load_batches(samples, 4, samples=11, seed=2))
    shared = list(nn.load_batches(samples, 4, samples=11, seed=2, shard="world"))
    for (part,), (batch,) in zip(shared, whole, strict=True):
        np.testing.assert_array_equal(part, batch[len(batch) // 2 :])


def test_train_refuses_unsharded_batches_for_a_data_parallel_model(two: Any) -> None:
    model = build(data_parallel=True)
    with pytest.raises(AttributeValueError, match="must share the batches.*shard='world'"):
        nn.train(model, nn.batches(DATA, 8), epochs=1)


def test_run_on_root_calls_the_function_only_on_the_root(two: Any) -> None:
    calls: list[str] = []
    dist.run_on_root(lambda: calls.append("root"), root=1)
    assert calls == ["root"]
    with pytest.raises(KeyError, match="fault"):
        dist.run_on_root(lambda: {}["fault"], root=1)
    two.gather = lambda data, group: [b"OSError: full", data]
    with pytest.raises(dist.DistError, match="must succeed on rank 0, got OSError: full"):
        dist.run_on_root(lambda: calls.append("other"), root=0)
    assert calls == ["root"]
    with pytest.raises(dist.DistError, match=r"root must be in \[0, 2\)"):
        dist.run_on_root(lambda: None, root=2)


def test_processes_with_different_checkpoints_are_reported(two: Any, tmp_path: Any) -> None:
    model = build(data_parallel=True)
    other = pack(b'"the one with the checksum 01234567"')
    two.gather = lambda data, group: [other, data]
    with pytest.raises(ProgramError, match="must read the same saved model, got the one .* rank 1"):
        model.resume(tmp_path / "none", missing_ok=True)
