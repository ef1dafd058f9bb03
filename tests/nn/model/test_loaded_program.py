"""Laws of what `opwright.load` returns: it computes its results, from any number of threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright.errors import (
    AttributeTypeError,
    AttributeValueError,
    DeviceNotFoundError,
    FeedError,
    FileMissingError,
    ProgramError,
    SettingError,
    VariableNotFoundError,
)

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
    assert loaded.program_feeds == ("img", "label")
    assert len(loaded.program.global_block().ops) > 10


def test_many_threads_may_call_it(tmp_path):
    expected = trained(tmp_path)
    loaded = ow.load(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda i: loaded(img=X[: 1 + i % 6])[0], range(64)))
    for i, result in enumerate(results):
        np.testing.assert_allclose(result, expected[: 1 + i % 6], rtol=1e-5)


def test_what_the_results_do_not_depend_on_is_no_feed(tmp_path):
    trained(tmp_path)
    loaded = ow.load(tmp_path)
    with pytest.raises(FeedError, match="'label'"):
        loaded(img=X, label=np.zeros(6, np.int64))
    with pytest.raises(FeedError, match="img"):
        loaded()


def test_a_program_without_results_or_parameters_cannot_be_called(tmp_path):
    trained(tmp_path, fetch=False)
    with pytest.raises(ProgramError, match="must have results to be called.*save it with fetches"):
        ow.load(tmp_path)(img=X)
    with pytest.raises(ProgramError, match="must have its parameters.* load it by opwright.load"):
        ow.load_program(tmp_path)(img=X)


def save_model(folder, seed):
    model = nn.Model()
    prob = model.fc_layer("img", 3, activation="softmax")
    model.initialize_parameters(seed=seed, img=X)
    ow.save(folder, model.program, model.scope, [prob])
    return model.predict(prob, img=X)


def test_a_program_has_a_scope_of_its_own_and_leaves_the_default_one(tmp_path):
    expected = [save_model(tmp_path / str(seed), seed) for seed in (1, 2)]
    with ow.scope_guard(ow.Scope()) as scope:
        loaded = [ow.load(tmp_path / str(seed)) for seed in (1, 2)]
        for program, prob in zip(loaded * 2, expected * 2, strict=True):
            np.testing.assert_array_equal(program(img=X)[0], prob)
        assert scope.names() == []


def save_odd(folder):
    """Save a program with feeds of odd names and several results; return it."""
    program = ow.Program()
    with ow.program_guard(program):
        block = program.global_block()
        for name in ("input.1", "b"):
            block.create_var(name, [None, 2], is_data=True)
        block.create_var("unread", [None, 3], is_data=True)
        block.append_op("subtract", {"x": "input.1", "y": "b"}, {"out": "out.1"})
        block.append_op("tanh", {"x": "unread"}, {"out": "unfetched"})
        block.append_op("add", {"x": "input.1", "y": "b"}, {"out": "total"})
    ow.save(folder, program, ow.Scope(), ["out.1", "total"])


A, B = np.array([[1, 2]], np.float32), np.array([[3, 5]], np.float32)


@pytest.mark.parametrize(
    "call",
    [
        lambda loaded: loaded(A, B),
        lambda loaded: loaded({"input.1": A, "b": B}),
        lambda loaded: loaded({"input.1": A}, b=B),
        lambda loaded: loaded(A, b=B),
        lambda loaded: loaded(**{"input.1": A, "b": B}),
    ],
)
def test_feeds_go_by_position_by_name_or_in_a_dict(tmp_path, call):
    save_odd(tmp_path)
    difference, total = call(ow.load(tmp_path))
    np.testing.assert_array_equal(difference, A - B)
    np.testing.assert_array_equal(total, A + B)


def test_results_have_names(tmp_path):
    save_odd(tmp_path)
    results = ow.load(tmp_path)(A, B)
    np.testing.assert_array_equal(results["total"], A + B)
    assert results["out.1"] is results[0]
    assert (len(results), results.names) == (2, ("out.1", "total"))
    with pytest.raises(VariableNotFoundError, match="got 'totl'; did you mean 'total'"):
        results["totl"]


def test_feeds_are_what_a_call_takes(tmp_path):
    save_odd(tmp_path)
    loaded = ow.load(tmp_path)
    assert loaded.feeds == (("input.1", (None, 2), "float32"), ("b", (None, 2), "float32"))
    assert loaded.fetches == (("out.1", (None, 2), "float32"), ("total", (None, 2), "float32"))
    assert loaded.program_feeds == ("input.1", "b", "unread")
    assert str(loaded.feeds[0]) == "input.1 float32[?, 2]"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda loaded: loaded(A, B, A), "it takes 2 feeds, 'input.1', 'b', got 3 by position"),
        (lambda loaded: loaded(A, **{"input.1": A}), "a feed is given once, got 'input.1' twice"),
        (lambda loaded: loaded({3: A}), "feeds must be named by text, got 3"),
        (lambda loaded: loaded({"input1": A, "b": B}), "'input1'.*did you mean 'input.1'"),
        (lambda loaded: loaded(A), "'b'"),
        (lambda loaded: loaded(), "'input.1'"),
    ],
)
def test_wrong_feeds_are_refused_by_name(tmp_path, call, message):
    save_odd(tmp_path)
    with pytest.raises(FeedError, match=message):
        call(ow.load(tmp_path))


def test_a_saved_copy_computes_the_same(tmp_path):
    expected = trained(tmp_path / "a")
    ow.load(tmp_path / "a").save(tmp_path / "b", notes={"from": "a"})
    again = ow.load(tmp_path / "b")
    np.testing.assert_array_equal(again(X)[0], expected)
    assert again.notes == {"from": "a"}


def test_a_report_lists_feeds_results_kernels_and_memory(tmp_path):
    save_model(tmp_path, 1)
    loaded = ow.load(tmp_path)
    before = loaded.report()
    assert dict(before.parameters) == {"fc_0_w_param": 96, "fc_0_b_param": 12}
    assert (before.kernels, before.placement) == ((), None)
    assert "kernels     chosen by the first call, for its shapes on cpu" in str(before)
    loaded(X)
    report = loaded.report()
    text = str(report)
    assert "feeds       img float32[?, 8]\nresults     fc_0_out float32[?, 3]\n" in text
    assert "parameters  2 of 108 bytes" in text
    assert any(kernel.package == "opwright-cpu" for kernel in report.kernels)
    assert "opwright-cpu" in text


def test_what_compile_refuses_is_refused_when_loaded(tmp_path):
    save_model(tmp_path, 1)
    with pytest.raises(DeviceNotFoundError, match="'nowhere'|nowhere"):
        ow.load(tmp_path, device="nowhere")
    with pytest.raises(FileMissingError, match="absent.lock: no such file"):
        ow.load(tmp_path, lock=tmp_path / "absent.lock")
    with pytest.raises(SettingError, match="no.such"):
        ow.load(tmp_path, options={"no.such": 1})
    with pytest.raises(AttributeTypeError, match="load: trainable must be True or False, got 1"):
        ow.load(tmp_path, trainable=1)


def test_frozen_parameters_get_no_gradient(tmp_path):
    save_model(tmp_path, 1)
    kinds = [
        [p.trainable for p in ow.load(tmp_path, trainable=t).program.parameters()]
        for t in (True, False)
    ]
    assert kinds == [[True, True], [False, False]]


def with_loss(folder, **options):
    """Load a model and append a loss; return both."""
    loaded = ow.load(folder, **options)
    with ow.program_guard(loaded.program):
        label = nn.layers.data("label", [None, 1], "int64")
        prob = loaded.program.global_block().var(loaded.fetches[0].name)
        return loaded, nn.layers.mean(nn.layers.cross_entropy(prob, label))


DATA = {"img": X, "label": np.array([0, 2, 1, 1, 0, 2])[:, None]}


def test_a_loaded_program_is_trained_with_a_loss_and_an_optimizer(tmp_path):
    before = save_model(tmp_path, 1)
    loaded, loss = with_loss(tmp_path)
    np.testing.assert_array_equal(loaded(X)[0], before)
    history = nn.train(
        loaded,
        DATA,
        20,
        loss=loss,
        optimizer=nn.optimizer.Adam(0.1),
        validation=DATA,
        progress=False,
    )
    assert history["loss"][-1] < history["loss"][0] / 2
    after = loaded(X)["fc_0_out"]
    assert np.abs(after - before).max() > 0.1
    loaded.save(tmp_path / "tuned")
    np.testing.assert_array_equal(ow.load(tmp_path / "tuned")(X)[0], after)


def test_a_program_that_was_saved_with_updates_is_trained_as_it_is(tmp_path):
    def make():
        model = nn.Model()
        prob = model.fc_layer("img", 3, activation="softmax")
        loss = model.mean(model.cross_entropy(prob, "label"))
        model.minimize(loss, nn.optimizer.Adam(0.1))
        nn.train(model, DATA, 2, progress=False)
        return model, loss

    model, loss = make()
    model.save(tmp_path)
    loaded = ow.load(tmp_path)
    history = nn.train(loaded, DATA, 2, loss=loss.name, progress=False)
    expected = nn.train(model, DATA, 2, progress=False)
    assert history["loss"] == expected["loss"]
    np.testing.assert_array_equal(
        loaded.parameters()["fc_0_w_param"], model.scope.var("fc_0_w_param").numpy()
    )


def test_a_loss_and_an_optimizer_are_asked_for_where_they_are_missing(tmp_path):
    save_model(tmp_path, 1)
    adam = nn.optimizer.Adam(0.1)
    loaded, loss = with_loss(tmp_path)
    with pytest.raises(AttributeValueError, match="loss must name the loss .*are 'fc_0_out'"):
        nn.train(loaded, DATA, 1)
    with pytest.raises(ProgramError, match="updates of one optimizer, got none; pass optimizer="):
        nn.train(loaded, DATA, 1, loss=loss)
    with pytest.raises(VariableNotFoundError, match="train: loss: no such variable, got 'mean'"):
        nn.train(loaded, DATA, 1, loss="mean", optimizer=adam)
    with pytest.raises(
        ProgramError, match="must have its parameters to be called, trained or saved"
    ):
        nn.train(ow.load_program(tmp_path), DATA, 1, loss=loss, optimizer=adam)
    with pytest.raises(AttributeValueError, match="loss is for a loaded program, .*beside a Model"):
        nn.train(nn.Model(), DATA, 1, loss="x")
    nn.train(loaded, DATA, 1, loss=loss, optimizer=adam, progress=False)
    with pytest.raises(ProgramError, match="got one beside those that it has; leave it out"):
        nn.train(loaded, DATA, 1, loss=loss, optimizer=adam)
