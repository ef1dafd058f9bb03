"""Bundle results match Python bitwise, both through opwright/run.h and `opwright.load`."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundle_models import NAMES, draw, make
from run_api import CANCELLED, CHECK, LIBRARIES, STATE, Library, RunError, tensor_of

import opwright as ow
import opwright_cpu
from opwright.errors import FeedError, FormatError, KernelError, ProgramError


def _empty_like(results: Any) -> list[Any]:
    return [np.empty_like(result) for result in results]


@pytest.mark.parametrize("name", NAMES)
def test_bundle_results_are_bitwise_identical_to_python_for_any_batch_and_thread_count(
    name: str, tmp_path: Path
) -> None:
    network, compiled, shapes = make(name)
    path = tmp_path / "model.owb"
    network.bundle(path, shapes, (1, 9))
    model = Library().open(path, flags=CHECK)
    loaded = ow.load(path)
    for n_threads in (1, 2):
        ow.set_num_threads(n_threads)
        for n in (1, 2, 5, 9):
            feeds = draw(shapes, n)
            expected = compiled(**feeds)
            outputs = _empty_like(expected)
            model.run(list(feeds.values()), outputs)
            for want, got, called in zip(expected, outputs, loaded(**feeds), strict=True):
                np.testing.assert_array_equal(got, want)
                np.testing.assert_array_equal(called, want)
    model.close()


def test_four_threads_run_one_model_concurrently(tmp_path: Path) -> None:
    network, compiled, shapes = make("convnet")
    path = tmp_path / "model.owb"
    network.bundle(path, shapes, (1, 8))
    library = Library()
    models = [library.open(path) for _ in range(4)]
    feeds = [draw(shapes, n) for n in (1, 3, 5, 8)]
    expected = [compiled(**one) for one in feeds]
    failures: list[object] = []

    def run(i: int) -> None:
        for _ in range(20):
            outputs = _empty_like(expected[i])
            models[i].run(list(feeds[i].values()), outputs)
            if not np.array_equal(outputs[0], expected[i][0]):
                failures.append(i)

    workers = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


def test_each_session_has_separate_state(tmp_path: Path) -> None:
    network, compiled, shapes = make("state")
    path = tmp_path / "model.owb"
    network.bundle(path, shapes, (1, 4))
    library = Library()
    first, second = library.open(path), library.open(path)
    described = first.describe(STATE, 0)
    assert [described.steps[d] for d in range(described.ndim)] == [0]
    assert [described.bases[d] for d in range(described.ndim)] == [3]
    feeds = draw(shapes, 4)
    name = next(v for v in compiled.scope.names() if "mean" in v)
    before = compiled.scope.var(name).numpy()
    outputs = _empty_like(compiled(**feeds))
    first.run(list(feeds.values()), outputs)
    np.testing.assert_array_equal(first.get(name, before), compiled.scope.var(name).numpy())
    np.testing.assert_array_equal(second.get(name, before), before)


def test_a_loaded_bundle_describes_its_feeds_and_does_not_contain_a_program(tmp_path: Path) -> None:
    network, _, shapes = make("mlp")
    network.bundle(tmp_path / "model.owb", shapes, (1, 4))
    loaded: Any = ow.load(tmp_path / "model.owb")
    assert [str(spec) for spec in loaded.feeds] == ["x float32[?, 20]"]
    assert loaded.batch == (1, 4)
    with pytest.raises(ProgramError, match="a bundle contains only plans"):
        loaded.save(tmp_path / "folder")
    with pytest.raises(FeedError, match=r"must be fed x float32\(n, 20\) with n in \[1, 4\]"):
        loaded(np.zeros((5, 20), "float32"))


def test_a_run_with_wrong_tensors_raises_an_error_that_names_the_rule(tmp_path: Path) -> None:
    network, _, shapes = make("mlp")
    path = tmp_path / "model.owb"
    network.bundle(path, shapes, (2, 4))
    model = Library().open(path)
    x, out = np.zeros((3, 20), "float32"), np.empty((3, 7), "float32")
    for inputs, outputs, rule in (
        ([x[:1].copy()], [out], r"x float32\(n, 20\) with n in \[2, 4\], got float32\(1, 20\)"),
        ([x.astype("float64")], [out], r"got float64\(3, 20\)"),
        ([x], [out[:2]], r"with n=3, got float32\(2, 7\)"),
        ([x], [], "must be given 1 inputs and 1 outputs, got 1 and 0"),
        ([x], [x.reshape(-1)[:21].reshape(3, 7)], "must have its own memory"),
    ):
        with pytest.raises(RunError, match=rule):
            model.run(inputs, outputs)


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("bits", 0, "ow_run: a tensor must have a dtype, got 0 bits"),
        ("lanes", 2, r"must be fed x float32\(n, 20\)"),
        ("ndim", 10**9, r"the rank of a tensor must be in \[0, 64\], got 1000000000"),
        ("ndim", -1, r"the rank of a tensor must be in \[0, 64\], got -1"),
        ("shape", None, "the shape of a tensor must not be NULL"),
        ("data", None, "must have memory, got NULL"),
        ("byte_offset", 2, "must start at a multiple of the item size"),
    ],
)
def test_an_invalid_tensor_is_refused_before_it_is_read(
    field: str, value: object, rule: str, tmp_path: Path
) -> None:
    network, _, shapes = make("mlp")
    network.bundle(tmp_path / "model.owb", shapes, (1, 4))
    model = Library().open(tmp_path / "model.owb")
    array = np.zeros((3, 20), "float32")
    x, out = tensor_of(array), np.empty((3, 7), "float32")
    setattr(x, field, value)
    with pytest.raises(RunError, match=rule):
        model.run([x], [out])


def test_batch_and_feeds_must_match_the_program(tmp_path: Path) -> None:
    network, compiled, _ = make("mlp")
    for feeds, batch, rule in (
        ({"y": [1]}, None, "each name in feeds must be a feed, got 'y'"),
        ({"x": [None, 20]}, None, r"write batch=\(1, 64\)"),
        ({"x": [None, 20]}, (4, 2), r"got \(4, 2\)"),
        ({"x": [2, -1]}, (1, 2), r"got \[2, -1\]"),
        ({"x": [2, 21]}, None, r"got \(2, 21\)"),
    ):
        with pytest.raises(FeedError, match=rule):
            network.bundle(tmp_path / "model.owb", feeds, batch)
    assert not list(tmp_path.iterdir())
    del compiled
    with pytest.raises(ProgramError, match="the result of compile must still exist"):
        network.bundle(tmp_path / "model.owb")


def test_bundling_python_kernels_or_data_dependent_shapes_raises(tmp_path: Path) -> None:
    for name, rule in (("inverse", "inverse: operator 0 .* compiled kernel"), ("nonzero", "pad")):
        network, _compiled, shapes = make(name)
        with pytest.raises(ProgramError, match=rule):
            network.bundle(tmp_path / "model.owb", shapes, (1, 2))


def test_the_error_names_a_library_that_is_missing_or_has_a_different_version(
    tmp_path: Path,
) -> None:
    network, _, shapes = make("lstm")
    path = tmp_path / "model.owb"
    network.bundle(path, shapes, (1, 2))
    model = Library().open(path)
    assert model.count(LIBRARIES) >= 1
    with pytest.raises(
        RunError, match=r"needs the library \w+\.so of the plugin 'cpu' .* in /none"
    ):
        Library().open(path, folders="/none")
    data = bytearray(path.read_bytes())
    at = data.index(b"\x05" + opwright_cpu.__version__.encode())
    data[at + 1] = ord("9")
    descriptor = data[64 : 64 + int.from_bytes(data[16:24], "little")]
    data[32:64] = hashlib.sha256(descriptor).digest()
    path.write_bytes(data)
    with pytest.raises(RunError, match=r"plugin 'cpu' 9\S+, got cpu \S+ in .*write it again"):
        Library().open(path)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    network, _, shapes = make("mlp")
    path = tmp_path / "model.owb"
    network.bundle(path, shapes, (1, 2))
    data = path.read_bytes()
    for damaged, flags, rule in (
        (data[:-1], 0, "truncated or damaged"),
        (data[:100] + b"?" + data[101:], 0, "its descriptor must have the SHA-256"),
        (data[:-64] + b"?" + data[-63:], CHECK, "must have the SHA-256 of the descriptor"),
        (data[:8] + b"\x07" + data[9:], 0, "must have format 1, got 7"),
        (b"no bundle", 0, "must be a bundle of opwright"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(RunError, match=rule):
            Library().open(path, flags=flags)
    path.write_bytes(data[:-1])
    with pytest.raises(FormatError, match="truncated or damaged"):
        ow.load(path)


def test_cancel_stops_a_run_and_the_session_can_run_again(tmp_path: Path) -> None:
    network, _compiled, shapes = make("endless")
    path = tmp_path / "model.owb"
    network.bundle(path, shapes, (1, 1))
    model = Library().open(path)
    out = np.empty((1, 4), "float32")
    for _ in range(2):
        stop = threading.Event()

        def cancel(stop: threading.Event = stop) -> None:
            while not stop.wait(0.01):
                model.cancel()

        worker = threading.Thread(target=cancel)
        worker.start()
        with pytest.raises(RunError, match="the run was cancelled") as caught:
            model.run([np.ones((1, 4), "float32")], [out])
        stop.set()
        worker.join()
        assert caught.value.status == CANCELLED
    model.run([np.full((1, 4), -1, "float32")], [out])
    np.testing.assert_array_equal(out, np.full((1, 4), -1, "float32"))


def test_a_forked_child_runs_a_bundle_opened_by_its_parent(tmp_path: Path) -> None:
    network, compiled, shapes = make("convnet")
    path = tmp_path / "model.owb"
    network.bundle(path, shapes, (1, 8))
    ow.set_num_threads(2)
    model = Library().open(path)
    feeds = draw(shapes, 8)
    expected = compiled(**feeds)
    outputs = _empty_like(expected)
    model.run(list(feeds.values()), outputs)
    child = os.fork()
    if child == 0:
        fresh = _empty_like(expected)
        try:
            model.run(list(feeds.values()), fresh)
            os._exit(0 if np.allclose(fresh[0], expected[0], rtol=1e-4) else 2)
        finally:
            os._exit(3)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_the_error_names_an_operator_that_fails_and_its_index(tmp_path: Path) -> None:
    main, scope, path = ow.Program(), ow.Scope(), tmp_path / "model.owb"
    with ow.program_guard(main, ow.Program()):
        block = main.global_block()
        x = block.create_var("x", shape=[4, 3])
        index = block.create_var("index", shape=[2], dtype="int64")
        out = ow.ops.gather(ow.ops.tanh(x), index)
    network = ow.Network(main.global_block())
    compiled = network.compile([x, index], [out], scope=scope)
    network.bundle(path)
    feeds = [np.ones((4, 3), "float32"), np.array([1, 9])]
    rule = r"gather: operator 1 failed, got index must be in \[-4, 4\), got 9"
    with pytest.raises(RunError, match=rule):
        Library().open(path).run(feeds, [np.empty((2, 3), "float32")])
    with pytest.raises(KernelError, match=rule):
        ow.load(path)(*feeds)
    del compiled
