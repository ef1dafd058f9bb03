"""With one process, partitioned layers equal opwright-nn layers; invalid arguments raise."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import opwright as ow
import opwright_dist as dist
import opwright_nn as nn
from opwright.errors import (
    AttributeValueError,
    KernelError,
    MissingRequirementError,
    ProgramError,
    ShapeError,
)
from opwright_dist.training.divided import find_divisions
from opwright_nn.checkpoint.comparing import compare_operators

IDS = np.random.default_rng(0).integers(0, 11, (8, 3))
X = np.random.default_rng(1).normal(size=(8, 8)).astype(np.float32)

Layers = Callable[[ow.Variable], ow.Variable]
OPTIMIZERS = (nn.optimizer.SGD, nn.optimizer.Momentum, nn.optimizer.Adagrad, nn.optimizer.Adam)


def build(
    layers: Layers, feed: tuple[list[int | None], str], optimizer: Any, parallel: str | None
) -> tuple[ow.Program, ow.Program, ow.Variable]:
    with ow.program_guard(ow.Program(seed=1), ow.Program(seed=1)) as (main, startup):
        out = nn.layers.fc(layers(nn.layers.data("x", *feed)), 2, name="last")
        loss = nn.layers.mean(out * out)
        optimizer.minimize(loss, data_parallel=parallel)
    return main, startup, loss


def train(layers: Layers, data: Any, optimizer: Any, parallel: str | None = None) -> Any:
    feed = [None, *data.shape[1:]], data.dtype.name
    main, startup, loss = build(layers, feed, optimizer, parallel)
    scope = ow.Scope()
    ow.Network(startup.global_block()).compile(fetch=[], scope=scope)()
    step = ow.Network(main.global_block()).compile(feed=["x"], fetch=[loss], scope=scope)
    losses = [step(x=data)[0].tobytes() for _ in range(4)]
    return losses, {p.name: scope.var(p.name).numpy() for p in main.parameters()}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("sparse", [False, True])
def test_in_one_process_a_partitioned_table_trains_like_an_unsharded_table(
    optimizer: Any, sparse: bool
) -> None:
    options: dict[str, Any] = {"sparse": sparse, "padding_index": 2, "name": "e"}

    def divided(x: ow.Variable) -> ow.Variable:
        return dist.layers.embedding(x, [11, 4], **options)

    def plain(x: ow.Variable) -> ow.Variable:
        return nn.layers.embedding(x, [11, 4], **options)

    losses, values = train(divided, IDS, optimizer(0.1), "world")
    wanted_losses, wanted = train(plain, IDS, optimizer(0.1))
    assert losses == wanted_losses
    assert values["e_w_param"].shape == (12, 4)
    assert not values["e_w_param"][0].any()
    np.testing.assert_allclose(values["e_w_param"][1:], wanted["e_w_param"], rtol=1e-6)


def divided_layers(x: ow.Variable, group: str = "world") -> ow.Variable:
    fc, of_group = dist.layers.fc, {"group": group}
    h = fc(x, 12, split="columns", activation="relu", name="a", **of_group)
    h = fc(h, 8, split="rows", x_is_split=True, activation="tanh", name="b", **of_group)
    h = fc(h, 6, split="columns", gather=True, activation="softmax", name="c", **of_group)
    return fc(h, 4, split="rows", bias=False, name="d", **of_group)


def plain_layers(x: ow.Variable) -> ow.Variable:
    fc = nn.layers.fc
    h = fc(fc(x, 12, activation="relu", name="a"), 8, activation="tanh", name="b")
    return fc(fc(h, 6, activation="softmax", name="c"), 4, bias=False, name="d")


def test_layers_that_are_partitioned_differently_train_like_unsharded_layers() -> None:
    losses, values = train(divided_layers, X, nn.optimizer.Adam(0.01))
    wanted_losses, wanted = train(plain_layers, X, nn.optimizer.Adam(0.01))
    assert values.keys() == wanted.keys()
    np.testing.assert_allclose(
        [np.frombuffer(loss, np.float32) for loss in losses],
        [np.frombuffer(loss, np.float32) for loss in wanted_losses],
        rtol=1e-6,
    )
    for name, value in values.items():
        np.testing.assert_allclose(value, wanted[name], rtol=1e-5, atol=1e-7, err_msg=name)


def both_layers(x: ow.Variable) -> ow.Variable:
    rows = dist.layers.embedding(x, [11, 4], name="e", group="table")
    return divided_layers(nn.layers.reshape(rows, [-1, 12]), "tensor")


def test_a_program_does_not_depend_on_the_number_of_processes(two: Any) -> None:
    def write() -> ow.Program:
        for name in ("table", "tensor"):
            dist.new_groups(name, [range(dist.size())])
        return build(both_layers, ([None, 3], "int64"), nn.optimizer.Adam(0.1), None)[0]

    together = write()
    before = dist.set_world(dist.World(dist.SingleProcess()))
    try:
        alone = write()
    finally:
        dist.set_world(before)
    assert compare_operators(together, alone) == []
    shapes = [program.global_block().var("a_w_param").shape for program in (together, alone)]
    assert shapes == [(12, 6), (12, 12)]


def test_each_of_two_processes_has_one_shard_and_its_optimizer_states(two: Any) -> None:
    def layers(x: ow.Variable) -> ow.Variable:
        return divided_layers(dist.layers.embedding(x, [11, 8], name="e"))

    adam = nn.optimizer.Accumulate(nn.optimizer.Adam(0.1), steps=2)
    main, *_ = build(layers, ([None], "int64"), adam, None)
    shapes = {v.name: v.shape for v in main.global_block().vars.values() if v.persistable}
    wanted = {"e_w": (7, 8), "a_w": (8, 6), "a_b": (6,), "b_w": (6, 8), "b_b": (8,), "c_w": (8, 3)}
    wanted |= {"c_b": (3,), "d_w": (3, 4)}
    assert {name: shapes[f"{name}_param"] for name in wanted} == wanted
    divided = find_divisions(main)
    parts = [name for name in wanted if name != "b_b"]
    states = ("", "_moment1", "_moment2", "_accumulated")
    assert set(divided) == {f"{name}_param{state}" for name in parts for state in states}
    whole = dist.whole_program(main).global_block()
    assert whole.var("e_w_param_moment1").shape == (12, 8)
    assert whole.var("a_w_param_accumulated").shape == (8, 12)
    assert whole.var("b_w_param").shape == (12, 8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 7, "split": "columns"}, r"divisible by the 2 processes of group 'world'"),
        ({"split": "planes"}, r"split must be one of 'columns', 'rows', got 'planes'"),
        ({"split": "rows", "gather": True}, r"gather must be omitted with split='rows'"),
        ({"split": "columns", "x_is_split": True}, r"x_is_split must be omitted with split='col"),
        (
            {"split": "columns", "activation": "softmax"},
            r"must be elementwise for ungathered columns, got 'softmax'; pass gather",
        ),
        (
            {"split": "columns", "bias": False, "bias_attr": nn.initializer.Constant()},
            r"bias_attr must be left out with bias=False",
        ),
        (
            {"split": "rows", "bias": False, "bias_attr": nn.initializer.Constant()},
            r"bias_attr must be left out with bias=False",
        ),
    ],
)
def test_invalid_arguments_of_fc_are_refused(
    two: Any, arguments: dict[str, Any], message: str
) -> None:
    with ow.program_guard(ow.Program(), ow.Program()):
        x = nn.layers.data("x", [None, 8])
        with pytest.raises(AttributeValueError, match=message):
            dist.layers.fc(x, **{"size": 8, **arguments})


def test_a_width_that_cannot_be_divided_is_refused(two: Any) -> None:
    with ow.program_guard(ow.Program(), ow.Program()):
        x = nn.layers.data("x", [None, 7])
        with pytest.raises(ShapeError, match="width of x must be divisible by the 2 processes"):
            dist.layers.fc(x, 4, split="rows")
        with pytest.raises(ShapeError, match="x must have num_flatten_dims \\+ 1 = 2 axes"):
            dist.layers.fc(nn.layers.data("z", [None, 3, 4]), 4, split="rows")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": [0, 4]}, r"size must be \[rows, columns\], both at least 1, got \[0, 4\]"),
        ({"padding_index": 11}, r"padding_index must be an int in \[-1, 10\], got 11"),
    ],
)
def test_invalid_arguments_of_embedding_are_refused(
    arguments: dict[str, Any], message: str
) -> None:
    with ow.program_guard(ow.Program(), ow.Program()):
        ids = nn.layers.data("ids", [None], "int64")
        with pytest.raises(AttributeValueError, match=message):
            dist.layers.embedding(ids, **{"size": [11, 4], **arguments})


def test_an_unknown_group_is_refused() -> None:
    with ow.program_guard(ow.Program(), ow.Program()):
        x = nn.layers.data("x", [None, 8])
        with pytest.raises(dist.DistError, match=r"dist\.fc: unknown group, got 'tensor'"):
            dist.layers.fc(x, 4, split="rows", group="tensor")


@pytest.mark.parametrize("wrong", [-1, 11])
def test_ids_outside_the_table_are_refused(wrong: int) -> None:
    def layers(x: ow.Variable) -> ow.Variable:
        return dist.layers.embedding(x, [11, 4], name="e")

    ids = IDS.copy()
    ids[3, 1] = wrong
    with pytest.raises(KernelError, match=rf"ids must be in \[0, 11\), got {wrong}"):
        train(layers, ids, nn.optimizer.SGD(0.1))


@pytest.mark.parametrize("size", [11, 2**58])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_each_distinct_id_is_routed_once_to_the_process_that_has_its_row(
    two: Any, size: int, dtype: str
) -> None:
    ids = np.array([[3, 0, 3], [10, 2, 0], [5, 5, 4]], dtype)
    options = {"size": size, "padding_index": 2}
    rows, places, counts = ow.ops.dist.route_rows(ids, **options)
    # The even ids 0, 4 and 10 are rows 1, 3 and 6 of process 0; the odd ids 3 and 5 are rows 2 and
    # 3 of process 1.
    np.testing.assert_array_equal(rows, [1, 3, 6, 2, 3, 0, 0, 0, 0])
    np.testing.assert_array_equal(counts, [3, 2])
    np.testing.assert_array_equal(places, [[3, 0, 3], [2, 5, 0], [4, 4, 1]])
    empty = ow.ops.dist.route_rows(np.zeros((0, 2), dtype), **options)
    assert [each.shape for each in empty] == [(0,), (0, 2), (2,)]
    assert not empty[2].any()


NORM = nn.clip.ClipByGlobalNorm(1.0)


@pytest.mark.parametrize(
    ("optimizer", "reader"),
    [
        (nn.optimizer.Adam(0.1, clip=NORM), "clip=ClipByGlobalNorm"),
        (nn.optimizer.Adam(0.1, clip=nn.clip.ClipByNorm(1.0)), "clip=ClipByNorm"),
        (nn.optimizer.Lamb(0.1), "this optimizer"),
    ],
)
def test_operators_that_need_unsharded_gradients_are_refused(optimizer: Any, reader: str) -> None:
    rule = f"of 'a_w_param' must be complete for {reader}, got the shard"
    with pytest.raises(ProgramError, match=rule):
        build(divided_layers, ([None, 8], "float32"), optimizer, None)
    by_value = nn.optimizer.Adam(0.1, clip=nn.clip.ClipByValue(1.0))
    build(divided_layers, ([None, 8], "float32"), by_value, None)


def test_a_scaled_loss_is_refused() -> None:
    with (
        nn.mixed_precision("float16"),
        pytest.raises(ProgramError, match="must be complete for a scaled loss.*train in bfloat16"),
    ):
        build(divided_layers, ([None, 8], "float32"), nn.optimizer.Adam(0.1), None)


def test_processes_that_share_a_partitioned_layer_must_use_the_same_batch(two: Any) -> None:
    with pytest.raises(dist.DistError, match="must have the same part of 'a_w_param', got group"):
        build(divided_layers, ([None, 8], "float32"), nn.optimizer.Adam(0.1), "world")
    dist.new_groups("tensor", [[0, 1]])

    def layers(x: ow.Variable) -> ow.Variable:
        return divided_layers(x, "tensor")

    with pytest.raises(dist.DistError, match="separate groups .* with opwright_dist.new_groups"):
        build(layers, ([None, 8], "float32"), nn.optimizer.Adam(0.1), "world")


def test_averaging_sparse_gradients_of_a_table_that_belongs_to_another_group_is_refused(
    two: Any,
) -> None:
    dist.new_groups("alone", [[0], [1]])

    def layers(x: ow.Variable) -> ow.Variable:
        return dist.layers.embedding(x, [11, 4], sparse=True, group="alone", name="e")

    with pytest.raises(ProgramError, match="'e_w_param' must be dense to be averaged"):
        build(layers, ([None], "int64"), nn.optimizer.Adam(0.1), "world")


def test_shards_and_their_states_are_not_broadcast_to_other_processes(two: Any) -> None:
    def layers(x: ow.Variable) -> ow.Variable:
        return dist.layers.embedding(x, [11, 8], name="e")

    _, startup, _ = build(layers, ([None], "int64"), nn.optimizer.Momentum(0.1), "world")
    ops = startup.global_block().ops
    shared = {name for op in ops if op.type == "dist.broadcast" for name in op.output("out")}
    wanted = {"last_w_param", "last_b_param", "last_w_param_velocity", "last_b_param_velocity"}
    assert shared == wanted | {"learning_rate"}


def test_a_shared_parameter_is_partitioned_once(two: Any) -> None:
    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
        x = nn.layers.data("x", [None, 8])
        shared = nn.ParamAttr(name="shared")
        for name in "ab":
            dist.layers.fc(x, 8, split="columns", bias=False, name=name, param_attr=shared)
        with pytest.raises(
            ProgramError, match="partitioned as in this layer, on axis 0 .*got axis 1 o"
        ):
            dist.layers.fc(x, 4, split="rows", bias=False, param_attr=shared)
        nn.layers.fc(x, 8, bias=False, name="whole")
        whole = nn.ParamAttr(name="whole_w_param")
        with pytest.raises(ProgramError, match="'whole_w_param'.*got a parameter that is not part"):
            dist.layers.fc(x, 8, split="columns", bias=False, param_attr=whole)
    assert [p.name for p in main.parameters()] == ["shared", "whole_w_param"]
    assert [op.type for op in startup.global_block().ops].count("dist.own_part") == 1


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([[0]], r"each process must be in exactly one group.*got \[\[0\]\], which lacks rank 1"),
        ([[0, 1], []], "with an empty group"),
        ([[0, 1], [1]], r"ranks must be one or more distinct numbers, got \[0, 1, 1\]"),
        ([[0, 1, 2]], r"ranks must be in \[0, 2\), got 2"),
    ],
)
def test_groups_that_do_not_partition_the_world_are_refused(
    two: Any, parts: list[list[int]], message: str
) -> None:
    with pytest.raises(dist.DistError, match=f"new_groups: .*{message}"):
        dist.new_groups("data", parts)


def test_a_group_name_refers_to_the_group_of_the_current_process(two: Any) -> None:
    group = dist.new_groups("data", [[0], [1]])
    assert (group.ranks, group.rank, dist.size("data")) == ((1,), 0, 1)
    assert two.added == [("data", (1,))]
    with pytest.raises(dist.DistError, match="new_groups: the name must be new, got 'data'"):
        dist.new_groups("data", [[0, 1]])


def test_running_a_program_built_for_a_different_number_of_processes_raises(two: Any) -> None:
    def layers(x: ow.Variable) -> ow.Variable:
        return dist.layers.embedding(x, [11, 4], name="e")

    main, *_ = build(layers, ([None], "int64"), nn.optimizer.SGD(0.1), None)
    whole = dist.whole_program(main)
    scope = ow.Scope()
    for parameter in whole.parameters():
        scope.var(parameter.name).set(np.zeros(parameter.shape or (), np.float32))
    with pytest.raises(ShapeError, match="axis 0 of a part must have length 7, for a complete"):
        ow.Network(whole.global_block()).compile(feed=["x"], fetch=["last_out"], scope=scope)(
            x=np.zeros(3, np.int64)
        )


def test_values_with_the_wrong_shape_are_refused(two: Any) -> None:
    main, *_ = build(divided_layers, ([None, 8], "float32"), nn.optimizer.SGD(0.1), None)
    part = dist.shard_values(main, {"a_b_param": np.arange(12.0, dtype=np.float32)})
    np.testing.assert_array_equal(part["a_b_param"], np.arange(6, 12))
    with pytest.raises(
        dist.DistError, match=r"'a_b_param': the value must have the complete shape \[12\]"
    ):
        dist.shard_values(main, {"a_b_param": np.zeros(7, np.float32)})


def test_without_opwright_nn_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    from opwright_dist import layers

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingRequirementError, match="pip install opwright-nn"):
        importlib.reload(layers)


def test_layers_in_a_model_accept_names_instead_of_variables():
    model = nn.Model()
    with model:
        dist.layers.fc(dist.layers.embedding("words", [50, 16]), 4, split="columns")
        dist.layers.fc("pixels", 4, split="rows")
    block = model.program.global_block()
    assert (block.var("words").dtype, block.var("pixels").dtype) == ("int64", "float32")
