"""Compiled kernels are cached on disk atomically; a damaged or missing cache is harmless."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from opwright.errors import KernelError, MissingRequirementError
from opwright_cuda import native
from opwright_cuda.compile import nvrtc, toolchain
from opwright_cuda.compile.compiler import Compiler, Image, Instance
from opwright_cuda.compile.image_cache import MAX_FILES, ImageCache
from opwright_cuda.compile.toolchain import Toolchain
from opwright_cuda.source import Source, own_source

IMAGE = Image(b"\x7fELF" + bytes(range(256)), ("_Z1fIfEvPT_", "_Z1fIdEvPT_"))


class CountingCompiler:
    """A compiler that returns the same image each time and counts its calls."""

    def __init__(self) -> None:
        self.version = "counting 1"
        self.calls: list[tuple[str, tuple[str, ...], str]] = []

    def compile(self, source: Source, expressions: Sequence[str], arch: str) -> Image:
        self.calls.append((source.name, tuple(expressions), arch))
        return Image(IMAGE.data, tuple(f"symbol of {e}" for e in expressions))

    def beside(self) -> AbstractContextManager[Compiler]:
        return nullcontext(self)


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Replace the module loader of the driver; return the list of its arguments."""
    given: list[tuple[str, ...]] = []

    def load(image: bytes, names: Sequence[str]) -> list[int]:
        assert image == IMAGE.data
        given.append(tuple(names))
        return [hash(name) for name in names]

    monkeypatch.setattr(native, "load_kernels", load)
    monkeypatch.setattr(native, "parameter_sizes", lambda handle: (8,))
    return given


def source(text: str = "__global__ void f() {}", **kwargs: Any) -> Source:
    return Source("f.cu", text, **kwargs)


def test_an_image_survives_a_round_trip(tmp_path: Path) -> None:
    ImageCache(tmp_path / "made" / "here").write("key", IMAGE)
    assert ImageCache(tmp_path / "made" / "here").read("key") == IMAGE
    assert ImageCache(tmp_path / "made" / "here").read("another") is None


@pytest.mark.parametrize("place", range(0, 400, 7))
def test_a_damaged_image_is_not_read(tmp_path: Path, place: int) -> None:
    cache = ImageCache(tmp_path)
    cache.write("key", IMAGE)
    (file,) = tmp_path.iterdir()
    data = bytearray(file.read_bytes())
    place = min(place, len(data) - 1)
    data[place] ^= 0x10
    file.write_bytes(data)
    assert cache.read("key") is None
    file.write_bytes(data[:place])
    assert cache.read("key") is None


def test_a_damaged_image_is_recompiled_and_replaced(tmp_path: Path, loaded: Any) -> None:
    compiler = CountingCompiler()
    Toolchain(compiler, ImageCache(tmp_path)).find(source(), ["f"], "sm_90")
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    for _ in range(2):
        Toolchain(compiler, ImageCache(tmp_path)).find(source(), ["f"], "sm_90")
    assert len(compiler.calls) == 2
    assert file.read_bytes() == whole


def test_a_kernel_is_compiled_once_and_then_loaded_from_memory_or_disk(
    tmp_path: Path, loaded: list[tuple[str, ...]]
) -> None:
    compiler = CountingCompiler()
    first = Toolchain(compiler, ImageCache(tmp_path))
    assert first.find(source(), ["f<float>", "f<double>"], "sm_90") == first.find(
        source(), ["f<float>", "f<double>"], "sm_90"
    )
    Toolchain(compiler, ImageCache(tmp_path)).find(source(), ["f<double>", "f<float>"], "sm_90")
    assert sorted(compiler.calls) == [
        ("f.cu", ("f<double>",), "sm_90"),
        ("f.cu", ("f<float>",), "sm_90"),
    ]
    assert sorted(loaded) == sorted([("symbol of f<double>",), ("symbol of f<float>",)] * 2)


def test_cached_images_are_used_for_any_subset_of_the_instances(
    tmp_path: Path, loaded: Any
) -> None:
    compiler = CountingCompiler()
    Toolchain(compiler, ImageCache(tmp_path)).find(source(), ["f", "g", "h"], "sm_90")
    for names in (["g"], ["h", "f"], ["g", "f", "h"]):
        tools = Toolchain(compiler, ImageCache(tmp_path))
        assert not any(tools.must_compile(Instance(source(), n, "sm_90")) for n in names)
        tools.find(source(), names, "sm_90")
    assert len(compiler.calls) == 3


class FailingCompiler(CountingCompiler):
    """A compiler that fails only for ``bad``."""

    def compile(self, source: Source, expressions: Sequence[str], arch: str) -> Image:
        image = super().compile(source, expressions, arch)
        if "bad" in expressions:
            raise KernelError("f.cu: cannot compile bad")
        return image


