"""Installs this repository's packages on a machine with a GPU, without a package registry.

The packages are installed in the separate folder ``build/gpu/site``, which precedes the packages of
the interpreter. A virtual environment would hide the CUDA libraries, which are searched for next
to the interpreter. Missing dependencies are installed from the wheels in ``wheelhouse`` (``make
gpu-wheels``). If the packages of this repository could be built, this folder also contains
their wheels, which make compilation unnecessary as long as the sources are unchanged.

``install.py COMMAND ...`` installs, then runs a Python program, e.g. ``install.py x.py --flag``.
``install.py --make-wheels`` builds wheels of the packages for the interpreter that runs it.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import runpy
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
BUILD = ROOT / "build" / "gpu"
SITE = BUILD / "site"
WHEELHOUSE = ROOT / "wheelhouse"


class Need(NamedTuple):
    """A required or optional distribution.

    Attributes
    ----------
    name : str
        Its name in pip.
    least : str
        The oldest supported version.
    optional : str
        The tests that are skipped without it; empty if it is required.
    """

    name: str
    least: str
    optional: str = ""


NEEDS = (
    Need("numpy", "2.0"),
    Need("protobuf", "5.29"),
    Need("pluggy", "1.5"),
    Need("tqdm", "4.60"),
    Need("cuda-bindings", "13.0"),
    Need("cuda-pathfinder", "1.2"),
    Need("ml_dtypes", "0.5"),
    Need("pybind11", "2.13"),
    Need("scikit-build-core", "1.1"),
    Need("pathspec", "0.10"),
    Need("packaging", "23.2"),
    Need("pytest", "8.0"),
    Need("iniconfig", "1.0"),
    Need("hatchling", "1.24", "packages without native code are copied instead of built"),
    Need("trove-classifiers", "2024", "hatchling cannot be used"),
    Need("pytest-timeout", "2.3", "a test that hangs ends its section"),
    Need("cupy-cuda13x", "14.0", "tests of CuPy's arrays fail"),
    Need("nvidia-nccl-cu13", "2.28", "the tests of opwright-nccl fail"),
    Need("torch", "2.4", "nothing is compared with PyTorch"),
)
PURE = ("plugins/std", "plugins/nn", "plugins/kit", "plugins/cuda_emulator", "plugins/dist")
NATIVE = ("core", "plugins/cuda", "plugins/nccl")
EXTRA = "plugins/cpu"
OURS = WHEELHOUSE / "opwright"
"""Wheels of the packages, and in ``sources`` the digest of their sources."""


def to_numbers(version: str) -> tuple[int, ...]:
    """Return the leading numeric components of a version."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])


def is_met(need: Need) -> bool:
    """Return whether a distribution is installed and recent enough."""
    try:
        return to_numbers(importlib.metadata.version(need.name)) >= to_numbers(need.least)
    except importlib.metadata.PackageNotFoundError:
        return False


def find_wheel(name: str) -> Path | None:
    """Return the newest wheel of a distribution in the wheelhouse."""
    plain = re.sub(r"[-_.]+", "_", name).lower()
    wheels = [file for file in WHEELHOUSE.glob("*.whl") if file.name.split("-")[0].lower() == plain]
    return max(wheels, key=lambda file: to_numbers(file.name.split("-")[1])) if wheels else None


