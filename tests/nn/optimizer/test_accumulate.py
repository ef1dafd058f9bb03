"""Accumulate: several small steps equal one large step, even across a checkpoint."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import AttributeTypeError, AttributeValueError, ProgramError
from opwright_nn import layers
from opwright_nn.optimizer import SGD, Accumulate, Adam

RNG = np.random.default_rng(3)
X = RNG.normal(size=(12, 5)).astype(np.float32)
Y = RNG.integers(0, 3, (12, 1))


def make_model(optimizer):
    model = nn.Model()
    scores = model.fc_layer("x", size=3)
    model.backward(model.mean(model.softmax_with_cross_entropy(scores, "y")))
    model.optimize(optimizer)
    model.initialize_parameters(seed=5, x=X)
    return model


def run(model, begin, end):
    model.fill("x", X[begin:end])
    model.fill("y", Y[begin:end])
    return model.run()[0]


def parameters(model):
    return {p.name: model.scope.var(p.name).numpy() for p in model.parameters}


@pytest.mark.parametrize(
    "make",
    [
        lambda: Adam(0.1),
        lambda: SGD(0.5, clip=nn.clip.ClipByGlobalNorm(0.01)),
        lambda: SGD(nn.schedule.step(0.5, size=1, gamma=0.5)),
    ],
)
def test_accumulating_parts_of_a_batch_updates_like_the_complete_batch(make):
    whole, parts = make_model(make()), make_model(Accumulate(make(), steps=3))
    for _ in range(4):
        run(whole, 0, 12)
        for begin in (0, 4, 8):
            before = parameters(parts)
            run(parts, begin, begin + 4)
            changed = any((before[n] != a).any() for n, a in parameters(parts).items())
            assert changed is (begin == 8)
        for name, array in parameters(whole).items():
            np.testing.assert_allclose(parameters(parts)[name], array, rtol=1e-4, atol=1e-5)


def test_a_checkpoint_continues_between_two_updates(tmp_path):
    model = make_model(Accumulate(Adam(0.1), steps=3))
    for begin in (0, 4, 8, 0):
        run(model, begin, begin + 4)
    model.save(tmp_path / "model")
    again = make_model(Accumulate(Adam(0.1), steps=3))
    run(again, 0, 4)
    again.resume(tmp_path / "model")
    for begin in (4, 8, 0):
        assert run(again, begin, begin + 4).tobytes() == run(model, begin, begin + 4).tobytes()
    for name, array in parameters(model).items():
        assert parameters(again)[name].tobytes() == array.tobytes()


def test_a_compiled_step_updates_only_after_every_second_batch():
    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
        x = layers.data("x", [None, 5])
        y = layers.data("y", [None, 1], dtype="int64")
        loss = layers.mean(layers.softmax_with_cross_entropy(layers.fc(x, size=3), y))
        optimizer = Accumulate(Adam(0.1), steps=2)
        optimizer.minimize(loss)
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    step = optimizer.compile(main, ["x", "y"], [loss], scope)
    assert step.feed_names == ("x", "y")
    losses = [float(step(x=X, y=Y)[0]) for _ in range(5)]
    assert losses[0] == losses[1] > losses[2] == losses[3] > losses[4]


def test_the_learning_rate_belongs_to_the_inner_optimizer():
    model = make_model(Accumulate(SGD(0.5), steps=2))
    model.set_learning_rate(0.0)
    before = parameters(model)
    for begin in (0, 4, 8):
        run(model, begin, begin + 4)
    assert all((before[name] == array).all() for name, array in parameters(model).items())


def test_the_error_names_a_wrong_argument():
    with pytest.raises(AttributeTypeError, match="Accumulate: optimizer must be an Optimizer"):
        Accumulate("adam", steps=2)
    with pytest.raises(AttributeValueError, match="Accumulate: steps must be"):
        Accumulate(Adam(), steps=0)
    with pytest.raises(AttributeTypeError, match="got 'step'; did you mean 'steps'"):
        Accumulate(Adam(), step=2)
    with pytest.raises(ProgramError, match="must update in each step, got Accumulate"):
        Accumulate(Accumulate(Adam(), steps=2), steps=2)
    with pytest.raises(ProgramError, match="must be appended first, got a program without them"):
        Accumulate(Adam(), steps=2).compile(ow.Program(), [], [], ow.Scope())
