"""What all tests share: a plugin index of their own, and devices that may be absent."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import opwright as ow


@pytest.fixture(scope="session", autouse=True)
def own_cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the tests, and the processes that they start, a plugin index of their own."""
    folder = tmp_path_factory.mktemp("cache")
    users = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    os.environ.setdefault("PIP_CACHE_DIR", str(users / "pip"))  # downloads are worth sharing
    os.environ["XDG_CACHE_HOME"] = str(folder)
    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests for CUDA where there is no NVIDIA driver."""
    if shutil.which("nvidia-smi"):
        return
    skip = pytest.mark.skip(reason="no NVIDIA GPU on this machine")
    for item in items:
        if item.get_closest_marker("cuda"):
            item.add_marker(skip)


@pytest.fixture
def reference_kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[ow.Context]:
    """Use a Context of opwright-std alone: every operator runs its NumPy kernel."""
    monkeypatch.setenv("OPWRIGHT_PLUGINS", "std")
    with ow.context_guard(ow.Context.discover()) as context:
        yield context
