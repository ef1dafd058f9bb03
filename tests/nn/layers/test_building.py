"""A layer, a loss or an optimizer is appended completely or not at all."""

from __future__ import annotations

import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import AttributeValueError, DtypeError, OpwrightError, ProgramError
from opwright_nn import layers, optimizer


def test_a_failed_layer_does_not_advance_the_layer_number(programs):
    index = layers.data("index", [None, 3], "int64")
    with pytest.raises(DtypeError, match="must have a float dtype"):
        layers.fc(index, 4)
    assert layers.fc(layers.data("x", [None, 3]), 4).name == "fc_0_out"


def test_failed_calls_leave_a_model_unchanged(tiny, everything):
    plain, tried = nn.Model(), nn.Model()
    for mistyped in ({"activation": "sigmoidd"}, {"num_flatten_dims": "1"}, {"param_attr": 1}):
        with pytest.raises(OpwrightError, match="fc: "):
            tried.fc_layer(**({"input": "img", "size": 5} | mistyped))
    for model in (plain, tried):
        hidden = model.fc_layer(input="img", size=5, activation="sigmoid")
        if model is tried:
            with pytest.raises(AttributeValueError, match="batch_norm: momentum"), model.guard():
                layers.batch_norm(hidden, momentum=2)
        loss = model.mean(input=model.cross_entropy(input=hidden, label="label"))
        model.backward(loss)
        model.sgd(learning_rate=0.5)
    assert everything(tried.program) == everything(plain.program)
    assert everything(tried.startup_program) == everything(plain.startup_program)


def test_a_failed_minimize_of_a_loss_in_another_program_leaves_that_program_unchanged(
    tiny, snapshot, everything
):
    model, _ = tiny.make(optimize=False)
    loss = model.program.global_block().var("mean_0_out")
    adam = optimizer.Adam(0.1)
    before = everything(model.program), snapshot()
    with pytest.raises(ProgramError, match="Adam: gradients must belong to the default main"):
        adam.minimize(loss)
    assert (everything(model.program), snapshot()) == before
    with model.guard():
        adam.minimize(loss)
    assert [op.type for op in model.program.global_block().ops].count("adam") == 4


def test_an_optimizer_can_be_used_after_a_failure(programs, snapshot):
    class Picky(optimizer.SGD):
        refuses = True

        def attrs(self):
            if self.refuses:
                raise ValueError("not yet")
            return {}

    loss = layers.mean(layers.fc(layers.data("x", [None, 3]), 4))
    adam, before = Picky(0.1), snapshot()
    with pytest.raises(ValueError, match="not yet"):
        adam.minimize(loss)
    assert snapshot() == before
    with pytest.raises(ProgramError, match="the learning rate has no variable before minimize"):
        _ = adam.learning_rate
    adam.refuses = False
    adam.minimize(loss)
    assert adam.learning_rate.name == "learning_rate"


def test_a_model_reverts_its_state_with_an_outer_transaction(tiny, everything):
    model, prob = tiny.make(optimize=False)
    before = everything(model.program), everything(model.startup_program)

    @ow.transaction()
    def build():
        model.accuracy(prob, "label")
        model.backward("mean_0_out")
        model.momentum(0.1)
        raise RuntimeError("changed my mind")

    with pytest.raises(RuntimeError, match="changed my mind"):
        build()
    assert (everything(model.program), everything(model.startup_program)) == before
    tiny.fill(model)
    model.backward("mean_0_out")
    model.sgd(0.5)
    assert len(model.run()) == 1