def test_instances_compiled_before_a_failure_stay_in_the_cache(tmp_path: Path, loaded: Any) -> None:
    compiler = FailingCompiler()
    for _ in range(2):
        with pytest.raises(KernelError, match="cannot compile bad"):
            Toolchain(compiler, ImageCache(tmp_path)).find(source(), ["f", "bad", "g"], "sm_90")
    assert sorted(names for _, (names,), _ in compiler.calls) == ["bad", "bad", "f", "g"]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_failed_deferred_compilation_raises_on_request_and_is_then_retried(loaded: Any) -> None:
    compiler = FailingCompiler()
    tools = Toolchain(compiler)
    tools.compile([[Instance(source(), "bad", "sm_90")], [Instance(source(), "f", "sm_90")]])
    assert tools.find(source(), ["f"], "sm_90")
    with pytest.raises(KernelError, match="cannot compile bad"):
        tools.find(source(), ["bad"], "sm_90")
    assert len(compiler.calls) == 2
    with pytest.raises(KernelError, match="cannot compile bad"):
        tools.find(source(), ["bad"], "sm_90")  # recompiled, since the failure may be temporary
    assert len(compiler.calls) == 3


def test_a_forked_child_does_not_wait_for_a_compilation_in_the_parent(loaded: Any) -> None:
    tools = Toolchain(CountingCompiler())
    with tools._lock:  # as if another thread of the parent held the lock
        tools.renew_lock()
        assert tools.find(source(), ["f"], "sm_90")


@pytest.mark.parametrize(
    "other",
    [
        {"text": "__global__ void f() { }"},
        {"headers": (("g.h", "// edited"),)},
        {"headers": (("h.h", ""),)},
        {"options": ("-fmad=false",)},
        {"arch": "sm_100"},
        {"version": "counting 2"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_every_input_of_the_compiler_is_part_of_the_cache_key(
    tmp_path: Path, loaded: Any, other: dict[str, Any]
) -> None:
    compiler = CountingCompiler()
    plain: dict[str, Any] = {"headers": (("g.h", ""),)}
    Toolchain(compiler, ImageCache(tmp_path)).find(source(**plain), ["f"], "sm_90")
    arch = other.get("arch", "sm_90")
    compiler.version = other.get("version", compiler.version)
    changed = {k: v for k, v in other.items() if k not in {"arch", "version"}}
    Toolchain(compiler, ImageCache(tmp_path)).find(source(**{**plain, **changed}), ["f"], arch)
    assert len(compiler.calls) == 2


def test_an_unwritable_folder_is_reported_once_and_does_not_prevent_compilation(
    tmp_path: Path, loaded: Any
) -> None:
    (tmp_path / "file").write_text("in the way")
    tools = Toolchain(CountingCompiler(), ImageCache(tmp_path / "file" / "cuda"))
    with pytest.warns(RuntimeWarning, match=r"cannot be cached in .*; set OPWRIGHT_CACHE_DIR"):
        assert tools.find(source(), ["f"], "sm_90")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tools.find(source(), ["g"], "sm_90")


def test_the_oldest_images_are_removed_if_there_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opwright_cuda.compile.image_cache.MAX_FILES", 8)
    cache = ImageCache(tmp_path)
    for i in range(9):
        cache.write(str(i), IMAGE)
    assert MAX_FILES > 1000
    assert len(list(tmp_path.iterdir())) == 8
    assert cache.read("8") == IMAGE


def test_an_image_that_other_users_could_have_written_is_not_read(tmp_path: Path) -> None:
    cache = ImageCache(tmp_path)
    cache.write("key", IMAGE)
    (file,) = tmp_path.iterdir()
    file.chmod(0o666)
    assert cache.read("key") is None


WRITER = """
import sys
from pathlib import Path
from opwright_cuda.compile.image_cache import ImageCache
from opwright_cuda.compile.compiler import Image
cache = ImageCache(Path(sys.argv[1]))
for round in range(200):
    for key in "abc":
        cache.write(key, Image(key.encode() * 5000, (key,)))
        found = cache.read(key)
        assert found is not None and found == (key.encode() * 5000, (key,)), found
"""


def test_two_processes_share_images(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", WRITER, str(tmp_path)]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
    for process in running:
        _, said = process.communicate()
        assert process.returncode == 0, said.decode()
    assert len(list(tmp_path.iterdir())) == 3


def test_the_error_for_missing_cuda_bindings_suggests_a_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(
        MissingRequirementError, match=r"NVRTC, got .*; pip install cuda-bindings nvidia-cuda"
    ):
        nvrtc.Nvrtc().compile(source(), ["f"], "sm_90")


def test_the_error_for_a_missing_nvrtc_suggests_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.bindings import nvrtc as api

    def fail() -> None:
        raise RuntimeError("Failure finding libnvrtc.so.13")

    monkeypatch.setattr(api, "nvrtcVersion", fail)
    with pytest.raises(
        MissingRequirementError, match=r"RuntimeError: Failure finding libnvrtc.*; pip install"
    ):
        nvrtc.Nvrtc().compile(source(), ["f"], "sm_90")


def test_a_process_has_one_toolchain(monkeypatch: pytest.MonkeyPatch) -> None:
    before = toolchain.replace_toolchain(None)
    try:
        assert toolchain.current_toolchain() is toolchain.current_toolchain()
    finally:
        toolchain.replace_toolchain(before)


def test_the_cache_key_contains_the_content_of_every_header() -> None:
    names = {name for name, _ in own_source("elementwise.cu").headers}
    assert {"kernel.h", "functions.h", "fault.h", "opwright/functors.h"} <= names


def test_an_unknown_architecture_raises_an_error_with_the_log() -> None:
    with pytest.raises(KernelError, match="cannot compile f with -arch=sm_1"):
        nvrtc.Nvrtc().compile(source(), ["f"], "sm_1")
