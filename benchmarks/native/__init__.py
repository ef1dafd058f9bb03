"""Small libraries and programs that benchmarks compare with, compiled when they are used."""

from __future__ import annotations

import ctypes
import importlib.metadata
import shutil
import subprocess
from pathlib import Path

from contest import NotAvailableError

HERE = Path(__file__).parent
BUILT = HERE.parents[1] / "build" / "benchmarks"


def compile_library(source: str, *flags: str) -> ctypes.CDLL:
    """Return ``native/<source>.cc`` compiled by g++ and loaded; kept below build/."""
    if shutil.which("g++") is None:
        raise NotAvailableError("no C++ compiler g++")
    code, library = HERE / f"{source}.cc", BUILT / f"{source}.so"
    if not library.exists() or library.stat().st_mtime < code.stat().st_mtime:
        BUILT.mkdir(parents=True, exist_ok=True)
        command = ["g++", "-std=c++17", "-O3", "-shared", "-fPIC", "-fopenmp"]
        subprocess.run([*command, code, "-o", library, *flags], check=True)
    return ctypes.CDLL(str(library))


def compile_program(source: Path, *flags: str) -> Path:
    """Return a C program compiled by cc; kept below build/."""
    if shutil.which("cc") is None:
        raise NotAvailableError("no C compiler cc")
    program = BUILT / source.stem
    BUILT.mkdir(parents=True, exist_ok=True)
    command = ["cc", "-std=c11", "-D_ISOC11_SOURCE", "-O2", source, "-o", program, *flags]
    subprocess.run(command, check=True)
    return program


def find_packaged(distribution: str, name: str) -> Path:
    """Return the folder of the first file called `name` that a Python package installed."""
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        raise NotAvailableError(f"the package {distribution} is not installed") from None
    for file in files:
        if file.name == name:
            return Path(str(file.locate())).resolve().parent
    raise NotAvailableError(f"the package {distribution} has no {name}")
