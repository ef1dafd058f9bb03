"""Loss scaling: steps that overflow are skipped, and the scale is adjusted."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright import errors
from opwright_nn import layers

X = np.random.default_rng(1).standard_normal((8, 6), np.float32)
Y = np.random.default_rng(2).standard_normal((8, 1), np.float32)
FAR = Y * 1e9
"""The gradient of the squared error is finite in float32, but exceeds the float16 limit 65504."""


def build(optimizer=None, **options):
    """Return a model of two layers in float16."""
    model = nn.Model(mixed_precision=nn.mixed_precision("float16", **options))
    h = model.fc_layer("x", 5, activation="tanh", name="first")
    out = model.fc_layer(h, 1, name="second")
    model.minimize(model.mean(model.mse(out, "y")), optimizer or nn.optimizer.Adam(0.01))
    model.initialize_parameters(seed=3, x=X, y=Y)
    return model


def step(model, y=Y):
    model.fill("x", X)
    model.fill("y", y)
    return model.run()[0]


def values(model, but=("loss_scale",)):
    scope = model.scope
    return {n: scope.var(n).numpy() for n in scope.names() if not n.startswith(but)}


def scale_of(model):
    return float(model.scope.var("loss_scale").numpy()[0])


def assert_same(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def test_a_step_that_overflows_changes_nothing_but_halves_the_scale():
    model = build(loss_scale=2.0**14)
    step(model)
    before = values(model)
    step(model, FAR)
    assert_same(values(model), before)
    assert scale_of(model) == 2.0**13
    assert model.scope.var("loss_scale_good_steps").numpy()[0] == 0
    step(model)
    after = values(model)
    assert all(not np.array_equal(after[n], before[n]) for n in before if "_param" in n)


def test_the_scale_doubles_only_after_steps_without_overflow():
    model = build(loss_scale=4.0, growth_steps=3)
    scales = []
    for y in [Y, Y, Y, Y, Y, FAR, Y, Y, Y]:
        step(model, y)
        scales.append(scale_of(model))
    assert scales == [4.0, 4.0, 8.0, 8.0, 8.0, 4.0, 4.0, 4.0, 8.0]


def test_the_scale_does_not_fall_below_one():
    model = build(loss_scale=2.0)
    for _ in range(3):
        step(model, np.full_like(Y, np.nan))
    assert scale_of(model) == 1.0


def test_all_steps_use_one_plan():
    model = build(loss_scale=2.0**14)
    step(model)
    call = model._step
    step(model, FAR)
    step(model)
    assert model._step is call
    assert model.program.generation == model._generation


def test_gradients_and_clips_are_not_scaled():
    scales = (1.0, 2.0**10)
    clip = nn.clip.ClipByGlobalNorm(0.1)
    models = [build(nn.optimizer.SGD(0.1, clip=clip), loss_scale=scale) for scale in scales]
    for model in models:
        step(model)
    a, b = map(values, models)
    for name in a:
        if name.endswith("_param"):
            np.testing.assert_allclose(a[name], b[name], rtol=1e-3, atol=1e-5, err_msg=name)
    norms = []
    for model in models:
        grads = model.run(fetch=[gradient for _, gradient in model.param_grads])
        norms.append(float(np.sqrt(sum(np.square(g).sum() for g in grads))))
    np.testing.assert_allclose(norms[0], norms[1], rtol=1e-2)


def test_small_gradients_underflow_without_a_loss_scale_and_survive_with_it():
    def gradient(scale):
        model = nn.Model(mixed_precision=nn.mixed_precision("float16", loss_scale=scale))
        out = model.fc_layer("x", 1, bias=False, name="fc")
        model.backward(model.mean(out) * 1e-7)
        model.initialize_parameters(seed=3, x=X)
        model.fill("x", X)
        return model.run(fetch=[model.param_grads[0][1]])[0]

    assert not gradient(1.0).any()
    np.testing.assert_allclose(gradient(65536.0)[:, 0], X.mean(0) * 1e-7, rtol=0.01, atol=1e-10)


def test_accumulated_steps_skip_an_update_with_an_overflow():
    model = build(nn.optimizer.Accumulate(nn.optimizer.SGD(0.1), steps=2), loss_scale=2.0**14)
    step(model)
    before = values(model, ("loss_scale", "accumulated"))
    step(model, FAR)
    after = values(model, ("loss_scale", "accumulated"))
    for name in before:
        if name.endswith("_param"):
            np.testing.assert_array_equal(before[name], after[name], err_msg=name)
    assert scale_of(model) == 2.0**13
    step(model)
    step(model)
    assert not np.array_equal(values(model)["first_w_param"], before["first_w_param"])
    assert scale_of(model) == 2.0**13


def test_resumed_training_has_a_bitwise_identical_scale(tmp_path):
    def make():
        return build(loss_scale=2.0**14, growth_steps=2)

    whole, first = make(), make()
    for y in [Y, FAR, Y, Y, Y]:
        step(whole, y)
    for y in [Y, FAR, Y]:
        step(first, y)
    first.save(tmp_path / "checkpoint")
    second = make()
    second.resume(tmp_path / "checkpoint")
    for y in [Y, Y]:
        step(second, y)
    assert_same(values(second, ()), values(whole, ()))


def test_minimize_within_the_block_scales_the_loss_of_a_program():
    policy = nn.mixed_precision("float16", loss_scale=1024)
    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup), policy:
        loss = layers.mean(layers.fc(layers.data("x", [None, 6]), 1, name="fc"))
        nn.optimizer.SGD(0.1).minimize(loss)
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    assert scope.var("loss_scale").numpy().tolist() == [1024.0]
    before = scope.var("fc_w_param").numpy()
    ow.Network(main.global_block()).compile(["x"], [loss], scope=scope)(x=X)
    moved = before - scope.var("fc_w_param").numpy()
    np.testing.assert_allclose(moved[:, 0], 0.1 * X.mean(0), rtol=0.01, atol=1e-4)


def test_minimize_outside_the_block_is_refused():
    with ow.program_guard(ow.Program(), ow.Program()):
        with nn.mixed_precision("float16"):
            loss = layers.mean(layers.fc(layers.data("x", [None, 6]), 1))
        with pytest.raises(errors.ProgramError, match="SGD: gradients in float16 need"):
            nn.optimizer.SGD(0.1).minimize(loss)


def test_sparse_gradients_are_refused():
    with ow.program_guard(ow.Program(), ow.Program()), nn.mixed_precision("float16"):
        table = layers.embedding(layers.data("i", [None], "int64"), (9, 4), sparse=True)
        loss = layers.mean(layers.fc(table, 1))
        with pytest.raises(errors.ProgramError, match="must be dense for a scaled loss"):
            nn.optimizer.SGD(0.1).minimize(loss)
