"""A package without code for JAX works in JAX unchanged."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from example_wheels import build_example_wheel

SCRIPT = """
import jax, jax.numpy as jnp, numpy as np
from opwright_jax import ops

x = jnp.linspace(-2, 2, 12).reshape(3, 4)
truth = lambda x: x * jax.nn.sigmoid(2.0 * x)
swish = lambda x: ops.acme.swish(x, beta=2.0)
for run in (lambda f: f, jax.jit, jax.vmap, lambda f: jax.grad(lambda x: (f(x) ** 2).sum())):
    np.testing.assert_allclose(run(swish)(x), run(truth)(x), rtol=1e-5, atol=1e-6)
print("done")
"""


def test_operators_of_an_installed_package_work_under_every_transformation(tmp_path: Path) -> None:
    wheel = build_example_wheel("opwright-swish", tmp_path / "wheels")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    child = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
    )  # fmt: skip
    assert child.stdout.strip() == "done", child.stderr
