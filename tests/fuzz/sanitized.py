"""Builds, on demand, an environment whose native code is checked by AddressSanitizer and UBSan."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PLACE = ROOT / "build/fuzz"
SANITIZERS = "address,undefined"

SLOWNESS = 6.0
"""The factor by which the time limit of a case is longer."""

_NATIVE = ("core", "plugins/cpu")
_PYTHON = ("plugins/std", "plugins/nn")
_TOOLS = ("pytest>=8.3", "ml_dtypes>=0.5")


def prepare() -> tuple[str, dict[str, str]]:
    """Build what is missing; return the interpreter and its environment variables."""
    python = PLACE / "venv/bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(PLACE / "venv")], check=True)
    wheels = PLACE / "wheels"
    for package in _NATIVE:
        _build(package, wheels, _native_settings(package))
    for package in _PYTHON:
        _build(package, wheels, [])
    newest = [str(max(wheels.glob(f"{name}-*.whl"), key=_age)) for name in _names()]
    install = [str(python), "-m", "pip", "--quiet", "install"]
    subprocess.run([*install, *newest, *_TOOLS], check=True)
    subprocess.run([*install, "--no-deps", "--force-reinstall", *newest], check=True)
    return str(python), _environ()


def _names() -> list[str]:
    return ["opwright", "opwright_cpu", "opwright_std", "opwright_nn"]


def _age(path: Path) -> float:
    return path.stat().st_mtime


def _build(package: str, wheels: Path, settings: list[str]) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "wheel", "--no-build-isolation", "--no-deps"]
    command += ["--wheel-dir", str(wheels), *settings, str(ROOT / package)]
    subprocess.run(command, check=True)


def _native_settings(package: str) -> list[str]:
    """Return the settings for the sanitized, cached build of a native package."""
    settings = {
        "build-dir": str(PLACE / package),
        "cmake.build-type": "RelWithDebInfo",
        "cmake.define.OPWRIGHT_SANITIZE": SANITIZERS,
        "cmake.define.CMAKE_CXX_FLAGS_RELWITHDEBINFO": "-O1 -g1",
        "install.strip": "false",
    }
    return [f"--config-settings={key}={value}" for key, value in settings.items()]


def _environ() -> dict[str, str]:
    """Return environment variables that let an ordinary interpreter load sanitized libraries."""
    libraries = [_find_library(name) for name in ("libasan.so", "libubsan.so", "libstdc++.so")]
    return {
        "LD_PRELOAD": " ".join(libraries),
        # Leaks are not detected, since Python does not free all memory at exit. The size of single
        # allocations is limited, instead of the size of the process. The limit is half the growth
        # that counts as a fault, so a successful allocation alone is not a fault.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=512:"
        "quarantine_size_mb=32:exitcode=99",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=99",
        "PYTHONMALLOC": "malloc",
    }


def _find_library(name: str) -> str:
    command = [os.environ.get("CXX", "g++"), f"-print-file-name={name}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return str(Path(done.stdout.strip()).resolve())
