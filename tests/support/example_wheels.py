"""Builds wheels of the example packages, compiled once for all test processes."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "plugins"
WARNINGS = "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"

LARGE_WHEELS = tuple(f"opwright_{name}" for name in ("cuda", "nccl", "ray", "torch", "onnx", "jax"))
"""Wheels that require large packages."""


def build_example_wheel(name: str, folder: Path) -> Path:
    """Build the wheel of an example with plain pip; return it.

    The wheel is built in place, so objects compiled by other processes are reused.

    Parameters
    ----------
    name : str
        Distribution: ``"opwright-cosine"``.
    folder : Path
        The folder of the wheel.
    """
    source = EXAMPLES / name
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    command += ["--no-build-isolation", "--no-deps", "--wheel-dir", str(folder), str(source)]
    if (source / "CMakeLists.txt").exists():
        command += [f"--config-settings=cmake.define.CMAKE_CXX_FLAGS={WARNINGS}"]
    (source / "build").mkdir(exist_ok=True)
    with (source / "build" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel] = folder.glob(f"{name.replace('-', '_')}-*.whl")
    return wheel