def pip_install(*args: str, log: Path | None = None, env: Mapping[str, str] | None = None) -> bool:
    """Install into the folder; on failure, print the reason and return False."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-index"]
    command += ["--no-deps", "--no-compile", "--no-cache-dir", "--upgrade", "--target", str(SITE)]
    done = subprocess.run(
        [*command, *args], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False,
    )  # fmt: skip
    if log is not None:
        log.write_text(done.stdout)
    if done.returncode:
        print("\n".join(done.stdout.splitlines()[-40:]), flush=True)
    return done.returncode == 0


def install_wheels() -> None:
    """Install missing packages together, since several share the folder ``cuda``."""
    missing = [need for need in NEEDS if not is_met(need)]
    wheels = {need.name: find_wheel(need.name) for need in missing}
    found = [str(wheel) for wheel in wheels.values() if wheel is not None]
    if found:
        print("from the wheelhouse:", ", ".join(Path(file).name for file in found), flush=True)
        if not pip_install(*found):
            raise SystemExit("install: the wheels cannot be installed; see above")
    absent = [need for need in missing if wheels[need.name] is None]
    for need in absent:
        print(f"absent: {need.name}>={need.least}", f"({need.optional or 'NEEDED'})", flush=True)
    needed = [f"{need.name}>={need.least}" for need in absent if not need.optional]
    if needed:
        raise SystemExit(
            f"install: {', '.join(needed)} must be installed or have wheels in {WHEELHOUSE.name}/, "
            "got neither; run `make gpu-wheels` on a machine with a registry and copy the wheels"
        )


def copy_pure(folder: Path) -> None:
    """Install a pure Python package as its wheel would, without its build backend."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    name = project["name"].replace("-", "_")
    version = runpy.run_path(str(folder / "src" / name / "_version.py"))["__version__"]
    for old in SITE.glob(f"{name}-*.dist-info"):
        shutil.rmtree(old)
    shutil.copytree(folder / "src" / name, SITE / name, dirs_exist_ok=True)
    info = SITE / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    described = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n"
    (info / "METADATA").write_text(described)
    (info / "RECORD").write_text("")
    lines = []
    for group, entries in project.get("entry-points", {}).items():
        lines += [f"[{group}]", *[f"{key} = {value}" for key, value in entries.items()]]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


def has_onednn() -> bool:
    """Return whether a distribution with the headers and library of oneDNN is installed."""
    return is_met(Need("onednn-devel-cpu-gomp", "2023.2"))


def native_settings(folder: str) -> list[str]:
    """Return the pip arguments for a package with native code."""
    if folder in PURE:
        return []
    settings = [f"--config-settings=build-dir={BUILD / 'native' / Path(folder).name}"]
    if folder == EXTRA and not has_onednn():
        settings.append("--config-settings=cmake.define.OPWRIGHT_CPU_ONEDNN=OFF")
    if folder == "core" and not is_met(Need("mypy", "2.4")):
        settings.append("--config-settings=cmake.define.OPWRIGHT_COMPILE_LOWERING=OFF")
    return settings


def build_native(folder: str, env: Mapping[str, str]) -> tuple[str, bool, float]:
    """Compile and install a package; return its folder, whether it succeeded, and the time in s."""
    began = time.monotonic()
    name = Path(folder).name
    log = BUILD / f"build-{name}.log"
    settings = native_settings(folder)
    worked = pip_install("--no-build-isolation", *settings, str(ROOT / folder), log=log, env=env)
    return folder, worked, time.monotonic() - began


