"""Builds the wheels of all packages, and installs them in a virtual environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Mapping
from pathlib import Path

import pytest

from example_wheels import LARGE_WHEELS
from installed_releases import pinned

ROOT = Path(__file__).parents[2]


class Environment:
    """A virtual environment, used from `folder` as a user would: with pip, scripts and commands.

    It uses the pip of the test environment, since copying and compiling pip would take longer than
    everything else.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "env" / "bin"
        venv.create(folder / "env")

    def run(self, *command: str | Path, **variables: str) -> str:
        """Run a command of the environment's bin folder and return its output."""
        program, *arguments = [str(part) for part in command]
        return self._run([str(self.bin / program), *arguments], self.folder, variables)

    def shell(self, line: str, folder: Path) -> str:
        """Run a line as a user types it in a folder, with the environment active."""
        return self._run(["sh", "-c", line], folder)

    def _run(
        self, command: list[str], folder: Path, variables: Mapping[str, str] | None = None
    ) -> str:
        # OPWRIGHT_ variables are also removed; other tests set some of them for the emulated GPU.
        env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "OPWRIGHT_")) and name != "VIRTUAL_ENV"
        }
        env["XDG_CACHE_HOME"] = str(self.folder / "cache")
        env["PATH"] = f"{self.bin}{os.pathsep}{env['PATH']}"
        env |= variables or {}
        done = subprocess.run(
            command,
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def python(self, code: str) -> str:
        return self.run("python", "-W", "error", "-c", code)

    def install(self, *what: str | Path) -> None:
        """Install packages in the same releases as in the test environment."""
        self._pip("install", "--no-compile", *what, **pinned(self.folder))

    def install_release(self, requirement: str, target: Path) -> None:
        """Install one project into a folder, in any release that meets the requirement."""
        self._pip("install", "--no-compile", "--no-deps", "--target", target, requirement)

    def uninstall(self, name: str) -> None:
        self._pip("uninstall", "--yes", name)

    def _pip(self, command: str, *words: str | Path, **variables: str) -> None:
        # pip can use the build tools of the test environment; CMake would be a download of 30 MB.
        tools = (
            f"{self.bin}{os.pathsep}{os.environ['PATH']}{os.pathsep}{Path(sys.executable).parent}"
        )
        program = [sys.executable, "-m", "pip", "--python", str(self.bin / "python")]
        options = ["--disable-pip-version-check", "--quiet"]
        variables["PATH"] = tools
        self._run([*program, *options, command, *map(str, words)], self.folder, variables)


def copy_sources(folder: Path) -> Path:
    """Copy the files that git tracks or would add, since wheels must not need other files."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in set(listed.stdout.splitlines()):
        if (ROOT / name).is_file() or (ROOT / name).is_symlink():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return folder


def build_wheel(package: Path, folder: Path) -> None:
    """Build a wheel as pip does without isolation, but without the overhead of pip."""
    project = tomllib.loads((package / "pyproject.toml").read_text())
    backend = project["build-system"]["build-backend"]
    code = f"import {backend} as backend; backend.build_wheel({str(folder)!r})"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=package, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with copies of the files that git tracks."""
    return copy_sources(tmp_path_factory.mktemp("sources"))


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Build the wheel of every package in place, reusing the objects of `make venv`.

    Another test checks that source distributions do not need files that are present by chance.
    """
    folder = tmp_path_factory.mktemp("wheels")
    for path in [ROOT / "core", *sorted((ROOT / "plugins").iterdir())]:
        if (path / "pyproject.toml").exists():
            build_wheel(path, folder)
    return sorted(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def environment(wheels: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with only the wheels and their requirements.

    It lacks Ray, the requirements of opwright-cuda and a CUDA driver.
    """
    large = [wheel for wheel in wheels if wheel.name.startswith(LARGE_WHEELS)]
    made = Environment(tmp_path_factory.mktemp("installed"))
    made.install(*(wheel for wheel in wheels if wheel not in large))
    made.install("--no-deps", *large)
    return made


@pytest.fixture(scope="session")
def bare_environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An empty environment."""
    return Environment(tmp_path_factory.mktemp("bare"))


@pytest.fixture(scope="session")
def testing_environment(environment: Environment) -> Environment:
    """The environment with the wheels and pytest, for the tests that packages contain."""
    environment.install("pytest")
    return environment
