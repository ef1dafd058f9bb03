"""Laws of what `opwright.load` returns: it computes its results, from any number of threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import FeedError, ProgramError

X = np.random.default_rng(1).random((6, 8), np.float32)


def trained(folder, fetch=True):
    """Save a trained model with dropout and batch normalization; return what it predicts."""
    model = nn.Model()
    h = model.dropout(model.batch_norm(model.fc_layer("img", 5, activation="relu")), 0.5)
    prob = model.fc_layer(h, 3, activation="softmax")
    model.backward(model.mean(model.cross_entropy(prob, "label")))
    model.adam(0.1)
    model.fill("img", X)
    model.fill("label", np.array([0, 2, 1, 1, 0, 2]))
    model.run()
    ow.save(folder, model.program, model.scope, [prob] if fetch else [])
    return model.predict(prob, img=X)


def test_a_loaded_program_predicts_and_changes_nothing(tmp_path):
    expected, scope = trained(tmp_path), ow.Scope()
    loaded = ow.load(tmp_path, scope)
    before = {name: scope.var(name).numpy() for name in scope.names()}
    for _ in range(2):
        (prob,) = loaded(img=X)
        np.testing.assert_array_equal(prob, expected)
    for name, value in before.items():
        np.testing.assert_array_equal(scope.var(name).numpy(), value, err_msg=name)
    program, feeds, fetches = loaded
    assert (feeds, fetches) == (("img", "label"), ("fc_1_out",))
    assert len(program.global_block().ops) > 10


def test_many_threads_may_call_it(tmp_path):
    expected = trained(tmp_path)
    loaded = ow.load(tmp_path, ow.Scope())
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda i: loaded(img=X[: 1 + i % 6])[0], range(64)))
    for i, result in enumerate(results):
        np.testing.assert_allclose(result, expected[: 1 + i % 6], rtol=1e-5)


def test_what_the_results_do_not_depend_on_is_no_feed(tmp_path):
    trained(tmp_path)
    loaded = ow.load(tmp_path, ow.Scope())
    with pytest.raises(FeedError, match="'label'"):
        loaded(img=X, label=np.zeros(6, np.int64))
    with pytest.raises(FeedError, match="img"):
        loaded()


def test_a_program_without_results_or_parameters_cannot_be_called(tmp_path):
    trained(tmp_path, fetch=False)
    with pytest.raises(ProgramError, match="must have results to be called.*save it with fetches"):
        ow.load(tmp_path, ow.Scope())(img=X)
    with pytest.raises(ProgramError, match="must have its parameters.* load it by opwright.load"):
        ow.load_program(tmp_path)(img=X)


def save_model(folder, seed):
    model = nn.Model()
    prob = model.fc_layer("img", 3, activation="softmax")
    model.initialize_parameters(seed=seed, img=X)
    ow.save(folder, model.program, model.scope, [prob])
    return model.predict(prob, img=X)


def test_programs_with_the_same_names_keep_their_own_parameters(tmp_path):
    expected = [save_model(tmp_path / str(seed), seed) for seed in (1, 2)]
    with ow.scope_guard(ow.Scope()) as scope:
        loaded = [ow.load(tmp_path / str(seed)) for seed in (1, 2)]
        for program, prob in zip(loaded, expected, strict=True):
            np.testing.assert_array_equal(program(img=X)[0], prob)
        np.testing.assert_array_equal(loaded[0](img=X)[0], expected[0])
        last = ow.load(tmp_path / "2", ow.Scope())
        assert scope.var("fc_0_w_param").numpy().tobytes() != b""  # the default scope has them, too
    np.testing.assert_array_equal(last(img=X)[0], expected[1])


def test_a_feed_without_a_name_is_answered_with_the_name(tmp_path):
    save_model(tmp_path, 1)
    with pytest.raises(FeedError, match=r"takes its feeds by name, .*; write loaded\(img=img\)$"):
        ow.load(tmp_path, ow.Scope())(X)
