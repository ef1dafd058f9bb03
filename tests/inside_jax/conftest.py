"""What tests of opwright inside JAX share; where JAX is not installed they are skipped."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from every_case import EVERY, is_one_in

HAS_JAX = importlib.util.find_spec("jax") is not None
sys.path[:0] = [str(Path(__file__).parents[1] / "operators"), str(Path(__file__).parent)]

ONE_FOR_EACH_OPERATOR = ("test_operators.py", "test_pairs.py")
"""Files with a case for each operator, or several."""

N_DEVICES = 4
"""Of the CPU, as which JAX takes this process."""


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Set the environment of JAX, before it is imported."""
    for name in [name for name in os.environ if name.startswith(("JAX_", "XLA_"))]:
        del os.environ[name]
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={N_DEVICES}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out all but a few of the cases that each operator has, unless every one is wanted."""
    left_out = [
        item
        for item in items
        if item.path.name in ONE_FOR_EACH_OPERATOR
        and hasattr(item, "callspec")
        and not (EVERY or is_one_in(24, item.name))
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


class Absent(pytest.Module):
    """A file of tests that needs JAX."""

    def collect(self) -> Any:
        """Skip the file."""
        pytest.skip("JAX is not installed; make test-jax installs it", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: Any) -> pytest.Module | None:
    """Return what skips a file where JAX is not installed."""
    return None if HAS_JAX else Absent.from_parent(parent, path=module_path)


@pytest.fixture
def x64() -> Iterator[None]:
    """Gives JAX its 64-bit types."""
    import jax
    import numpy as np

    np.random.seed(0)  # noqa: NPY002 - the directions of check_grads
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)
