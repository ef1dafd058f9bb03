"""GradientNorms records the gradient norms of a step without changing training."""

from __future__ import annotations

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import ProgramError


def test_norms_are_computed_from_the_gradients_of_the_first_batch(small, train):
    model = small.make(nn.optimizer.SGD(0.0), drop=0.0)[0]
    norms = nn.GradientNorms()
    train(model, small.data, 2, batch_size=22, shuffle=False, callbacks=norms)
    model.fill("x", small.x)
    model.fill("y", small.y)
    names = [p.name for p, _ in model.param_grads]
    grads = dict(zip(names, model.run(fetch=[g for _, g in model.param_grads]), strict=True))
    assert [r["epoch"] for r in norms.records] == [1, 2]
    for layer in ("fc_0", "fc_1"):
        squares = sum(np.sum(g**2) for name, g in grads.items() if name.startswith(layer))
        assert norms.records[1][layer] == pytest.approx(np.sqrt(squares), rel=1e-4)


def test_the_callback_leaves_training_bitwise_unchanged(small, train):
    plain, watched = small.make()[0], small.make()[0]
    train(plain, small.data, 3, batch_size=4)
    train(watched, small.data, 3, batch_size=4, callbacks=nn.GradientNorms())
    assert small.variables(plain) == small.variables(watched)


def test_the_measured_step_is_recompiled_only_after_a_change_of_the_model(
    small, train, monkeypatch
):
    class Freeze(nn.Callback):
        def after_epoch(self, training, record):
            n_compiled.append(len(compiled))
            if record["epoch"] == 3:
                model.freeze("fc_0_*")

    def compile_and_count(self, *args, **options):
        compiled.append(self)
        return compile_network(self, *args, **options)

    compiled, n_compiled = [], []
    compile_network = ow.Network.compile
    model = small.make()[0]
    monkeypatch.setattr(ow.Network, "compile", compile_and_count)
    norms = nn.GradientNorms()
    train(model, small.data, 5, callbacks=[norms, Freeze()])
    # The training step and the measured step are each compiled once before and after the change.
    assert n_compiled == [2, 2, 2, 4, 4]
    assert ["fc_0" in record for record in norms.records] == [True, True, True, False, False]


def test_resumed_training_keeps_the_norms_recorded_before(small, train, tmp_path):
    for epochs in (1, 2):
        norms = nn.GradientNorms()
        callbacks = [norms, nn.Checkpoint(tmp_path)]
        train(small.make()[0], small.data, epochs, callbacks=callbacks, resume="latest")
    assert [r["epoch"] for r in norms.records] == [1, 2]


def test_a_step_without_a_model_is_refused(small, train):
    with pytest.raises(ProgramError, match="GradientNorms: the training must have a Model"):
        train(lambda x, y: 0.0, small.data, 1, callbacks=nn.GradientNorms())
