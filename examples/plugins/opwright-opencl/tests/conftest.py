"""Fixtures that run an operator on both devices, or a process with a different OpenCL."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import opwright as ow
from opwright.errors import DeviceNotFoundError
from opwright_opencl.device import DEVICES, OpenClDevice

Arrays = Mapping[str, np.ndarray]


@pytest.fixture(scope="session", autouse=True)
def device() -> OpenClDevice:
    """Return the first device; skip if no device works."""
    try:
        return DEVICES.open(0)
    except DeviceNotFoundError as error:
        pytest.skip(str(error))


@pytest.fixture
def run_on() -> Callable[..., list[np.ndarray]]:
    """Return a function that runs one operator on a device."""

    def run(
        device: str, op_type: str, arrays: Arrays, outputs: Sequence[str] = ("out",), **attrs: Any
    ) -> list[np.ndarray]:
        slots = {slot: slot for slot in arrays} | {slot: f"{slot}_found" for slot in outputs}
        network = ow.Network([ow.Operator(op_type, **slots, **attrs)])
        names = [f"{slot}_found" for slot in outputs]
        call = network.compile([*arrays], names, device=device, scope=ow.Scope(), passes=[])
        return call(**arrays)

    return run


@pytest.fixture
def both(run_on: Callable[..., list[np.ndarray]]) -> Callable[..., None]:
    """Return a function that compares an operator on OpenCL with the same operator on the host."""

    def check(
        op_type: str, arrays: Arrays, outputs: Sequence[str] = ("out",), **attrs: Any
    ) -> None:
        wanted, found = (
            run_on(device, op_type, arrays, outputs, **attrs) for device in ("cpu", "opencl")
        )
        for want, got in zip(wanted, found, strict=True):
            eps = np.finfo(got.dtype).eps
            scale = max(1.0, float(np.abs(want[np.isfinite(want)]).max(initial=0)))
            np.testing.assert_allclose(got, want, rtol=64 * eps, atol=64 * eps * scale)

    return check


@pytest.fixture
def in_process() -> Callable[..., str]:
    """Return a function that runs code in a process with different environment variables."""

    def run(code: str, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
