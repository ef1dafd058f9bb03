"""Prints hardware, driver and versions of the test machine, first as text, then as a JSON line.

Each item is collected independently; if an item is unavailable, the reason is shown instead.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

QUERY = (
    "name,driver_version,memory.total,clocks.sm,clocks.max.sm,clocks.mem,power.limit,"
    "temperature.gpu,mig.mode.current"
)
DISTRIBUTIONS = (
    "cupy-cuda13x", "cuda-bindings", "cuda-pathfinder", "nvidia-cuda-nvrtc", "nvidia-cublas",
    "nvidia-cudnn-cu13", "nvidia-nccl-cu13", "torch", "triton", "numpy", "protobuf", "pluggy",
    "pybind11", "scikit-build-core", "ml_dtypes", "pytest", "opwright",
    "opwright-std", "opwright-nn", "opwright-cuda", "opwright-cpu",
)  # fmt: skip


def first_line(*command: str) -> str:
    """Run a program and return the last line of its output."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip().splitlines()[-1]


def query_gpu() -> dict[str, str]:
    """Return the properties of the GPU according to nvidia-smi."""
    answer = first_line("nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader", "-i", "0")
    return dict(zip(QUERY.split(","), map(str.strip, answer.split(",")), strict=True))


def describe_gpu() -> dict[str, Any]:
    """Describe the GPUs that are visible to opwright-cuda."""
    from opwright_cuda import native

    info = native.describe_gpu(0)
    return {**info._asdict(), "arch": info.arch, "gpus": native.count_gpus()}


def find_cublaslt() -> int:
    """Return the cuBLASLt version that the CUDA loader finds."""
    from cuda.pathfinder import load_nvidia_dynamic_lib

    path = load_nvidia_dynamic_lib("cublasLt").abs_path
    library = ctypes.CDLL(path)
    library.cublasLtGetVersion.restype = ctypes.c_size_t
    return int(library.cublasLtGetVersion())


def find_cudnn() -> int | str:
    """Return the cuDNN version that convolutions use, or the reason why none is available."""
    from opwright_cuda import cudnn, native

    return cudnn.find_refusal() or native.cudnn_version()


def find_nvrtc() -> str:
    """Return the version of the compiler that opwright-cuda uses."""
    from opwright_cuda.compile.nvrtc import Nvrtc

    return Nvrtc().version


def find_l2() -> int:
    """Return the size of the L2 cache in bytes."""
    import cupy

    return int(cupy.cuda.runtime.getDeviceProperties(0)["l2CacheSize"])


def find_torch() -> dict[str, Any]:
    """Return the architectures that the PyTorch build supports."""
    import torch

    return {
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "sees a GPU": torch.cuda.is_available(),
    }


def find_commit() -> str:
    """Return the commit given in OPWRIGHT_COMMIT, or otherwise HEAD."""
    given = os.environ.get("OPWRIGHT_COMMIT", "")
    if given:
        return given
    root = Path(__file__).parents[3]
    return first_line("git", "-C", str(root), "rev-parse", "HEAD")


def find_versions() -> dict[str, str]:
    """Return the versions of installed packages."""
    found = {}
    for name in DISTRIBUTIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


FACTS: dict[str, Callable[[], Any]] = {
    "nvidia-smi": query_gpu,
    "gpu": describe_gpu,
    "l2 bytes": find_l2,
    "nvcc": lambda: first_line("nvcc", "--version"),
    "nvrtc": find_nvrtc,
    "cublasLt": find_cublaslt,
    "cudnn": find_cudnn,
    "torch": find_torch,
    "versions": find_versions,
    "python": lambda: f"{platform.python_version()} at {sys.executable}",
    "system": platform.platform,
    "cpus": os.cpu_count,
    "commit": find_commit,
}


def main() -> None:
    """Print all facts."""
    found: dict[str, Any] = {}
    for name, find in FACTS.items():
        try:
            found[name] = find()
        except Exception as error:  # noqa: BLE001 - anything may be missing on a bare machine
            found[name] = f"unknown: {type(error).__name__}: {error}".splitlines()[0]
        print(f"{name:12}{found[name]}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
