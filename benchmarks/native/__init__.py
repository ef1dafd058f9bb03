"""Small peer libraries and programs in C and C++, which are compiled at first use."""

from __future__ import annotations

import ctypes
import importlib.metadata
import shutil
import subprocess
from pathlib import Path

from workload import NotAvailableError

HERE = Path(__file__).parent
BUILT = HERE.parents[1] / "build" / "benchmarks"


def compile_library(source: str, *flags: str) -> ctypes.CDLL:
    """Compile ``native/<source>.cc`` with g++, cache the library under build/, and load it."""
    if shutil.which("g++") is None:
        raise NotAvailableError("no C++ compiler g++")
    code, library = HERE / f"{source}.cc", BUILT / f"{source}.so"
    if not library.exists() or library.stat().st_mtime < code.stat().st_mtime:
        BUILT.mkdir(parents=True, exist_ok=True)
        command = ["g++", "-std=c++17", "-O3", "-shared", "-fPIC", "-fopenmp"]
        subprocess.run([*command, code, "-o", library, *flags], check=True)
    return ctypes.CDLL(str(library))


def compile_program(source: Path, *flags: str) -> Path:
    """Compile a C program with cc, cache it under build/ and return its path."""
    if shutil.which("cc") is None:
        raise NotAvailableError("the C compiler cc is not installed")
    program = BUILT / source.stem
    BUILT.mkdir(parents=True, exist_ok=True)
    command = ["cc", "-std=c11", "-D_ISOC11_SOURCE", "-O2", source, "-o", program, *flags]
    subprocess.run(command, check=True)
    return program


def find_packaged(distribution: str, name: str) -> Path:
    """Return the folder of the first file called `name` in an installed Python package."""
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        raise NotAvailableError(f"the package {distribution} is not installed") from None
    for file in files:
        if file.name == name:
            return Path(str(file.locate())).resolve().parent
    raise NotAvailableError(f"the package {distribution} does not contain {name}")
