"""Tests programs, shards and files of sharded optimizer states."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import opwright as ow
import opwright_dist as dist
import opwright_nn as nn
from opwright.errors import ProgramError
from opwright_dist.operators.shards import LINE, shard_length

Make = Callable[[], nn.optimizer.Optimizer]

OPTIMIZERS: dict[str, Make] = {
    "sgd": lambda: nn.optimizer.SGD(0.1),
    "regularized": lambda: nn.optimizer.Adam(0.01, regularizer=nn.regularizer.L1(0.1)),
    "clipped": lambda: nn.optimizer.AdamW(0.01, clip=nn.clip.ClipByGlobalNorm(0.5)),
    "clipped each": lambda: nn.optimizer.Momentum(0.01, clip=nn.clip.ClipByNorm(0.5)),
    "clipped by value": lambda: nn.optimizer.Lion(0.01, clip=nn.clip.ClipByValue(0.5)),
    "accumulated": lambda: nn.optimizer.Accumulate(nn.optimizer.Adam(0.01), steps=3),
}


def build(
    shard: bool, make: Make = OPTIMIZERS["clipped"], precision: str | None = None
) -> tuple[ow.Program, ow.Variable]:
    with ow.program_guard(ow.Program(seed=1), ow.Program(seed=1)) as (main, _):
        x, y = nn.layers.data("x", [None, 6]), nn.layers.data("y", [None, 1])
        choice = nn.DataParallel(shard_optimizer=shard)

        def minimize() -> ow.Variable:
            hidden = nn.layers.dropout(nn.layers.fc(x, 7), 0.2)
            error = nn.layers.fc(hidden, 1) - y
            loss = nn.layers.mean(error * error)
            make().minimize(loss, data_parallel=choice)
            return loss

        if precision is None:
            return main, minimize()
        with nn.mixed_precision(precision):
            return main, minimize()


def model_of(shard: bool) -> nn.Model:
    """Return a model whose input width is unknown."""
    model = nn.Model(data_parallel=nn.DataParallel(shard_optimizer=shard))
    error = model.fc_layer(model.fc_layer("x", 7), 1) - model.input("y")
    model.minimize(model.mean(error * error), nn.optimizer.Adam(0.01))
    return model


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 1000, 1024])
@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_equal_shards_cover_a_tensor_with_little_padding(n: int, size: int) -> None:
    length = shard_length((n,), size)
    assert length % LINE == 0
    assert n <= length * size < n + LINE * size
    assert shard_length((-1, n), size) == -1


def test_in_one_process_a_sharded_program_equals_the_unsharded_program() -> None:
    divided, plain = build(True)[0], build(False)[0]
    assert divided.to_proto() == plain.to_proto()


@pytest.mark.parametrize("precision", [None, "float16"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_unsharded_copy_equals_the_original_program(
    two: dist.Engine, name: str, precision: str | None
) -> None:
    divided, plain = (build(shard, OPTIMIZERS[name], precision)[0] for shard in (True, False))
    assert divided.to_proto() != plain.to_proto()
    before = divided.to_proto()
    assert dist.whole_program(divided).to_proto() == plain.to_proto()
    assert divided.to_proto() == before
    assert dist.whole_program(plain) is plain


@pytest.mark.parametrize("precision", [None, "float16"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_inference_programs_are_unsharded(
    two: dist.Engine, name: str, precision: str | None
) -> None:
    divided, plain = (build(shard, OPTIMIZERS[name], precision)[0] for shard in (True, False))
    forward = divided.clone(for_inference=True)
    assert str(forward) == str(plain.clone(for_inference=True))


def test_each_process_has_a_shard_of_each_state(two: dist.Engine) -> None:
    main, _ = build(True, OPTIMIZERS["accumulated"])
    block = main.global_block()
    shapes = {
        name: block.var(f"fc_0_w_param_{name}").shape
        for name in ("moment1", "moment2", "accumulated", "beta1_power")
    }
    part = (shard_length((6, 7), 2),)
    assert shapes == {"moment1": part, "moment2": part, "accumulated": part, "beta1_power": (1,)}


def test_state_shapes_are_updated_when_a_parameter_shape_becomes_known(two: dist.Engine) -> None:
    model, plain = model_of(True), model_of(False)
    state = model.program.global_block().var("fc_0_w_param_moment1")
    assert state.shape == (-1,)
    assert dist.whole_program(model.program).to_proto() == plain.program.to_proto()
    model.initialize_parameters(x=np.ones((4, 6), np.float32), y=np.ones((4, 1), np.float32))
    assert state.shape == (shard_length((6, 7), 2),)


def test_a_frozen_parameter_keeps_its_states(two: dist.Engine) -> None:
    divided, plain = model_of(True), model_of(False)
    for model in (divided, plain):
        model.freeze("fc_0_*")
    written = [name for op in divided.program.global_block().ops for name in op.output_names()]
    assert "fc_0_w_param" not in written
    assert "fc_0_w_param_moment1" not in written
    assert dist.whole_program(divided.program).to_proto() == plain.program.to_proto()
    for model in (divided, plain):
        model.unfreeze("fc_0_*")
    assert dist.whole_program(divided.program).to_proto() == plain.program.to_proto()


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64"])
@pytest.mark.parametrize("shape", [(), (3,), (5, 7), (0, 4), (2, 16)])
def test_a_shard_is_a_range_of_elements_padded_with_zeros(
    two: dist.Engine, shape: tuple[int, ...], dtype: str
) -> None:
    block = ow.Program().global_block()
    x = block.create_var("x", shape=[-1] * len(shape), dtype=dtype)
    block.append_op("dist.shard", inputs={"x": x}, outputs={"out": "part"})
    array = np.arange(1, int(np.prod(shape)) + 1).reshape(shape).astype(dtype)
    (part,) = ow.Network(block).compile(feed=[x], fetch=["part"])(x=array)
    length = shard_length(shape, 2)
    whole = np.zeros(2 * length, dtype)
    whole[: array.size] = array.reshape(-1)
    np.testing.assert_array_equal(part, whole[length:])  # the engine of rank 1


def test_in_one_process_a_reduced_and_gathered_tensor_is_unchanged() -> None:
    block = ow.Program().global_block()
    x = block.create_var("x", shape=[5, 7])
    block.append_op("dist.reduce_shard", inputs={"x": x}, outputs={"out": "part"})
    block.append_op("dist.unshard", inputs={"x": "part", "like": x}, outputs={"out": "y"})
    array = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    (joined,) = ow.Network(block).compile(feed=[x], fetch=["y"])(x=array)
    np.testing.assert_array_equal(joined, array)


def test_only_values_of_sharded_states_are_split(two: dist.Engine) -> None:
    main, _ = build(True)
    whole = np.arange(42, dtype=np.float32).reshape(6, 7)
    given = {"fc_0_w_param": whole, "fc_0_w_param_moment1": whole, "unknown": whole}
    own = dist.shard_values(main, given)
    assert own["fc_0_w_param"] is whole
    assert own["unknown"] is whole
    length = shard_length((6, 7), 2)
    np.testing.assert_array_equal(
        own["fc_0_w_param_moment1"], np.pad(whole.reshape(-1)[length:], (0, 2 * length - 42))
    )


def test_a_sharded_program_saved_by_another_process_is_refused(two: dist.Engine) -> None:
    main, loss = build(True)
    stored = ow.Program.from_proto(main.to_proto())
    for op in stored.global_block().ops:
        if op.type == "dist.shard":
            assert op.attrs["rank"] == dist.rank() == 1
            op.attrs["rank"] = 0
    feeds = {"x": np.ones((4, 6), np.float32), "y": np.ones((4, 1), np.float32)}
    scope = ow.Scope()
    for variable in stored.global_block().vars.values():
        if variable.persistable:
            scope.var(variable.name).set(np.zeros(variable.shape or (), variable.dtype))
    step = ow.Network(stored.global_block()).compile(
        feed=["x", "y"], fetch=[loss.name], scope=scope
    )
    with pytest.raises(dist.DistError, match=r"rank that built it \(0\), got rank 1.*gather"):
        step(**feeds)


def test_an_optimizer_that_needs_unsharded_parameters_is_refused(two: dist.Engine) -> None:
    with pytest.raises(ProgramError, match=r"Lamb: .*sharded over processes, got .*'lamb'.*AdamW"):
        build(True, lambda: nn.optimizer.Lamb(0.01))
    build(False, lambda: nn.optimizer.Lamb(0.01))


def test_a_custom_optimizer_declares_whether_it_can_be_sharded(two: dist.Engine) -> None:
    class Own(nn.optimizer.SGD):
        op_type = "sgd"

    with pytest.raises(ProgramError, match="Own: an optimizer must update each element separately"):
        build(True, lambda: Own(0.1))
    Own.elementwise = True
    build(True, lambda: Own(0.1))


def test_a_custom_clip_that_does_not_support_shards_is_refused(two: dist.Engine) -> None:
    class Own(nn.clip.GradientClip):
        def append(self, pairs):  # type: ignore[no-untyped-def]
            return list(pairs)

    with pytest.raises(ProgramError, match="Own: append_to_shards must clip gradient shards"):
        build(True, lambda: nn.optimizer.SGD(0.1, clip=Own()))


def test_partially_sharded_parameters_are_refused(two: dist.Engine) -> None:
    with ow.program_guard(ow.Program(), ow.Program()):
        x = nn.layers.data("x", [None, 6])
        pairs = ow.append_backward(nn.layers.mean(nn.layers.fc(x, 3)))
        divided = dist.data_parallel(pairs[:1], shard_optimizer=True)
        with pytest.raises(ProgramError, match="all parameters or none must be divided.*b_param"):
            nn.optimizer.SGD(0.1).apply_gradients([*divided, pairs[1]])


def test_gathering_an_unsharded_variable_is_refused(two: dist.Engine) -> None:
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        nn.layers.fc(nn.layers.data("x", [None, 6]), 3)
        with pytest.raises(dist.DistError, match="must be sharded, got 'fc_0_w_param'"):
            dist.gather_parameters(main.parameters()[:1])


def test_rehearsing_a_sharded_program_raises(two: dist.Engine) -> None:
    from opwright_simulation import rehearse

    main, _ = build(True)
    with pytest.raises(dist.DistError, match=r"must not be sharded.*whole_program\(program\)"):
        rehearse(main, {})


def test_a_state_without_a_value_is_not_gathered(two: dist.Engine) -> None:
    main, _ = build(True)
    with pytest.raises(dist.DistError, match="states must have values, got none for 'fc_0_w_"):
        dist.gather_state(main, ow.Scope())


def test_shard_optimizer_must_be_a_bool() -> None:
    with pytest.raises(TypeError, match="shard_optimizer must be"):
        nn.Model(data_parallel=nn.DataParallel(shard_optimizer="yes"))  # type: ignore[arg-type]
