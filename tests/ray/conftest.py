"""Provides a Ray cluster on this machine, and a training function for its workers."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Train = Callable[[dict[str, Any]], dict[str, float] | None]


@pytest.fixture(scope="session")
def ray() -> Any:
    """Return the module ray, or skip the test if it is not installed."""
    reason = "Ray is not installed in this environment; make test-ray installs it in one of its own"
    module = pytest.importorskip("ray", reason=reason)
    pytest.importorskip("ray.train", reason=reason)
    return module


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """Provide the only folder that Ray writes to; its path is short because it contains sockets."""
    path = Path(tempfile.mkdtemp(prefix="ray-"))
    (path / "ray").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", str(path))
        yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster(ray: Any, folder: Path) -> Iterator[Any]:
    """Provide a cluster of one machine."""
    ray.init(num_cpus=4, include_dashboard=False, _temp_dir=str(folder), logging_level="error")
    yield ray
    ray.shutdown()


@pytest.fixture
def train() -> Train:
    """Return a function that trains an MLP; its batch of 16 is divided among the workers.

    The argument has ``epochs`` and optionally ``fault``, code that the last worker runs in
    epoch 5 unless the training run was resumed.
    """

    def run(config: dict[str, Any]) -> None:  # imports are inside, since Ray pickles the function
        import hashlib
        import os
        import sys

        import numpy as np

        import opwright as ow
        import opwright_dist as dist
        import opwright_ray
        from opwright_nn import layers, optimizer

        r, n = dist.rank(), dist.size()
        rows = np.random.default_rng(0).normal(size=(16, 8)).astype(np.float32)
        main, startup = ow.Program(seed=1), ow.Program(seed=1)
        with ow.program_guard(main, startup):
            x, y = layers.data("x", [None, 8]), layers.data("y", [None, 1])
            error = layers.fc(layers.fc(x, 64, activation="tanh"), 1) - y
            loss = layers.mean(error * error)
            pairs = dist.data_parallel(ow.append_backward([loss]))
            optimizer.Adam(0.01).apply_gradients(pairs)
            dist.share_startup(startup)
        scope = ow.Scope()
        ow.Network(startup.global_block()).compile(fetch=[], scope=scope)()
        state = opwright_ray.resume(main, scope)
        step = ow.Network(main.global_block()).compile(feed=[x, y], fetch=[loss], scope=scope)
        part = rows[r * 16 // n : (r + 1) * 16 // n]
        first = 0 if state is None else state["epoch"]
        for epoch in range(first, config["epochs"]):
            if epoch == 5 and r == n - 1 and state is None:
                exec(config.get("fault", ""), {"os": os, "sys": sys})
            step(x=part, y=part.sum(axis=1, keepdims=True))
            values = [scope.find_var(p.name).numpy() for p, _ in pairs]
            bits = hashlib.sha256(b"".join(value.tobytes() for value in values)).hexdigest()
            every = dist.gather(bits.encode())
            assert len(set(every)) == 1, "the workers differ"
            metrics = {"first": first, "size": n, "sum": float(sum(v.sum() for v in values))}
            opwright_ray.report({**metrics, "bits": bits}, main, scope, state={"epoch": epoch + 1})

    return run