def fingerprint(with_cpu: bool) -> str:
    """Return a digest of everything that is installed."""
    digest = hashlib.sha256(f"{sys.version_info[:2]} {with_cpu}".encode())
    for folder in (*NATIVE, *PURE, EXTRA):
        for file in sorted((ROOT / folder).rglob("*")):
            parts = file.relative_to(ROOT / folder).parts
            is_made = any(part in ("build", "__pycache__") or part[0] == "." for part in parts)
            if file.is_file() and not is_made:
                digest.update(f"{folder}/{'/'.join(parts)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def make_wheels() -> int:
    """Build a wheel of each package, without oneDNN; build requirements must be installed."""
    shutil.rmtree(OURS, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    command += ["--no-deps", "--no-build-isolation", "--wheel-dir", str(OURS)]
    for folder in (*NATIVE, *PURE, EXTRA):
        subprocess.run([*command, *native_settings(folder), str(ROOT / folder)], check=True)
    (OURS / "sources").write_text(fingerprint(True))
    return 0


def find_own_wheels(with_cpu: bool) -> list[str]:
    """Return the wheels, or [] if they were built from other sources or for another Python."""
    made_from = OURS / "sources"
    if not made_from.exists() or made_from.read_text() != fingerprint(True):
        return []
    left_out = "" if with_cpu else "opwright_cpu"
    names = sorted(file.name for file in OURS.glob("*.whl"))
    return [str(OURS / name) for name in names if name.split("-")[0] != left_out]


def environment(with_site: bool = True) -> dict[str, str]:
    """Return the environment for programs that use the packages; caches are in ``build``."""
    env = dict(os.environ)
    inside = {
        "TMPDIR": "tmp",
        "CUPY_CACHE_DIR": "cupy",
        "CUDA_CACHE_PATH": "driver",
        "TRITON_CACHE_DIR": "triton",
        "TORCHINDUCTOR_CACHE_DIR": "inductor",
        "XDG_CACHE_HOME": "user",
    }
    for name, folder in inside.items():
        env[name] = str(BUILD / folder)
        (BUILD / folder).mkdir(parents=True, exist_ok=True)
    env.setdefault("OPWRIGHT_CACHE_DIR", str(BUILD / "cache"))
    before = [env["PYTHONPATH"]] if env.get("PYTHONPATH") else []
    env["PYTHONPATH"] = os.pathsep.join([*([str(SITE)] if with_site else []), *before])
    env["PYTHONDONTWRITEBYTECODE"] = env["PYTHONUNBUFFERED"] = "1"
    # CMake is next to the interpreter; in containers, the programs of the driver and of CUDA are in
    # the other two folders.
    beside = str(Path(sys.executable).parent)
    for folder in (beside, "/usr/local/nvidia/bin", "/usr/local/cuda/bin"):
        if Path(folder).is_dir():
            env["PATH"] = os.pathsep.join([env.get("PATH", ""), folder])
    return env


def build_packages(with_cpu: bool, env: dict[str, str]) -> None:
    """Build the packages from source and install them."""
    has_hatchling = all(
        is_met(Need(name, "0")) for name in ("hatchling", "trove-classifiers", "pathspec")
    )
    for folder in PURE:
        if not has_hatchling:
            copy_pure(ROOT / folder)
        elif not pip_install("--no-build-isolation", str(ROOT / folder), env=env):
            raise SystemExit(f"install: {folder} cannot be installed; see above")
    natives = [*NATIVE, EXTRA] if with_cpu else list(NATIVE)
    jobs = int(env.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1)))
    with ThreadPoolExecutor(len(natives) if jobs > 4 else 1) as pool:
        for folder, worked, seconds in pool.map(lambda one: build_native(one, env), natives):
            print(f"{'built' if worked else 'NOT BUILT'}: {folder} in {seconds:.0f} s", flush=True)
            if not worked and folder != EXTRA:
                raise SystemExit(f"install: {folder} cannot be built; see above and {BUILD}")


def install(with_cpu: bool = True) -> dict[str, str]:
    """Install everything that has changed; return the environment for programs that use it."""
    env = environment()
    SITE.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(SITE))
    stamp = BUILD / "installed"
    digest = fingerprint(with_cpu)
    if stamp.exists() and stamp.read_text() == digest:
        print(f"installed already: {digest}", flush=True)
        return env
    stamp.unlink(missing_ok=True)
    began = time.monotonic()
    install_wheels()
    wheels = find_own_wheels(with_cpu)
    if not wheels:
        build_packages(with_cpu, env)
    elif not pip_install(*wheels):
        raise SystemExit(f"install: the wheels in {OURS} cannot be installed; see above")
    print(f"installed in {time.monotonic() - began:.0f} s: {digest}", flush=True)
    stamp.write_text(digest)
    return env


def main(arguments: Sequence[str]) -> int:
    """Install and run a program, or build the wheels."""
    if list(arguments) == ["--make-wheels"]:
        return make_wheels()
    env = install()
    return subprocess.run([sys.executable, *arguments], env=env, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
