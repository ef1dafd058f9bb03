"""Fixtures for the tests of opwright inside PyTorch; without PyTorch, these tests are skipped."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from suites_apart import make_absent

HAS_TORCH = importlib.util.find_spec("torch") is not None
if HAS_TORCH:
    sys.path[:0] = [
        str(Path(__file__).parent / room)
        for room in ("translate", "opinfo", "models", "train_step")
    ]

USERS_PREFIXES = ("TORCH", "PYTORCH", "HF_", "HUGGING", "TRANSFORMERS_", "TRITON_", "TIMM_")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Set environment variables for PyTorch and model packages, after those for all tests."""
    config.addinivalue_line("filterwarnings", r"ignore::DeprecationWarning:torch\..*")
    config.addinivalue_line("filterwarnings", r"ignore::FutureWarning:torch\..*")
    for name in [name for name in os.environ if name.startswith(USERS_PREFIXES)]:
        del os.environ[name]
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path.home() / "inductor")
    os.environ["HF_HUB_OFFLINE"] = "1"
    if HAS_TORCH:
        import torch

        torch.set_num_threads(1)


def pytest_pycollect_makemodule(module_path: Path, parent: Any) -> pytest.Module | None:
    """Return the marker that skips a file if PyTorch is not installed."""
    return None if HAS_TORCH else make_absent(parent, module_path, "PyTorch", "test-torch")


@pytest.fixture(autouse=True)
def _forget_compiled_graphs() -> Iterator[None]:
    import torch._dynamo

    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
