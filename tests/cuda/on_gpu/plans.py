"""Compiles small networks and runs separate processes for the tests on a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import opwright as ow

DEVICES = ("cuda", "cpu")


def compiled(
    ops: Sequence[ow.Operator],
    feed: Sequence[str] = (),
    fetch: Sequence[str] = (),
    scope: ow.Scope | None = None,
    **options: Any,
) -> tuple[ow.Network, Any]:
    """Return a network and its compiled form, by default for the GPU."""
    network = ow.Network(list(ops))
    options.setdefault("device", "cuda")
    return network, network.compile(
        feed=list(feed), fetch=list(fetch), scope=scope or ow.Scope(), **options
    )


def run_program(text: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a separate process."""
    env: Mapping[str, str] = {**os.environ, **environ}
    return subprocess.run(
        [sys.executable, "-c", text], env=env, capture_output=True, text=True, timeout=100,
        check=False,
    )  # fmt: skip
