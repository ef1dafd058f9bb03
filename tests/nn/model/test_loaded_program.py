"""`opwright.load` returns a callable program, which any number of threads can use."""

from __future__ import annotations

import gc
import operator
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import opwright as ow
import opwright_nn as nn
from opwright import disk
from opwright.errors import (
    AttributeTypeError,
    DeviceNotFoundError,
    FeedError,
    FileMissingError,
    FormatError,
    ProgramError,
    SettingError,
    VariableNotFoundError,
)

X = np.random.default_rng(1).random((6, 8), np.float32)


def trained(folder, fetch=True):
    """Save a trained model with dropout and batch normalization; return its predictions."""
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


def test_many_threads_can_call_a_loaded_program(tmp_path):
    expected = trained(tmp_path)
    loaded = ow.load(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda i: loaded(img=X[: 1 + i % 6])[0], range(64)))
    for i, result in enumerate(results):
        np.testing.assert_allclose(result, expected[: 1 + i % 6], rtol=1e-5)


def test_a_variable_without_effect_on_the_results_is_not_a_feed(tmp_path):
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
    with pytest.raises(ProgramError, match="must have its parameters.* load it with opwright.load"):
        ow.load_program(tmp_path)(img=X)


def save_model(folder, seed):
    model = nn.Model()
    prob = model.fc_layer("img", 3, activation="softmax")
    model.initialize_parameters(seed=seed, img=X)
    ow.save(folder, model.program, model.scope, [prob])
    return model.predict(prob, img=X)


def test_a_loaded_program_has_its_own_scope_and_does_not_change_the_default_scope(tmp_path):
    expected = [save_model(tmp_path / str(seed), seed) for seed in (1, 2)]
    with ow.scope_guard(ow.Scope()) as scope:
        loaded = [ow.load(tmp_path / str(seed)) for seed in (1, 2)]
        for program, prob in zip(loaded * 2, expected * 2, strict=True):
            np.testing.assert_array_equal(program(img=X)[0], prob)
        assert scope.names() == []


def save_odd(folder):
    """Save a program with several results and feeds with unusual names; return it."""
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
def test_feeds_are_passed_by_position_by_name_or_in_a_dict(tmp_path, call):
    save_odd(tmp_path)
    difference, total = call(ow.load(tmp_path))
    np.testing.assert_array_equal(difference, A - B)
    np.testing.assert_array_equal(total, A + B)


def test_results_can_be_selected_by_name(tmp_path):
    save_odd(tmp_path)
    results = ow.load(tmp_path)(A, B)
    np.testing.assert_array_equal(results["total"], A + B)
    assert results["out.1"] is results[0]
    assert (len(results), results.names) == (2, ("out.1", "total"))
    with pytest.raises(VariableNotFoundError, match="got 'totl'; did you mean 'total'"):
        results["totl"]


def test_feeds_are_the_arguments_of_a_call(tmp_path):
    save_odd(tmp_path)
    loaded = ow.load(tmp_path)
    assert loaded.feeds == (("input.1", (None, 2), "float32"), ("b", (None, 2), "float32"))
    assert loaded.fetches == (("out.1", (None, 2), "float32"), ("total", (None, 2), "float32"))
    assert loaded.program_feeds == ("input.1", "b", "unread")
    assert str(loaded.feeds[0]) == "input.1 float32[?, 2]"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda loaded: loaded(A, B, A), "takes 'input.1', 'b', got 3 values by position"),
        (
            lambda loaded: loaded(A, **{"input.1": A}),
            "'input.1' must be given once, got it by position and by name",
        ),
        (lambda loaded: loaded({3: A}), "feeds must be named by strings, got 3"),
        (lambda loaded: loaded({"input1": A, "b": B}), "'input1'.*did you mean 'input.1'"),
        (lambda loaded: loaded(A), "'b'"),
        (lambda loaded: loaded(), "'input.1'"),
    ],
)
def test_the_error_names_a_wrong_feed(tmp_path, call, message):
    save_odd(tmp_path)
    with pytest.raises(FeedError, match=message):
        call(ow.load(tmp_path))


def save_large(folder):
    """Save a program whose parameters are mapped; return them."""
    program = ow.Program()
    block = program.global_block()
    block.create_var("x", [None, 512], is_data=True)
    block.create_parameter("w", [512, 600])
    block.create_parameter("c", [3])
    block.append_op("matmul", {"x": "x", "y": "w"}, {"out": "y"})
    block.append_op("sum", {"x": "c"}, {"out": "total"})
    rng, scope = np.random.default_rng(3), ow.Scope()
    for name, shape in (("w", (512, 600)), ("c", (3,))):
        scope.var(name).set(rng.random(shape, np.float32))
    ow.save(folder, program, scope, ["y", "total"])
    return {name: scope.var(name).numpy() for name in ("w", "c")}


def count_maps(folder):
    return Path("/proc/self/maps").read_text().count(str(folder))


@pytest.fixture
def local(monkeypatch):
    """Treat every disk as local, since the file system of a test can be unknown."""
    monkeypatch.setattr(disk, "is_local", lambda handle: True)


