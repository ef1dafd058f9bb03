"""Fixtures for all tests: a separate home folder, and devices that can be absent."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import opwright as ow
from opwright.lowering.graph import graph

sys.path.insert(0, str(Path(__file__).parent / "support"))

from every_case import EVERY, is_one_in


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Set up a separate home directory for the tests and their processes before anything else."""
    from own_home import move_in

    home = Path(tempfile.mkdtemp(prefix="opwright-home-"))
    config.add_cleanup(partial(shutil.rmtree, home, ignore_errors=True))
    move_in(home, os.environ)
    # Compiled kernels are kept between runs if the variable is set, since compiling is slow.
    os.environ.setdefault("OPWRIGHT_EMULATOR_DIR", str(home / "emulator"))
    # Background jobs of a shell ignore Ctrl-C, and processes started by tests would inherit this.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionstart() -> None:
    """Refuse to test compiled modules that are older than their Python sources."""
    core = Path(__file__).parents[1] / "core"
    sources = core.glob("src/opwright/lowering/*/*.py")
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    translated = [*core.glob(f"build/{tag}-*/native/lowering/translated")]
    if graph.__file__.endswith(".py") or not translated:
        return  # interpreted, or wheels are tested
    newest = max(path.stat().st_mtime for path in translated)
    if changed := [path.name for path in sources if path.stat().st_mtime > newest]:
        pytest.exit(f"{', '.join(sorted(changed))}: changed after compilation; run `make venv`", 2)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """Restore the number of threads after each test."""
    before = ow.get_num_threads()
    result = yield
    if ow.get_num_threads() != before:
        ow.set_num_threads(before)
    return result


FIRST_PART = ("std", "cuda", "cuda_emulator", "dist", "mpi", "nccl", "kit")
"""Folders of the tests that run in parallel with other tests: half of all, by time."""

HAS_GPU = shutil.which("nvidia-smi") is not None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests that this machine or run excludes, with reasons; mark the `first_part` tests."""
    sample_grids(config, items)
    skip = pytest.mark.skip(reason="no NVIDIA GPU on this machine")
    folders = {Path(__file__).parent / name for name in FIRST_PART}
    for item in items:
        if item.get_closest_marker("cuda_kernels") or folders.intersection(item.path.parents):
            item.add_marker("first_part")
        if item.get_closest_marker("cuda") and not HAS_GPU:
            item.add_marker(skip)
        if (long := item.get_closest_marker("long")) and not EVERY:
            why = f"only `make test-all` runs it: {long.args[0]}"
            item.add_marker(pytest.mark.skip(reason=why))


def sample_grids(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect most cases of the tests that are marked as grids, unless all are requested.

    The first case of each test always runs. If the command selects cases, by ``[...]`` or ``-k``,
    nothing is deselected.
    """
    if EVERY or config.option.keyword or any("[" in word for word in config.args):
        return
    tests: set[str] = set()
    left_out = set()
    for item in items:
        test = item.nodeid.partition("[")[0]
        grid = item.get_closest_marker("grid")
        if test in tests and grid and not is_one_in(grid.args[0], item.name):
            left_out.add(item)
        tests.add(test)
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """To save time, ignore the `FIRST_PART` folders if the run excludes the mark `first_part`."""
    if config.getoption("markexpr") != "not first_part":
        return None
    folders = {Path(__file__).parent / name for name in FIRST_PART}
    return True if collection_path in folders else None


@pytest.fixture(scope="session")
def gpu(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Provide the GPU of the machine, or otherwise the emulated GPU with its driver."""
    if HAS_GPU:
        yield None
        return
    from emulated_gpu import emulate

    kernels = [item for item in request.session.items if item.get_closest_marker("cuda_kernels")]
    yield from emulate(Path(os.environ["OPWRIGHT_EMULATOR_DIR"]), kernels)


@pytest.fixture(scope="session")
def emulator_folder() -> Path:
    """Return the folder with the compiled emulator kernels; all test files share it."""
    return Path(os.environ["OPWRIGHT_EMULATOR_DIR"])


@pytest.fixture(scope="session")
def toy() -> ModuleType:
    """Return the module that defines toy operators; no package registers them."""
    return import_module("toy_operators")


@pytest.fixture(scope="session")
def cosine_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of the C++ and CUDA example."""
    from example_wheels import build_example_wheel

    return build_example_wheel("opwright-cosine", tmp_path_factory.mktemp("cosine_wheel"))


@pytest.fixture(scope="session")
def cosine_site(cosine_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with opwright-cosine, laid out as pip installs it."""
    folder = tmp_path_factory.mktemp("cosine_site")
    with zipfile.ZipFile(cosine_wheel) as wheel:
        wheel.extractall(folder)
    return folder


@pytest.fixture(autouse=True)
def gpu_for_kernels(request: pytest.FixtureRequest) -> None:
    """Provide a GPU to the tests that run CUDA kernels."""
    if request.node.get_closest_marker("cuda_kernels"):
        request.getfixturevalue("gpu")


@pytest.fixture
def reference_kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[ow.Context]:
    """Use a context with only opwright-std, in which every operator runs its NumPy kernel."""
    monkeypatch.setenv("OPWRIGHT_PLUGINS", "std")
    with ow.context_guard(ow.Context.discover()) as context:
        yield context
