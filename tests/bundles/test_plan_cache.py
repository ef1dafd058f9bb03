"""A later process uses stored plans with bitwise identical results, and ignores outdated plans."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright.errors import FeedError, FormatError, ShapeError
from opwright.lowering import _lower
from opwright.run import plan_cache, plan_cache_writing
from opwright_nn import layers

X = np.random.default_rng(0).random((5, 20), np.float32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the cache folder; pins set by other tests in this process are ignored."""
    monkeypatch.setenv("OPWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(plan_cache, "is_unchanged", lambda: True)
    monkeypatch.setattr(plan_cache_writing, "is_unchanged", lambda: True)
    return tmp_path / "cache" / "plans"


def save(path: Path, seed: int = 1) -> Path:
    """Save a network of two layers."""
    with ow.program_guard(ow.Program(), ow.Program()) as (main, startup):
        hidden = layers.fc(layers.data("x", shape=[None, 20]), 33, activation="relu")
        out = ow.ops.softmax(layers.fc(hidden, 7))
    scope = ow.Scope()
    ow.Network(startup.global_block()).run(scope)
    weight = next(v for v in main.parameters() if len(v.shape or ()) == 2)
    random = np.random.default_rng(seed).random(weight.shape, np.float32)
    scope.var(weight.name).set(random)
    ow.save(path, main, scope, [out], notes={"seed": seed})
    return path


def is_kept(loaded: object) -> bool:
    """Return whether a loaded program was created from stored plans."""
    return isinstance(loaded, plan_cache.CachedProgram)


def test_a_plan_called_once_is_cached_for_its_shapes_with_identical_results(
    folder: Path, tmp_path: Path
) -> None:
    first = ow.load(save(tmp_path / "model"))
    expected = [first(X[:n])[0] for n in (5, 2)]
    assert len(list(folder.iterdir())) == 3  # a record and two plans
    second = ow.load(tmp_path / "model")
    assert not is_kept(first)
    assert is_kept(second)
    assert (second.feeds, second.fetches) == (first.feeds, first.fetches)
    for want, n in zip(expected, (5, 2), strict=True):
        np.testing.assert_array_equal(second(x=X[:n])[0], want)
    np.testing.assert_allclose(second(X[:3])[0], expected[0][:3], rtol=1e-5)
    assert len(list(folder.iterdir())) == 4
    with pytest.raises(FeedError, match=r"shape must be \(\?, 20\), got \(5, 19\)"):
        second(X[:, 1:])
    with pytest.raises(FeedError, match="unknown feed, got 'y'"):
        second(y=X)


_SCRIPT = """
import sys
import numpy as np
import opwright as ow
x = np.linspace(-1, 1, 100, dtype="float32").reshape(5, 20)
loaded = ow.load(sys.argv[1])
(result,) = loaded(x)
print(result.tobytes().hex())
heavy = {"opwright.lowering", "opwright.program", "opwright.context.context"}
print(sorted(heavy & {*sys.modules}))
if sys.argv[2:]:
    ow.current_context().pin("fc", "native")
    loaded(x)
    print({k.library for k in loaded.report().kernels if k.operator == "fc"})
"""


def start(*args: object) -> list[str]:
    """Run a new process and return its output."""
    command = [sys.executable, "-c", _SCRIPT, *map(str, args)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")


def test_a_second_process_does_not_import_lowering_and_applies_later_pins(
    folder: Path, tmp_path: Path
) -> None:
    model = save(tmp_path / "model")
    first = start(model)
    second = start(model, "pin")
    assert first[1] == "['opwright.context.context', 'opwright.lowering', 'opwright.program']"
    assert second[:2] == [first[0], "[]"]
    assert second[2] == "{'native'}"


def test_stored_plans_use_parameters_from_the_file_or_the_scope(
    folder: Path, tmp_path: Path
) -> None:
    ow.load(save(tmp_path / "model"))(X)
    loaded = ow.load(tmp_path / "model")
    before = loaded(X)[0]
    name, value = max(loaded.parameters().items(), key=lambda item: item[1].size)
    loaded.scope.var(name).set(-value)
    assert is_kept(loaded)
    changed = loaded(X)[0]
    assert not np.array_equal(changed, before)
    plain = ow.load(tmp_path / "model", ow.Scope())
    plain.scope.var(name).set(-value)
    np.testing.assert_array_equal(plain(X)[0], changed)
    plain.save(tmp_path / "model")
    assert not is_kept(ow.load(tmp_path / "model"))


def test_the_program_of_a_stored_plan_matches_the_loaded_state(
    folder: Path, tmp_path: Path
) -> None:
    ow.load(save(tmp_path / "model"))(X)
    loaded, never_read = ow.load(tmp_path / "model"), ow.load(tmp_path / "model")
    expected = loaded(X)[0]
    save(tmp_path / "model", seed=2)
    save(tmp_path / "model", seed=3)
    assert loaded.notes == {"seed": 1}
    assert "fc" in [k.operator for k in loaded.report().kernels]
    np.testing.assert_array_equal(never_read(X)[0], expected)
    loaded.bundle(tmp_path / "model.owb", batch=(1, 5))
    np.testing.assert_array_equal(ow.load(tmp_path / "model.owb")(X)[0], expected)
    loaded.save(tmp_path / "copy")
    np.testing.assert_array_equal(ow.load(tmp_path / "copy", ow.Scope())(X)[0], expected)


def test_a_program_that_was_changed_before_its_first_call_is_lowered(
    folder: Path, tmp_path: Path
) -> None:
    ow.load(save(tmp_path / "model"))(X)
    for is_called in (False, True):
        loaded = ow.load(tmp_path / "model", trainable=False)
        expected = loaded(X)[0] if is_called else None
        assert not any(p.trainable for p in loaded.program.parameters())
        block = loaded.program.global_block()
        block.append_op("tanh", {"x": loaded.fetches[0].name}, {"out": loaded.fetches[0].name})
        got = loaded(X)[0]
        want = np.tanh(ow.load(tmp_path / "model")(X)[0]) if expected is None else expected
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_changed_and_damaged_records_are_not_used(folder: Path, tmp_path: Path) -> None:
    expected = ow.load(save(tmp_path / "model"))(X)[0]
    (path,), (plan,) = folder.glob("*.record"), folder.glob("*.owb")
    good, record = path.read_bytes(), plan_cache.parse_record(path.read_bytes())
    file, size, mtime = record.files[0]
    aged = record._replace(files=((file, size, mtime + 1), *record.files[1:]))
    gone = record._replace(files=(("/none", 1, 1), *record.files[1:]))
    damaged = [plan_cache.dump_record(one) for one in (aged, gone)]
    for data in (*damaged, good[:-1], good[:40] + b"?" + good[41:], b"", b"\xff"):
        path.write_bytes(data)
        assert not is_kept(ow.load(tmp_path / "model"))
    path.write_bytes(good)
    path.chmod(0o666)
    assert not is_kept(ow.load(tmp_path / "model"))
    path.chmod(0o644)
    whole = plan.read_bytes()
    for data, mode in (
        (whole[:-1], 0o644),
        (whole[:90] + b"?" + whole[91:], 0o644),
        (whole, 0o666),
    ):
        plan.unlink(missing_ok=True)
        plan.write_bytes(data)
        plan.chmod(mode)
        loaded = ow.load(tmp_path / "model")
        assert is_kept(loaded)
        np.testing.assert_array_equal(loaded(X)[0], expected)
        assert plan.read_bytes() == whole  # the plan was lowered and stored again


def test_a_first_call_lowers_once(folder: Path, tmp_path: Path) -> None:
    lowered = []

    def count(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is _lower.__code__:
            lowered.append(frame)

    loaded = ow.load(save(tmp_path / "model"))
    sys.setprofile(count)
    try:
        loaded(X)
    finally:
        sys.setprofile(None)
    assert len(lowered) == 1
    assert len(list(folder.glob("*.owb"))) == 1


def test_parameters_are_checked_once_after_each_boot(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = ow.load(save(tmp_path / "model"))(X)[0]
    (tmp_path / "boot").write_text("another")
    monkeypatch.setattr(plan_cache, "_BOOT", str(tmp_path / "boot"))
    params = next((tmp_path / "model").glob("generations/*/params.safetensors"))
    data, status = params.read_bytes(), params.stat()
    for content in (data[:-1] + bytes([data[-1] ^ 1]), data):
        params.write_bytes(content)
        os.utime(params, ns=(status.st_atime_ns, status.st_mtime_ns))
        if content != data:
            with pytest.raises(FormatError, match="data that does not match its checksum"):
                ow.load(tmp_path / "model")
    loaded = ow.load(tmp_path / "model")
    assert is_kept(loaded)
    np.testing.assert_array_equal(loaded(X)[0], expected)
    (record,) = map(
        plan_cache.read_record, (str(p).removesuffix(".record") for p in folder.glob("*.r*"))
    )
    assert record is not None
    assert record.params[-1][-1] == "another"


def test_each_copy_of_a_state_is_checked_once(folder: Path, tmp_path: Path) -> None:
    ow.load(save(tmp_path / "model"))(X)
    shutil.copytree(tmp_path / "model", tmp_path / "copy", symlinks=True)
    (record,) = folder.glob("*.record")
    assert is_kept(ow.load(tmp_path / "copy"))
    written = record.read_bytes()
    for name in ("model", "copy"):
        assert is_kept(ow.load(tmp_path / name))
        assert record.read_bytes() == written


def test_damaged_parameters_are_refused(folder: Path, tmp_path: Path) -> None:
    ow.load(save(tmp_path / "model"))(X)
    params = next((tmp_path / "model").glob("generations/*/params.safetensors"))
    data = params.read_bytes()
    params.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(FormatError, match="data that does not match its checksum"):
        ow.load(tmp_path / "model")


def test_a_program_is_lowered_again_if_a_variable_has_a_different_shape(
    folder: Path, tmp_path: Path
) -> None:
    ow.load(save(tmp_path / "model"))(X)
    loaded = ow.load(tmp_path / "model")
    loaded(X)
    name = next(n for n, value in loaded.parameters().items() if value.shape == (7,))
    loaded.scope.var(name).set(np.zeros(8, np.float32))
    with pytest.raises(ShapeError, match=r"bias must have the shape \[7\], got \[8\]"):
        loaded(X)


def test_a_model_that_cannot_be_bundled_runs_without_the_cache(
    folder: Path, tmp_path: Path
) -> None:
    with ow.program_guard(ow.Program(), ow.Program()) as (main, _):
        x = main.global_block().create_var("x", shape=[3, 3], is_data=True)
        out = ow.ops.inverse(x)
    ow.save(tmp_path / "model", main, ow.Scope(), [out])
    for _ in range(2):
        loaded = ow.load(tmp_path / "model")
        assert not is_kept(loaded)
        np.testing.assert_array_equal(loaded(np.eye(3, dtype="float32"))[0], np.eye(3))
    assert not folder.exists()


@pytest.mark.parametrize(
    "option", [{"scope": True}, {"options": {}}, {"off": "0"}, {"unwritable": True}]
)
def test_plans_are_not_cached_if_the_cache_is_off_or_unwritable_or_scope_or_options_are_given(
    option: dict[str, Any], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "off" in option:
        monkeypatch.setenv("OPWRIGHT_KEEP_PLANS", option.pop("off"))
    if option.pop("unwritable", False):
        folder.parent.mkdir()
        folder.write_bytes(b"")
    if option.pop("scope", False):
        option = {"scope": ow.Scope()}
    ow.load(save(tmp_path / "model"), **option)(X)
    assert not folder.is_dir()


def test_four_threads_call_cached_plans_concurrently(folder: Path, tmp_path: Path) -> None:
    first = ow.load(save(tmp_path / "model"))
    expected = [first(X[: 1 + i])[0] for i in range(4)]
    loaded = ow.load(tmp_path / "model")
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda i: loaded(X[: 1 + i % 4])[0], range(40)))
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result, expected[i % 4])


def test_the_cache_keeps_the_newest_files_within_both_limits(tmp_path: Path) -> None:
    from opwright.cache_folder import remove_oldest

    for i in range(6):
        (tmp_path / f"a{i}").write_bytes(bytes(10))
        os.utime(tmp_path / f"a{i}", ns=(i, i))
    (tmp_path / "other").write_bytes(bytes(1000))
    remove_oldest(str(tmp_path), "a", 4, 1000)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a2", "a3", "a4", "a5", "other"]
    remove_oldest(str(tmp_path), "a", 4, 25)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a4", "a5", "other"]
