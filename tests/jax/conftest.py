"""Fixtures for the tests of opwright inside JAX; without JAX, these tests are skipped."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from suites_apart import make_absent

HAS_JAX = importlib.util.find_spec("jax") is not None
sys.path[:0] = [str(Path(__file__).parents[1] / "std" / "operators"), str(Path(__file__).parent)]

N_DEVICES = 4
"""The number of devices into which JAX divides the CPU of this process."""


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Set the JAX environment before JAX is imported."""
    for name in [name for name in os.environ if name.startswith(("JAX_", "XLA_"))]:
        del os.environ[name]
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={N_DEVICES}"


def pytest_pycollect_makemodule(module_path: Path, parent: Any) -> pytest.Module | None:
    """Return a mark that skips a file if JAX is not installed."""
    return None if HAS_JAX else make_absent(parent, module_path, "JAX", "test-jax")


@pytest.fixture
def x64() -> Iterator[None]:
    """Enables JAX's 64-bit types."""
    import jax
    import numpy as np

    np.random.seed(0)  # noqa: NPY002 - the directions of check_grads
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)
