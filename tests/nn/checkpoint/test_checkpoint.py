"""Checkpoints: programs continue bitwise identically; damaged checkpoints are skipped."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import AttributeTypeError, FormatError, ProgramError
from opwright_nn import checkpoint, layers
from opwright_nn.optimizer import base

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 5)).astype(np.float32)


class Training:
    """A program that trains with dropout and Adam, its scope and its compiled step."""

    def __init__(self, width=4, seed=3, optimizer=None):
        with ow.program_guard(ow.Program(), ow.Program()) as (self.main, startup):
            x = layers.data("x", [None, 5])
            hidden = layers.dropout(layers.fc(x, size=width, activation="relu"), 0.3)
            loss = layers.mean(layers.fc(hidden, size=1))
            (optimizer or nn.optimizer.Adam(0.1)).minimize(loss)
        self.main.seed = startup.seed = seed
        self.scope = ow.Scope()
        ow.Network(startup.global_block()).run(self.scope)
        network = ow.Network(self.main.global_block())
        self.step = network.compile(feed=["x"], fetch=[loss], scope=self.scope)

    def run(self, n):
        return [self.step(x=X)[0].tobytes() for _ in range(n)]


def fill(folder, n):
    """Save n checkpoints, with their indices as states; return the training run."""
    training = Training()
    for number in range(n):
        training.run(1)
        checkpoint.save(folder, training.main, training.scope, state={"number": number})
    return training


def generations(folder):
    return sorted((folder / "generations").iterdir())


def test_a_resumed_program_continues_bitwise_identically(tmp_path):
    training = Training()
    training.run(3)
    checkpoint.save(tmp_path / "run", training.main, training.scope, state={"at": [1, 2.5]})
    again = Training(seed=9)
    assert checkpoint.resume(tmp_path / "run", again.main, again.scope) == {"at": [1, 2.5]}
    assert again.main.seed == 3
    assert again.run(4) == training.run(4)


def test_powers_of_betas_that_were_saved_in_float32_are_widened(tmp_path, monkeypatch):
    def make_narrow(who, name, shape, value, dtype="float32"):
        return make_state(who, name, shape, value, "float32" if "power" in name else dtype)

    make_state = base.make_state
    monkeypatch.setattr(base, "make_state", make_narrow)
    narrow = Training()
    monkeypatch.undo()
    narrow.run(3)
    checkpoint.save(tmp_path / "run", narrow.main, narrow.scope)
    training = Training()
    assert checkpoint.resume(tmp_path / "run", training.main, training.scope) == {}
    powers = [name for name in training.scope.names() if name.endswith("_power")]
    assert powers
    for name in powers:
        power = training.scope.var(name).numpy()
        assert power.dtype == np.float64
        np.testing.assert_array_equal(power, narrow.scope.var(name).numpy())
    np.testing.assert_allclose(training.step(x=X), narrow.step(x=X), rtol=1e-5)


def test_resume_without_a_checkpoint_returns_none(tmp_path):
    training = Training()
    assert checkpoint.resume(tmp_path / "run", training.main, training.scope) is None


def test_three_checkpoints_are_kept_by_default(tmp_path):
    fill(tmp_path, 5)
    assert len(generations(tmp_path)) == 3
    training = Training()
    checkpoint.save(tmp_path, training.main, training.scope, keep=1)
    assert len(generations(tmp_path)) == 1


def cut(path):
    path.write_bytes(path.read_bytes()[:-7])


def flip(path):
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(bytes(data))


def change_state(path):
    content = json.loads(path.read_text())
    content["notes"]["opwright_nn.state"]["number"] = 7
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("params.safetensors", cut),
        ("params.safetensors", flip),
        ("program.pb", flip),
        ("program.pb", lambda path: path.unlink()),
        ("generation.json", cut),
        ("generation.json", change_state),
    ],
)
def test_a_damaged_newest_checkpoint_is_skipped_with_a_warning_that_names_it(
    tmp_path, name, damage
):
    fill(tmp_path, 3)
    damage(generations(tmp_path)[-1] / name)
    training = Training()
    with pytest.warns(RuntimeWarning, match="skips the damaged checkpoint .*00000003 .* 00000002"):
        state = checkpoint.resume(tmp_path, training.main, training.scope)
    assert state == {"number": 1}
    assert training.scope.var("@step").numpy() == [2]


def test_damage_in_all_checkpoints_raises(tmp_path):
    fill(tmp_path, 2)
    for path in generations(tmp_path):
        cut(path / "params.safetensors")
    training = Training()
    with (
        warnings.catch_warnings(action="ignore"),
        pytest.raises(FormatError, match="a complete checkpoint, got damage in all 2"),
    ):
        checkpoint.resume(tmp_path, training.main, training.scope)


@pytest.mark.parametrize(
    ("other", "rule"),
    [
        (lambda: Training(width=6), r"'fc_0_w_param' as float32\[5, 4\] instead of .*\[5, 6\]"),
        (
            lambda: Training(optimizer=nn.optimizer.Momentum(0.1)),
            r"none for 'fc_0_w_param_velocity'; .*'fc_0_w_param_moment1', which the model lacks",
        ),
    ],
)
def test_the_error_for_a_checkpoint_of_another_program_names_the_differing_variables(
    tmp_path, other, rule
):
    fill(tmp_path, 1)
    training = other()
    before = {name: training.scope.var(name).numpy() for name in training.scope.names()}
    with pytest.raises(ProgramError, match=rf"checkpoint\.resume: .*{rule}"):
        checkpoint.resume(tmp_path, training.main, training.scope)
    for name, array in before.items():
        np.testing.assert_array_equal(training.scope.var(name).numpy(), array)


def test_the_error_names_an_argument_of_a_wrong_type(tmp_path):
    training = Training()
    with pytest.raises(AttributeTypeError, match="save: .* 'kep'; did you mean 'keep'"):
        checkpoint.save(tmp_path, training.main, training.scope, kep=2)
    with pytest.raises(AttributeTypeError, match="checkpoint.save: state must be a Mapping"):
        checkpoint.save(tmp_path, training.main, training.scope, state=3)