def test_large_parameters_are_mapped_from_their_file(tmp_path, local):
    values = save_large(tmp_path)
    loaded = ow.load(tmp_path)
    assert count_maps(tmp_path) == 1
    x = np.ones((2, 512), np.float32)
    np.testing.assert_allclose(loaded(x)["y"], x @ values["w"], rtol=1e-4)
    for name, array in loaded.parameters().items():
        np.testing.assert_array_equal(array, values[name])
    del loaded
    gc.collect()
    ow.ops.add(A, B)  # released plans are freed when a call enters the runtime
    assert count_maps(tmp_path) == 0


@pytest.mark.parametrize("options", [{"mmap": False}, {"scope": ow.Scope()}])
def test_parameters_are_read_if_mapping_is_disabled_or_a_scope_is_given(tmp_path, local, options):
    values = save_large(tmp_path)
    loaded = ow.load(tmp_path, **options)
    assert count_maps(tmp_path) == 0
    np.testing.assert_array_equal(loaded.parameters()["w"], values["w"])


def test_parameters_are_read_if_the_system_cannot_map_files(tmp_path, local, monkeypatch):
    def refuse(*args, **options):
        raise OSError(12, "Cannot allocate memory")

    values = save_large(tmp_path)
    monkeypatch.setattr("mmap.mmap", refuse)
    np.testing.assert_array_equal(ow.load(tmp_path).parameters()["w"], values["w"])


def test_writes_into_mapped_parameters_leave_the_file_unchanged(tmp_path, local):
    values = save_large(tmp_path)
    loaded, other = ow.load(tmp_path), ow.load(tmp_path)
    loaded.scope.var("w").set(np.zeros((512, 600), np.float32))
    assert not loaded.parameters()["w"].any()
    for program in (other, ow.load(tmp_path)):
        np.testing.assert_array_equal(program.parameters()["w"], values["w"])


def test_mapped_parameters_outlive_their_file(tmp_path, local):
    values = save_large(tmp_path / "model")
    loaded = ow.load(tmp_path / "model")
    save_large(tmp_path / "model")
    shutil.rmtree(tmp_path / "model")
    np.testing.assert_array_equal(loaded.parameters()["w"], values["w"])


def test_a_damaged_large_file_is_refused(tmp_path, local):
    save_large(tmp_path)
    with (tmp_path / "params.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\xff")
    with pytest.raises(FormatError, match="data that does not match its checksum"):
        ow.load(tmp_path)


def test_a_scope_keeps_the_memory_of_a_borrowed_array_alive():
    array, variable = np.arange(3.0), ow.Scope().var("v")
    variable.borrow(array)
    array[1] = 7
    np.testing.assert_array_equal(variable.numpy(), [0, 7, 2])
    variable.set([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(array, [1, 2, 3])


def test_a_loaded_program_writes_into_arrays_or_converts_its_results(tmp_path):
    save_odd(tmp_path)
    loaded = ow.load(tmp_path)
    feeds = {"input.1": A, "b": B}
    wanted = loaded(feeds)
    out = [np.zeros_like(array) for array in wanted]
    assert all(map(operator.is_, loaded(feeds, out=out), out))
    np.testing.assert_array_equal(out[0], wanted[0])
    made = loaded(A, B, fetch_as=np.ndarray.tolist)
    assert made[0] == wanted[0].tolist()


def test_a_program_from_any_source_is_called_in_the_same_way():
    program, scope = ow.Program(), ow.Scope()
    block = program.global_block()
    block.create_var("a", [None, 2], is_data=True)
    block.create_var("b", [None, 2], is_data=True)
    block.create_parameter("w", [2])
    block.append_op("subtract", {"x": "a", "y": "b"}, {"out": "d"})
    block.append_op("multiply", {"x": "d", "y": "w"}, {"out": "y"})
    scope.var("w").borrow(np.array([2, 3], np.float32))
    loaded = ow.LoadedProgram(program, scope, ["y"], ["b", "a"])
    np.testing.assert_array_equal(loaded(B, A)[0], (A - B) * [2, 3])
    with pytest.raises(VariableNotFoundError, match="LoadedProgram: no such variable, got 'x'"):
        ow.LoadedProgram(program, scope, ["x"])


def test_a_saved_copy_returns_the_same_results(tmp_path):
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


def test_load_refuses_the_options_that_compile_refuses(tmp_path):
    save_model(tmp_path, 1)
    with pytest.raises(DeviceNotFoundError, match="'nowhere'|nowhere"):
        ow.load(tmp_path, device="nowhere")
    with pytest.raises(FileMissingError, match="absent.lock: no such file"):
        ow.load(tmp_path, lock=tmp_path / "absent.lock")
    with pytest.raises(SettingError, match="no.such"):
        ow.load(tmp_path, options={"no.such": 1})
    with pytest.raises(AttributeTypeError, match="load: trainable must be True or False, got 1"):
        ow.load(tmp_path, trainable=1)


def test_frozen_parameters_have_no_gradient(tmp_path):
    save_model(tmp_path, 1)
    kinds = [
        [p.trainable for p in ow.load(tmp_path, trainable=t).program.parameters()]
        for t in (True, False)
    ]
    assert kinds == [[True, True], [False, False]]
