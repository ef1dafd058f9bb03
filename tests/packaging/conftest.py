"""Wheels of all packages, and a virtual environment that holds nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


class Environment:
    """A virtual environment, used as a person would: pip, scripts and commands, from `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "env" / "bin"
        venv.create(folder / "env", with_pip=True)

    def run(self, *command: str | Path) -> str:
        """Run a command of the environment's bin folder and return what it prints."""
        program, *arguments = [str(part) for part in command]
        return self._run([str(self.bin / program), *arguments], self.folder)

    def shell(self, line: str, folder: Path) -> str:
        """Run a line as a person types it in a folder, the environment being active."""
        return self._run(["sh", "-c", line], folder)

    def _run(self, command: list[str], folder: Path) -> str:
        names = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "OPWRIGHT_PLUGINS", "OPWRIGHT_STRICT")
        env = {name: value for name, value in os.environ.items() if name not in names}
        env["XDG_CACHE_HOME"] = str(self.folder / "cache")
        env["PATH"] = f"{self.bin}{os.pathsep}{env['PATH']}"
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
        self.run("pip", "--disable-pip-version-check", "install", "--quiet", *what)


def copy_sources(folder: Path) -> Path:
    """Copy what git knows or would add: a wheel must need nothing that lies about by chance."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in set(listed.stdout.splitlines()):
        if (ROOT / name).is_file() or (ROOT / name).is_symlink():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return folder


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what git knows of the repository."""
    return copy_sources(tmp_path_factory.mktemp("sources"))


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Build the wheel of every package where it lies: what `make venv` has compiled is used again.

    That source distributions need nothing that lies about by chance is tested by themselves.
    """
    folder = tmp_path_factory.mktemp("wheels")
    packages = [ROOT / "core", *sorted((ROOT / "plugins").iterdir())]
    folders = [str(path) for path in packages if (path / "pyproject.toml").exists()]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    command += ["--no-build-isolation", "--no-deps", "--wheel-dir", str(folder), *folders]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def make_environment(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Environment]:
    """Return a function that makes an environment and installs into it what it is given."""

    def make(name: str, *what: str | Path) -> Environment:
        made = Environment(tmp_path_factory.mktemp(name))
        made.install(*what)
        return made

    return make


@pytest.fixture(scope="session")
def environment(wheels: list[Path], make_environment: Callable[..., Environment]) -> Environment:
    """An environment with the wheels and what they require, nothing else.

    Of CUDA there is nothing: neither what opwright-cuda requires, a gigabyte, nor a driver.
    """
    [cuda] = [wheel for wheel in wheels if wheel.name.startswith("opwright_cuda")]
    made = make_environment("installed", *(wheel for wheel in wheels if wheel != cuda))
    made.install("--no-deps", cuda)
    return made
